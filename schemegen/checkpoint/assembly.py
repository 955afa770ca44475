"""Puts a checkpoint together from its files' names, its texts and its headers, wherever these come from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

from schemegen.checkpoint.files import sort_files
from schemegen.checkpoint.headers import Header
from schemegen.checkpoint.index import check_headers, read_index
from schemegen.checkpoint.model import Checkpoint, Shard
from schemegen.checkpoint.reading import parse_object
from schemegen.errors import CheckpointError

CONFIG_NAME: Final = "config.json"


class Contents(Protocol):
    """The files of a checkpoint, in a folder or on the Hub. What they hold is not trusted."""

    @property
    def files(self) -> Mapping[str, int]:
        """Bytes of every file that could travel, by posix name, sorted."""

    def text(self, name: str, what: str) -> str:
        """A whole small file; CheckpointError names it as `what`."""

    def header(self, name: str) -> Header:
        """The header of a safetensors file; CheckpointError where it is damaged."""


def assemble(contents: Contents, root: Path, model_id: str, revision: str | None) -> Checkpoint:
    """The checkpoint that lies, or will lie, in `root`; CheckpointError for all that is damaged or hostile."""
    config_text = contents.text(CONFIG_NAME, CONFIG_NAME)
    config = parse_object(config_text, CONFIG_NAME)
    index = read_index(contents.files, contents.text)
    headers = [contents.header(shard) for shard in index.shards]
    check_headers(index, headers)
    tensors = tuple(tensor for header in headers for tensor in header.tensors)
    if not tensors:
        raise CheckpointError(f"{', '.join(index.shards)} holds no tensor", "download the model again")
    taken = {CONFIG_NAME, *index.shards, *filter(None, [index.name])}
    side_files, unindexed = sort_files(contents.files, taken, contents.header)
    return Checkpoint(
        root=root,
        model_id=model_id,
        revision=revision,
        config=config,
        config_text=config_text,
        index_name=index.name,
        index_metadata=index.metadata,
        shards=tuple(map(_shard, headers)),
        tensors=tensors,
        side_files=side_files,
        unindexed=unindexed,
    )


def _shard(header: Header) -> Shard:
    return Shard(header.shard, header.size, header.mtime_ns, header.digest)
