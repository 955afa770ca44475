"""What `plan --explain` says: a block for each kind of tensor, many layers and experts in one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from schemegen.cli import figures, render
from schemegen.cli.spelling import spelled
from schemegen.layers import spans_of

if TYPE_CHECKING:
    from schemegen.planner import PlannedTensor
    from schemegen.planner.explanation import Explanation

_INDENT: Final = "  "
_NUMBER: Final = re.compile("([0-9]+)")


@dataclass(frozen=True, slots=True)
class Block:
    """Tensors of which the same is to be said, and the pattern of their names."""

    pattern: str
    told: Sequence[Explanation]

    @property
    def tensors(self) -> list[PlannedTensor]:
        """The tensors, in plan order."""
        return [explanation.tensor for explanation in self.told]


def lines(explanations: Sequence[Explanation], shards: Sequence[str]) -> Iterator[str]:
    """The blocks of all kinds, by part and role as in a plan's table, and their sum where there are several."""
    found = blocks(explanations)
    for number, block in enumerate(found):
        yield from [""] if number else []
        yield render.heading(_head(block))
        yield from render.fields(list(_said(block, shards)), _INDENT)
    if len(found) > 1:
        tensors = [explanation.tensor for explanation in explanations]
        yield from ("", f"{figures.plural(len(tensors), 'tensor')} of {len(found)} kinds, {_size(tensors)}")


def blocks(explanations: Iterable[Explanation]) -> list[Block]:
    """What is alike together, by part and role, then by name."""
    return sorted(_alike(explanations), key=_order)


def _alike(explanations: Iterable[Explanation]) -> Iterator[Block]:
    alike: dict[object, dict[str, Explanation]] = {}
    for explanation in explanations:
        alike.setdefault(_kind(explanation), {})[explanation.tensor.name] = explanation
    for members in alike.values():
        for pattern, names in spelled(members).items():
            yield Block(pattern, [members[name] for name in names])


def _kind(explanation: Explanation) -> object:
    """All that is said of a tensor but its place."""
    tensor = explanation.tensor
    pieces = tuple((piece.suffix, piece.dtype, piece.shape) for piece in tensor.pieces)
    source = (tensor.source.dtype, tensor.source.shape)
    return tensor.part, tensor.role, explanation.reason, explanation.becomes, source, pieces


def _order(block: Block) -> tuple[int, int, list[str | int]]:
    part, role = block.tensors[0].part, block.tensors[0].role
    first = min(_words(tensor.name) for tensor in block.tensors)
    return [*type(part)].index(part), [*type(role)].index(role), first


def _words(name: str) -> list[str | int]:
    """A name cut so that layer 10 comes after layer 2."""
    return [int(word) if place % 2 else word for place, word in enumerate(_NUMBER.split(name))]


def _head(block: Block) -> str:
    count = len(block.told)
    return block.pattern if count == 1 else f"{block.pattern}  {figures.plural(count, 'tensor')}"


def _said(block: Block, shards: Sequence[str]) -> Iterator[tuple[str, str | Sequence[str]]]:
    first, explanation = block.tensors[0], block.told[0]
    yield "role", _place(block)
    yield "source", f"{first.source.dtype} {list(first.source.shape)}"
    yield "rule", explanation.reason
    yield "becomes", explanation.becomes
    yield "stored", _stored(block)
    yield "shard", _shards(block, shards)
    yield "size", _size(block.tensors)


def _place(block: Block) -> str:
    """Role, part, and where in it: "routed_expert, text, layers 0-39, projections gate, up"."""
    first = block.tensors[0]
    layers = {tensor.layer for tensor in block.tensors if tensor.layer is not None}
    experts = {tensor.expert for tensor in block.tensors if tensor.expert is not None}
    projections = {name for tensor in block.tensors for name in (*tensor.stacked, tensor.projection) if name}
    words = [
        _named("layer", len(layers), spans_of(layers)),
        _named("expert", len(experts), spans_of(experts)),
        _named("projection", len(projections), ", ".join(sorted(projections))),
    ]
    return ", ".join([first.role, first.part, *filter(None, words)])


def _named(word: str, count: int, which: str) -> str:
    return f"{word}{'s' if count > 1 else ''} {which}" if count else ""


def _stored(block: Block) -> list[str]:
    """The new tensors: a row for each piece, those of many layers and experts in one."""
    counts = Counter(module for tensor in block.tensors for module in _modules(tensor))
    rows = [
        (f"{pattern}.{piece.suffix}", piece.dtype, str(list(piece.shape)), _times(sum(counts[name] for name in names)))
        for pattern, names in spelled(counts).items()
        for piece in block.tensors[0].pieces
    ]
    return render.aligned(rows)


def _modules(tensor: PlannedTensor) -> list[str]:
    """The modules of what is stored, with "…" for the words shared with the tensor's own module but for the last."""
    if tensor.format is None:
        return []
    above, dot, last = tensor.name.rpartition(".")[0].rpartition(".")
    start = above + dot
    shared = all(name.startswith(start + last) for name in tensor.modules)
    return [f"….{name.removeprefix(start)}" for name in tensor.modules] if dot and shared else [*tensor.modules]


def _times(count: int) -> str:
    return "" if count == 1 else f"{figures.count(count)} times"


def _shards(block: Block, shards: Sequence[str]) -> str:
    files = {output.file for tensor in block.tensors for output in tensor.outputs}
    first, *rest = [shard for shard in shards if shard in files]
    return f"{len(files)}, from {first} to {rest[-1]}" if rest else first


def _size(tensors: Sequence[PlannedTensor]) -> str:
    from schemegen.planner.totals import totals_of

    sums = totals_of(tensors)
    size = figures.size(sums.bytes_in)
    change = size if sums.bytes_in == sums.bytes_out else figures.change(sums.bytes_in, sums.bytes_out)
    return change if sums.bits_per_weight is None else f"{change}, {figures.bits(sums.bits_per_weight)} bits a weight"
