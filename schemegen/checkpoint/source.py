"""Finds what a MODEL argument means: a sample, a folder, a model on the Hub, or nothing that can be opened."""

from __future__ import annotations

import difflib
from contextlib import suppress
from pathlib import Path
from typing import Final

from schemegen.checkpoint.hub.names import HubName, hub_name
from schemegen.checkpoint.local import open_local
from schemegen.checkpoint.model import Checkpoint
from schemegen.errors import CheckpointError, shortened

SAMPLE_PREFIX: Final = "sample:"


def open_source(given: str | Path, revision: str | None = None) -> Checkpoint:
    """The checkpoint that a MODEL argument names; see `open_checkpoint`."""
    model = str(given)
    if model.startswith(SAMPLE_PREFIX):
        from schemegen.checkpoint.sample import open_sample

        return _of_no_other_revision(open_sample(model.removeprefix(SAMPLE_PREFIX)), model, revision)
    path = Path(model)
    if model and _exists(path):
        return _of_no_other_revision(open_local(path), model, revision)
    if not isinstance(given, Path) and (name := hub_name(model)):
        return _open_hub(_at(name, revision), path)
    raise _missing(model, path)


def named_on_hub(model: str | Path) -> HubName | None:
    """The model on the Hub that a MODEL argument names; None where it is a sample or a folder."""
    if isinstance(model, Path) or model.startswith(SAMPLE_PREFIX) or _exists(Path(model)):
        return None
    return hub_name(model)


def _of_no_other_revision(checkpoint: Checkpoint, model: str, revision: str | None) -> Checkpoint:
    """The checkpoint, unless another revision of it is asked for than the one that is there."""
    if revision in (None, checkpoint.revision):
        return checkpoint
    held = f"it holds {checkpoint.revision}" if checkpoint.revision else "it has none"
    raise CheckpointError(
        f"--revision {revision} is for a Hub id, and {shortened(model)} is on disk: {held}; leave --revision out"
    )


def _at(name: HubName, revision: str | None) -> HubName:
    if name.revision is not None and revision not in (None, name.revision):
        raise CheckpointError(
            f"the address of {name.repo} names revision {name.revision!r} and --revision {revision!r}; give one of them"
        )
    return HubName(name.repo, revision or name.revision)


def _open_hub(name: HubName, path: Path) -> Checkpoint:
    """The model on the Hub; an error tells of folders too where the name may have been meant as one."""
    from schemegen.checkpoint.hub.opening import open_hub

    try:
        return open_hub(name)
    except CheckpointError as error:
        if near := _near(path):
            error.add_note(f"there is no folder {str(path)!r} either: did you mean {' or '.join(near)}?")
        raise


def _exists(path: Path) -> bool:
    # A name that is too long or may not be looked at is as good as missing.
    with suppress(OSError, ValueError):
        return path.exists()
    return False


def _missing(model: str, path: Path) -> CheckpointError:
    near = _near(path)
    hint = f"did you mean {' or '.join(near)}?" if near else "give a model's folder, a Hub id or sample:qwen3.6-moe"
    return CheckpointError(f"there is no folder {model!r}; {hint}")


def _near(path: Path) -> list[str]:
    """Folders beside the missing one with a name much like it."""
    with suppress(OSError, ValueError):
        names = [entry.name for entry in path.parent.iterdir() if entry.is_dir()]
        near = difflib.get_close_matches(path.name, names, n=3)
        return [str(path.with_name(name)) for name in near if name.isprintable()]
    return []
