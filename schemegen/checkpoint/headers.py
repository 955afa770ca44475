"""Reads safetensors headers: exactly what the library accepts, or less, and without a byte of the data."""

from __future__ import annotations

import gc
import os
import reprlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from schemegen.checkpoint.model import Shard, TensorHeader
from schemegen.checkpoint.reading import MAX_JSON_BYTES, opened, parse_object, reading, require_file
from schemegen.digests import digest
from schemegen.errors import CheckpointError
from schemegen.positional import read_into

DTYPE_BITS: Final[Mapping[str, int]] = {
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    **dict.fromkeys(("BOOL", "U8", "I8"), 8),
    **dict.fromkeys(("F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("I16", "U16", "F16", "BF16"), 16),
    **dict.fromkeys(("I32", "U32", "F32"), 32),
    **dict.fromkeys(("I64", "U64", "F64", "C64"), 64),
}
"""Bits per element of every dtype that safetensors 0.8 knows."""
_LENGTH_BYTES: Final = 8
_MAX_WORD: Final = (1 << 64) - 1
_FIELDS: Final = ("dtype", "shape", "data_offsets")
_fields: Final = itemgetter(*_FIELDS)
_LFS_POINTER: Final = b"version https://git-lfs"
FIRST_BYTES: Final = len(_LFS_POINTER)
"""What tells a header's length, and a pointer in the place of weights."""
_AGAIN: Final = "download it again"


@dataclass(frozen=True, slots=True)
class Header:
    """A shard's header: `start` is where its data begins (8 + N), `digest` that of the first `start` bytes.

    `tensors` stand in offset order, with absolute byte offsets; `size` is the file's, in bytes.
    """

    shard: str
    size: int
    mtime_ns: int
    start: int
    digest: str
    metadata: Mapping[str, str]
    tensors: tuple[TensorHeader, ...]


def read_header(path: Path, shard: str) -> Header:
    """The header of the file at `path`, every rule of the format checked; CheckpointError names `shard`."""
    raw, status = _begun(path, shard)
    return parse_header(raw, shard, status.st_size, status.st_mtime_ns)


def header_stamp(path: Path, shard: str) -> Shard:
    """What tells one file at `path` from another: size, time and header digest, the header itself not looked at."""
    raw, status = _begun(path, shard)
    return Shard(shard, status.st_size, status.st_mtime_ns, digest([raw]))


def parse_header(raw: bytes, shard: str, size: int, mtime_ns: int = 0) -> Header:
    """The header that the first bytes, length word included, of a file of `size` bytes are."""
    what = f"shard {shard!r}"
    with _collection_paused():
        entries = _parse(raw, what)
        metadata = _metadata(entries.pop("__metadata__", None), what)
        tensors = _tensors(entries, shard, len(raw), size)
    return Header(shard, size, mtime_ns, len(raw), digest([raw]), metadata, tensors)


def header_bytes(first: bytes, size: int, shard: str) -> int:
    """Bytes of the header, length word included, of a file of `size` bytes that begins with `first`.

    `first` are FIRST_BYTES, or all of a shorter file. CheckpointError for a length that no such file can have.
    """
    what = f"shard {shard!r}"
    if first.startswith(_LFS_POINTER):
        raise CheckpointError(f"{what} is a Git LFS pointer, not the weights; run 'git lfs pull' in its folder")
    if len(first) < _LENGTH_BYTES:
        raise CheckpointError(f"{what} is {size} bytes long, too short for a header", _AGAIN)
    length = int.from_bytes(first[:_LENGTH_BYTES], "little")
    if length > MAX_JSON_BYTES:
        raise CheckpointError(
            f"{what} announces a header of {length:,} bytes; safetensors allows {MAX_JSON_BYTES:,}", _AGAIN
        )
    missing = _LENGTH_BYTES + length - size
    if missing > 0:
        raise CheckpointError(f"{what} ends within its header: {missing:,} bytes are missing", _AGAIN)
    return _LENGTH_BYTES + length


@contextmanager
def _collection_paused() -> Iterator[None]:
    # A header of 95,000 tensors makes half a million objects and no garbage; collecting takes as long as parsing.
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _begun(path: Path, shard: str) -> tuple[bytes, os.stat_result]:
    """The length word and the header's bytes of a file, and the file's status."""
    what = f"shard {shard!r}"
    require_file(path, what)
    with reading(what), opened(path) as fd:
        status = os.fstat(fd)
        return _raw_header(fd, status.st_size, shard), status


def _raw_header(fd: int, size: int, shard: str) -> bytes:
    """The length word and the header's bytes."""
    first = bytearray(min(size, FIRST_BYTES))
    read_into(fd, memoryview(first), 0)
    raw = bytearray(header_bytes(bytes(first), size, shard))
    if read_into(fd, memoryview(raw), 0) < len(raw):
        raise CheckpointError(f"shard {shard!r} became shorter while it was read; wait until it is complete")
    return bytes(raw)


def _parse(raw: bytes, what: str) -> dict[str, Any]:
    """The header's JSON: one object, no key twice, no number that safetensors would not read as it stands here."""
    what = f"the header of {what}"
    try:
        text = str(memoryview(raw)[_LENGTH_BYTES:], "utf-8")
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{what} is not UTF-8 (byte {error.start})", _AGAIN) from error
    # "-0" is no unsigned number to safetensors, but 0 to Python.
    if b"\\" not in raw and b"-0" not in raw:
        entries = parse_object(text, what, unique=False, parse_float=_refuse, parse_constant=_refuse)
        if text.count('"') == _quotes(entries):
            return entries
    return parse_object(text, what, parse_int=_unsigned, parse_float=_refuse, parse_constant=_refuse)


def _quotes(entries: Mapping[str, Any]) -> int:
    """The quotes of a header without escapes in which no key stands twice: five strings a tensor, two an item of text.

    Counting them is ten times faster than looking at every key while parsing.
    """
    if "__metadata__" not in entries:
        return 10 * len(entries)
    metadata = entries["__metadata__"]
    return 10 * (len(entries) - 1) + 2 + (4 * len(metadata) if isinstance(metadata, dict) else 0)


def _unsigned(digits: str) -> int:
    return _refuse(digits) if digits.startswith("-") else int(digits)


def _refuse(number: str) -> int:
    raise ValueError(f"{number} is no whole number")


def _metadata(value: Any, what: str) -> Mapping[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise CheckpointError(f"the header of {what} has a __metadata__ that does not map text to text", _AGAIN)
    return value


def _tensors(entries: Mapping[str, Any], shard: str, start: int, size: int) -> tuple[TensorHeader, ...]:
    """Every entry checked, in offset order, covering the data section without gap or overlap."""
    position = 0
    tensors = []
    for begin, end, name, dtype, shape in sorted([_span(shard, *item) for item in entries.items()]):
        if begin != position:
            relation = "overlaps the tensor before it" if begin < position else "leaves a gap before it"
            raise _fault(shard, name, f"its data at {begin} {relation}, which ends at {position}")
        tensors.append(TensorHeader(name, dtype, shape, shard, start + begin, end - begin))
        position = end
    _check_end(shard, start + position, size)
    return tuple(tensors)


def _span(shard: str, name: str, entry: Any) -> tuple[int, int, str, str, tuple[int, ...]]:
    """Begin, end, name, dtype and shape of one entry."""
    try:
        dtype, shape, offsets = _fields(entry)
        bits = DTYPE_BITS[dtype]
    except (TypeError, KeyError) as error:
        raise _fault(shard, name, _misfit(entry)) from error
    count = _elements(shape)
    if count is None:
        raise _fault(
            shard, name, f"its shape {reprlib.repr(shape)} is not a list of whole numbers with a product below 2**64"
        )
    if not _is_span(offsets):
        raise _fault(shard, name, f"its data_offsets {reprlib.repr(offsets)} are not a begin and an end")
    begin, end = offsets
    if count * bits != (end - begin) * 8:
        size = f"{count * bits / 8:,.10g} bytes"
        raise _fault(shard, name, f"{dtype} of shape {shape} takes {size}, but its data_offsets span {end - begin:,}")
    if len(entry) > 3 or not name:
        raise _fault(shard, name, _misfit(entry))
    return begin, end, name, dtype, tuple(shape)


def _misfit(entry: Any) -> str:
    """What is wrong with an entry that is not a name with just a dtype, a shape and data_offsets."""
    if not isinstance(entry, dict) or entry.keys() != {*_FIELDS}:
        return "its entry is not just dtype, shape and data_offsets"
    if entry["dtype"] in [*DTYPE_BITS]:
        return "its name is empty"
    return f"its dtype {reprlib.repr(entry['dtype'])} is unknown to safetensors"


def _is_span(value: Any) -> bool:
    if not isinstance(value, list) or len(value) != 2:
        return False
    begin, end = value
    return type(begin) is int and type(end) is int and 0 <= begin <= end


def _elements(shape: Any) -> int | None:
    """The product of a list of unsigned 64-bit numbers, or None where it is no such list or overflows on the way."""
    if not isinstance(shape, list):
        return None
    count = 1
    for extent in shape:
        if type(extent) is not int or not 0 <= extent <= _MAX_WORD:
            return None
        count *= extent
        if count > _MAX_WORD:
            return None
    return count


def _check_end(shard: str, end: int, size: int) -> None:
    if end > size:
        raise CheckpointError(f"shard {shard!r} is cut short: {end - size:,} of {end:,} bytes are missing", _AGAIN)
    if end < size:
        raise CheckpointError(f"shard {shard!r} has {size - end:,} bytes after its last tensor", _AGAIN)


def _fault(shard: str, name: str, message: str) -> CheckpointError:
    return CheckpointError(f"shard {shard!r}: tensor {name!r}: {message}; the file is damaged", _AGAIN)
