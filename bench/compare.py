"""Compares two checkpoint folders byte for byte: `python -m bench.compare LEFT RIGHT`; exit 1 on a difference.

Independent of the package and of the safetensors library: headers and bytes are read with `pread`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from bench.layout import ITEM_SIZES

CHUNK = 1 << 22
MOST_SHOWN = 20
SIZES = {**ITEM_SIZES, "BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "I16": 2, "U16": 2, "U32": 4, "U64": 8}
INDEX = "model.safetensors.index.json"


@dataclass(frozen=True, slots=True)
class Stored:
    """One tensor where it lies: shard file, dtype, shape, absolute byte range."""

    file: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


def stored_tensors(folder: Path) -> dict[str, Stored]:
    """Every tensor of every shard of a folder; a ValueError where a shard or the index is not sound."""
    found: dict[str, Stored] = {}
    for path in sorted(folder.glob("*.safetensors")):
        shard = read_shard(path)
        if twice := found.keys() & shard.keys():
            raise ValueError(f"{path}: {min(twice)} is in two shards")
        found |= shard
    _check_index(folder, found)
    return found


def read_shard(path: Path) -> dict[str, Stored]:
    """The tensors of one shard, in order; a ValueError on gaps, overlaps, wrong lengths or trailing bytes."""
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    base = at = 8 + length
    tensors: dict[str, Stored] = {}
    for name, entry in sorted(header.items(), key=lambda item: (item[1]["data_offsets"], item[0])):
        start, stop = (base + offset for offset in entry["data_offsets"])
        shape = tuple(entry["shape"])
        if start != at or stop - start != math.prod(shape) * SIZES[entry["dtype"]]:
            raise ValueError(f"{path}: {name} has bytes {start}..{stop}, which its shape or its neighbour contradicts")
        tensors[name] = Stored(path.name, entry["dtype"], shape, start, stop)
        at = stop
    if at != path.stat().st_size:
        raise ValueError(f"{path}: {path.stat().st_size} bytes long, its header says {at}")
    return tensors


def _check_index(folder: Path, found: dict[str, Stored]) -> None:
    path = folder / INDEX
    if not path.exists():
        return
    index = json.loads(path.read_text())
    if wrong := index["weight_map"].items() ^ {(name, tensor.file) for name, tensor in found.items()}:
        raise ValueError(f"{path}: disagrees with the shards about {min(wrong)[0]}")
    total = sum(tensor.stop - tensor.start for tensor in found.values())
    if int(index["metadata"]["total_size"]) != total:
        raise ValueError(f"{path}: total_size {index['metadata']['total_size']}, the shards hold {total}")


def tensor_differences(left: Path, right: Path, *, same_shards: bool = False) -> Iterator[str]:
    """One line a tensor that differs in presence, dtype, shape or bytes; with `same_shards` in its file too."""
    ours, theirs = stored_tensors(left), stored_tensors(right)
    yield from (f"{name}: only in {left}" for name in sorted(ours.keys() - theirs.keys()))
    yield from (f"{name}: only in {right}" for name in sorted(theirs.keys() - ours.keys()))
    with ExitStack() as stack:
        files = {path: stack.enter_context(path.open("rb")).fileno() for path in _shards(left) + _shards(right)}
        for name in sorted(ours.keys() & theirs.keys()):
            a, b = ours[name], theirs[name]
            if line := _described(a, b, same_shards):
                yield f"{name}: {line}"
            elif (at := _first_difference(files[left / a.file], a, files[right / b.file], b)) is not None:
                yield f"{name}: bytes differ from byte {at} on, element {at // SIZES[a.dtype]} ({a.dtype})"


def file_differences(left: Path, right: Path, *, weights: bool = True) -> Iterator[str]:
    """One line a file (subfolders too) that differs in presence or bytes; shards and index only with `weights`."""
    ours, theirs = _files(left, weights), _files(right, weights)
    yield from (f"{name}: only in {left}" for name in sorted(ours - theirs))
    yield from (f"{name}: only in {right}" for name in sorted(theirs - ours))
    for name in sorted(ours & theirs):
        with (left / name).open("rb") as a, (right / name).open("rb") as b:
            if _files_differ(a.fileno(), b.fileno()):
                yield f"{name}: bytes differ"


def _shards(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.safetensors"))


def _files(folder: Path, weights: bool) -> set[str]:
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}
    return names if weights else {n for n in names if not n.endswith(".safetensors") and n != INDEX}


def _described(a: Stored, b: Stored, same_shards: bool) -> str | None:
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return f"{a.dtype} {list(a.shape)} against {b.dtype} {list(b.shape)}"
    return f"in {a.file} against {b.file}" if same_shards and a.file != b.file else None


def _first_difference(left: int, a: Stored, right: int, b: Stored) -> int | None:
    for at in range(0, a.stop - a.start, CHUNK):
        size = min(CHUNK, a.stop - a.start - at)
        ours, theirs = os.pread(left, size, a.start + at), os.pread(right, size, b.start + at)
        if ours != theirs:
            return at + next(n for n in range(size) if ours[n : n + 1] != theirs[n : n + 1])
    return None


def _files_differ(left: int, right: int) -> bool:
    size = os.fstat(left).st_size
    if size != os.fstat(right).st_size:
        return True
    return any(os.pread(left, CHUNK, at) != os.pread(right, CHUNK, at) for at in range(0, size, CHUNK))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("left", type=Path)
    parser.add_argument("right", type=Path)
    parser.add_argument("--model-tensors-only", action="store_true", help="tensors alone, not the other files")
    parser.add_argument("--any-shard", action="store_true", help="a tensor may lie in a shard of another name")
    chosen = parser.parse_args()
    raise SystemExit(report(chosen.left, chosen.right, chosen.model_tensors_only, chosen.any_shard))


def report(left: Path, right: Path, tensors_only: bool, any_shard: bool) -> int:
    """Print the first differences and a verdict; gives the exit code."""
    differences = tensor_differences(left, right, same_shards=not any_shard)
    shown = list(islice(differences, MOST_SHOWN))
    others = [] if tensors_only else list(file_differences(left, right, weights=False))
    print(*shown, *others, sep="\n", end="\n" if shown or others else "")
    if shown or others:
        more = ", and perhaps more" if len(shown) == MOST_SHOWN else ""
        print(f"different: {len(shown)} tensors{more}, {len(others)} other files")
        return 1
    tensors = stored_tensors(left)
    print(f"equal: {len(tensors):,} tensors, {sum(t.stop - t.start for t in tensors.values()):,} bytes")
    return 0


if __name__ == "__main__":
    main()
