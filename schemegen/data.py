"""Where the data files that ship with schemegen lie."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from schemegen.errors import SchemeFault, SchemeFileError

PACKAGE: Final = Path(__file__).parent


def schemes_folder(package: Path = PACKAGE) -> Path:
    """The folder of the built-in schemes: beside the modules in a wheel, beside the package in a source tree.

    SchemeFileError when it is in neither place.
    """
    for folder in (package / "schemes", package.parent / "schemes"):
        if (folder / "policies").is_dir():
            return folder
    raise SchemeFileError(
        [SchemeFault(str(package / "schemes"), "", "the built-in scheme files are missing; reinstall schemegen")]
    )
