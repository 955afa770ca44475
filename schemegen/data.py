"""Where schemegen's files lie: data that ship with it, and what it can make or fetch again."""

from __future__ import annotations

import os
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


def cache_home() -> Path | None:
    """The user's cache, or None for a user without a home."""
    if home := os.environ.get("SCHEMEGEN_CACHE"):
        return Path(home).expanduser()
    from platformdirs import user_cache_path

    try:
        cache = user_cache_path("schemegen")
    except (RuntimeError, OSError):
        # Neither the environment nor the system's list of users names a home, or the folder cannot be looked up.
        return None
    # It is relative, to wherever somebody stands, for a user without a home.
    return cache if cache.is_absolute() else None
