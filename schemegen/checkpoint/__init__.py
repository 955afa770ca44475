"""Source checkpoints: a folder or a sample, understood from its headers alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schemegen.checkpoint.model import Checkpoint


def open_checkpoint(model: str, revision: str | None = None) -> Checkpoint:
    """The checkpoint that `sample:NAME` or a folder's path names.

    UnknownNameError for a sample nobody made, UnsupportedError for a Hub id, CheckpointError for anything else.
    """
    from schemegen.checkpoint.source import open_source

    return open_source(model, revision)
