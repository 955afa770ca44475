"""Source checkpoints: a folder, a sample or a model on the Hub, understood from its headers alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from schemegen.checkpoint.model import Checkpoint


def open_checkpoint(model: str | Path, revision: str | None = None) -> Checkpoint:
    """The checkpoint that `sample:NAME`, a folder's path or a Hub id names; `revision` is a Hub id's, a Path no such.

    UnknownNameError for a sample nobody made, CheckpointError for anything else that cannot be opened.
    """
    from schemegen.checkpoint.source import open_source

    return open_source(model, revision)
