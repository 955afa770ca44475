"""Finds what a MODEL argument means: a sample, a folder, or nothing that can be opened."""

from __future__ import annotations

import difflib
import re
from contextlib import suppress
from pathlib import Path
from typing import Final

from schemegen.checkpoint.local import open_local
from schemegen.checkpoint.model import Checkpoint
from schemegen.errors import CheckpointError, UnsupportedError

SAMPLE_PREFIX: Final = "sample:"
_HUB_ID: Final = re.compile(r"(?:https?://(?:huggingface\.co|hf\.co)/)?([A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)/?")


def open_source(model: str, revision: str | None = None) -> Checkpoint:
    """The checkpoint that a MODEL argument names; see `open_checkpoint`."""
    if model.startswith(SAMPLE_PREFIX):
        from schemegen.checkpoint.sample import open_sample

        return open_sample(model.removeprefix(SAMPLE_PREFIX))
    path = Path(model)
    if model and _exists(path):
        return open_local(path)
    raise _missing(model, path)


def _exists(path: Path) -> bool:
    # A name that is too long or may not be looked at is as good as missing.
    with suppress(OSError, ValueError):
        return path.exists()
    return False


def _missing(model: str, path: Path) -> CheckpointError | UnsupportedError:
    if (hub := _HUB_ID.fullmatch(model)) and not _exists(Path(path.parts[0])):
        name = hub[1]
        folder = name.partition("/")[2]
        return UnsupportedError(
            f"reading {name} from the Hub by its id is not offered yet; download it with "
            f"'hf download {name} --local-dir {folder}' and give the folder {folder}"
        )
    near = _near(path)
    hint = f"did you mean {' or '.join(near)}?" if near else "give a model's folder or sample:qwen3.6-moe"
    return CheckpointError(f"there is no folder {model!r}; {hint}")


def _near(path: Path) -> list[str]:
    """Folders beside the missing one with a name much like it."""
    with suppress(OSError, ValueError):
        names = [entry.name for entry in path.parent.iterdir() if entry.is_dir()]
        near = difflib.get_close_matches(path.name, names, n=3)
        return [str(path.with_name(name)) for name in near if name.isprintable()]
    return []
