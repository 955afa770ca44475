"""The scratch folder: a finished result, known by a marker with its digests that is written last, or nothing of use."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from schemegen.digests import file_digest
from schemegen.positional import sync_path, writing
from schemegen_llmcompressor.faults import BACKEND
from schemegen_llmcompressor.parts import Part

if TYPE_CHECKING:
    from schemegen.checkpoint.model import Checkpoint
    from schemegen.planner import Plan

#: The distributions whose code decides the bits.
VERSIONS: Final = ("llmcompressor", "compressed-tensors", "torch")
#: Disk space of one stored tensor's name: in its header, in the index beside it and in the order.
_BYTES_A_NAME: Final = 500
_BYTES_A_RUN: Final = 1 << 20


def scratch_bytes(parts: Iterable[Part]) -> int:
    """Disk space of the result: what the plan names, and nothing that it keeps."""
    return _BYTES_A_RUN + sum(output.nbytes + _BYTES_A_NAME for part in parts for output in part.outputs)


def identity(plan: Plan, checkpoint: Checkpoint, parts: Sequence[Part]) -> dict[str, Any]:
    """What a result is made from, as JSON values: source shards, tensors and formats, and the code that makes it."""
    made = hashlib.sha256()
    for part in parts:
        made.update(repr((part.file, part.shard, plan.scheme.formats[part.format].model_dump_json())).encode())
        for tensor in part.tensors:
            made.update(repr((tensor.name, tensor.source, tensor.outputs)).encode())
    return {
        "versions": {name: version(name) for name in ("schemegen-llmcompressor", *VERSIONS)},
        "source": [[shard.name, shard.size, shard.mtime_ns] for shard in checkpoint.shards],
        "tensors": made.hexdigest(),
    }


class Scratch:
    """Where this backend works within the scratch space of a run."""

    def __init__(self, scratch: Path) -> None:
        self.folder = scratch / BACKEND
        self.result = self.folder / "result"
        self.order = self.folder / "order.json"
        self.log = self.folder / "log.txt"
        self._marker = self.folder / "made.json"

    def holds(self, wanted: dict[str, Any]) -> bool:
        """Whether a finished result is there that was made from just this, to the byte: it is read once."""
        try:
            found = json.loads(self._marker.read_bytes())
            return bool(found["from"] == wanted and found["files"] == self._digests(found["files"]))
        except (OSError, ValueError, RecursionError, KeyError, TypeError):
            return False

    def _digests(self, files: Iterable[str]) -> dict[str, str]:
        return {file: file_digest(self.result / file) for file in files}

    def clear(self) -> None:
        """Begin anew."""
        with writing(self.folder):
            shutil.rmtree(self.folder, ignore_errors=True)
            self.result.mkdir(parents=True)

    def size(self) -> int:
        """Bytes of the parts so far; a file may be renamed under the count."""
        found = 0
        for path in self.result.glob("*.safetensors"):
            with contextlib.suppress(FileNotFoundError):
                found += path.stat().st_size
        return found

    def finish(self, made: dict[str, Any], parts: Iterable[Part]) -> None:
        """Mark the result as finished once every byte of it is on the disk."""
        begun = self._marker.with_suffix(".part")
        parts = tuple(parts)
        with writing(self.folder):
            files = self._digests(part.file for part in parts)
            begun.write_text(json.dumps({"from": made, "files": files}))
            for path in (*(self.result / part.file for part in parts), self.result, begun):
                sync_path(path)
            begun.replace(self._marker)
            sync_path(self.folder)
