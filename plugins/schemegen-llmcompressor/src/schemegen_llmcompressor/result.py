"""What llm-compressor wrote: checked against the plan by its headers, then read in pieces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from schemegen import Buffers, CheckpointError
from schemegen.checkpoint.headers import read_header
from schemegen.checkpoint.reading import opened
from schemegen.positional import as_bytes, read_into
from schemegen_llmcompressor.faults import fault
from schemegen_llmcompressor.parts import Part

if TYPE_CHECKING:
    from schemegen.checkpoint.model import TensorHeader
    from schemegen.planner import Chunk
    from schemegen.planner.tensors import Output

_NAMED: Final = 3


class Result:
    """The files of all parts; their headers are read once, their tensors when they are asked for."""

    def __init__(self, folder: Path, parts: Sequence[Part]) -> None:
        """PluginError unless the files hold exactly what the plan names of all parts.

        Modules with one global scale lie together, in the file of one of them.
        """
        self._folder = folder
        self._headers: dict[str, TensorHeader] = {}
        for part in parts:
            self._headers |= _headers(folder, part.file)
        _check(parts, self._headers)

    def fill(self, chunk: Chunk, out: Buffers) -> None:
        """Fill every buffer of the chunk with what was made of it."""
        tensor, (first, _) = chunk.tensor, chunk.first
        each = len(tensor.pieces)
        with opened(self._folder / self._headers[tensor.outputs[0].name].shard) as fd:
            for number in range(chunk.shape[0]):
                outputs = tensor.outputs[(first + number) * each : (first + number + 1) * each]
                for output, piece, span in zip(outputs, tensor.pieces, chunk.spans, strict=True):
                    block = out.get(output.suffix)
                    if block is not None and block.size:
                        # Of a block of rows, what lies before it; of whole matrices nothing.
                        skipped = span.offset - piece.offset - first * piece.nbytes
                        self._read(fd, output, skipped, as_bytes(block[number]))

    def _read(self, fd: int, output: Output, skipped: int, view: memoryview) -> None:
        if read_into(fd, view, self._headers[output.name].offset + skipped) < len(view):
            raise fault(f"{self._folder} became shorter under the run; run again with --restart")


def _headers(folder: Path, file: str) -> Mapping[str, TensorHeader]:
    try:
        return {tensor.name: tensor for tensor in read_header(folder / file, file).tensors}
    except CheckpointError as error:
        reason = str(error).partition(";")[0]
        raise fault(f"model_free_ptq left no usable result in {folder}: {reason}; run again with --restart") from error


def _check(parts: Sequence[Part], headers: Mapping[str, TensorHeader]) -> None:
    planned = {output.name: (output.dtype, output.shape) for part in parts for output in part.outputs}
    made = {name: (header.dtype, header.shape) for name, header in headers.items()}
    for words, names in (
        ("made no", planned.keys() - made.keys()),
        ("made what the plan does not name:", made.keys() - planned.keys()),
        ("made in another dtype or shape:", {name for name in planned.keys() & made if made[name] != planned[name]}),
    ):
        if names:
            raise fault(f"model_free_ptq {words} {_listed(names)}; this plan needs another backend")


def _listed(names: Iterable[str]) -> str:
    ordered = sorted(names)
    rest = len(ordered) - _NAMED
    return ", ".join(ordered[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")
