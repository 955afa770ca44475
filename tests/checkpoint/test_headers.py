"""Headers: every rule of the format, each broken once, and the library as the judge of random damage."""

from __future__ import annotations

import gc
import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from schemegen.checkpoint.headers import DTYPE_BITS, Header, read_header
from schemegen.checkpoint.model import TensorHeader
from schemegen.digests import digest
from schemegen.errors import CheckpointError

F32: dict[str, Any] = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def shard_file(folder: Path, header: object, data: bytes = b"", length: int | None = None) -> Path:
    """A file of a length word, a header (JSON made of anything but bytes) and data."""
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    path = folder / "model.safetensors"
    path.write_bytes((len(raw) if length is None else length).to_bytes(8, "little") + raw + data)
    return path


def library_opens(path: Path) -> bool:
    """Whether safetensors itself takes the file."""
    from safetensors import SafetensorError, safe_open

    with suppress(SafetensorError, OSError), safe_open(path, framework="np"):
        return True
    return False


def read(path: Path) -> Header:
    """The header, under the name that error messages must show."""
    return read_header(path, "model.safetensors")


def test_a_header_is_read_in_offset_order(tmp_path: Path) -> None:
    header = {
        "b": {"dtype": "BF16", "shape": [1, 3], "data_offsets": [8, 14]},
        "__metadata__": {"format": "pt"},
        "a": F32,
        "empty": {"dtype": "I64", "shape": [0, 7], "data_offsets": [8, 8]},
        "scalar": {"dtype": "U8", "shape": [], "data_offsets": [14, 15]},
    }
    path = shard_file(tmp_path, header, b"x" * 15)
    start = 8 + len(json.dumps(header))
    found = read(path)
    assert found.tensors == (
        TensorHeader("a", "F32", (2,), "model.safetensors", start, 8),
        TensorHeader("empty", "I64", (0, 7), "model.safetensors", start + 8, 0),
        TensorHeader("b", "BF16", (1, 3), "model.safetensors", start + 8, 6),
        TensorHeader("scalar", "U8", (), "model.safetensors", start + 14, 1),
    )
    assert (found.shard, found.start, found.size, found.metadata) == (path.name, start, start + 15, {"format": "pt"})
    assert found.mtime_ns == path.stat().st_mtime_ns
    assert found.digest == digest([path.read_bytes()[:start]])


@pytest.mark.parametrize("dtype", DTYPE_BITS)
def test_every_dtype_has_the_library_size(tmp_path: Path, dtype: str) -> None:
    nbytes = DTYPE_BITS[dtype]
    entry = {"a": {"dtype": dtype, "shape": [4, 2], "data_offsets": [0, nbytes]}}
    path = shard_file(tmp_path, entry, b"x" * nbytes)
    assert library_opens(path)
    assert read(path).tensors[0].nbytes == nbytes


@pytest.mark.parametrize("metadata", [None, {}, {"format": "pt", "a": 'quoted "text"'}])
def test_metadata_may_be_missing_null_or_text(tmp_path: Path, metadata: dict[str, str] | None) -> None:
    assert read(shard_file(tmp_path, {"__metadata__": metadata, "a": F32}, b"x" * 8)).metadata == (metadata or {})
    assert read(shard_file(tmp_path, {"a": F32}, b"x" * 8)).metadata == {}


def entry(**changes: object) -> dict[str, Any]:
    """A header of one tensor "t" with a change."""
    return {"t": {**F32, **changes}}


HOSTILE: dict[str, tuple[object, bytes, str]] = {
    "not UTF-8": (b'{"\xff": 1}', b"", r"is not UTF-8 \(byte 2\)"),
    "not JSON": (b"{,}", b"", "cannot be read as JSON"),
    "nothing": (b"", b"", "cannot be read as JSON"),
    "a list": ([], b"", "holds no JSON object"),
    "bytes after the object": (b"{}\0\0", b"", "cannot be read as JSON"),
    "a duplicate name": (b'{"t":%b,"t":%b}' % ((json.dumps(F32).encode(),) * 2), b"x" * 8, "key 't' stands twice"),
    "a duplicate name, spelled differently": (
        b'{"t":%b,"\\u0074":%b}' % ((json.dumps(F32).encode(),) * 2),
        b"x" * 8,
        "key 't' stands twice",
    ),
    "a duplicate after nonsense": (b'{"t":5,"t":%b}' % json.dumps(F32).encode(), b"x" * 8, "key 't' stands twice"),
    "a duplicate field": (
        b'{"t":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}}',
        b"x" * 8,
        "key 'dtype' stands twice",
    ),
    "two metadata": (b'{"__metadata__":null,"__metadata__":null}', b"", "key '__metadata__' stands twice"),
    "metadata that is no object": ({"__metadata__": "pt"}, b"", "__metadata__ that does not map text to text"),
    "metadata of numbers": ({"__metadata__": {"a": 1}}, b"", "__metadata__ that does not map text to text"),
    "metadata that is a number": (b'{"__metadata__":5}', b"", "__metadata__ that does not map text to text"),
    "no name": ({"": F32}, b"x" * 8, "its name is empty"),
    "half a character in a name": (b'{"\\ud800":%b}' % json.dumps(F32).encode(), b"x" * 8, "half a character"),
    "an entry that is no object": ({"t": 5}, b"", "tensor 't': its entry is not just dtype"),
    "an entry that is a list": ({"t": ["F32", [2], [0, 8]]}, b"x" * 8, "tensor 't': its entry is not just dtype"),
    "a missing field": ({"t": {"dtype": "F32", "shape": [2]}}, b"", "tensor 't': its entry is not just dtype"),
    "a field too many": (entry(extra=1), b"x" * 8, "tensor 't': its entry is not just dtype"),
    "an unknown dtype": (entry(dtype="F12"), b"x" * 8, "tensor 't': its dtype 'F12' is unknown"),
    "a dtype that is no text": (entry(dtype=["F32"]), b"x" * 8, r"tensor 't': its dtype \['F32'\] is unknown"),
    "a shape that is a number": (entry(shape=2), b"x" * 8, "tensor 't': its shape 2 is not a list"),
    "a negative extent": (entry(shape=[-2]), b"x" * 8, "its shape"),
    "two negative extents": (entry(shape=[-2, -1]), b"x" * 8, "its shape"),
    "minus zero": (b'{"t":{"dtype":"F32","shape":[-0],"data_offsets":[0,0]}}', b"", "-0 is no whole number"),
    "a broken extent": (entry(shape=[2.0]), b"x" * 8, "2.0 is no whole number"),
    "an infinite extent": (entry(shape=[float("inf")]), b"x" * 8, "Infinity is no whole number"),
    "a true extent": (entry(shape=[2, True]), b"x" * 8, "its shape"),
    "an extent of text": (entry(shape=["2"]), b"x" * 8, "its shape"),
    "an extent past 64 bits": (entry(shape=[0, 1 << 64], data_offsets=[0, 0]), b"", "its shape"),
    "a product past 64 bits": (entry(shape=[1 << 40, 1 << 40, 0], data_offsets=[0, 0]), b"", "below 2\\*\\*64"),
    "a product that wraps": (entry(shape=[1 << 32, 1 << 32], data_offsets=[0, 0]), b"", "its shape"),
    "offsets that are no pair": (entry(data_offsets=[0, 4, 8]), b"x" * 8, "its data_offsets"),
    "offsets backwards": (entry(data_offsets=[8, 0]), b"x" * 8, "its data_offsets"),
    "negative offsets": (entry(data_offsets=[-8, 0]), b"x" * 8, "its data_offsets"),
    "true offsets": (entry(dtype="U8", shape=[], data_offsets=[False, True]), b"x", "its data_offsets"),
    "too few bytes": (entry(data_offsets=[0, 7]), b"x" * 7, "takes 8 bytes, but its data_offsets span 7"),
    "too many bytes": (entry(shape=[1]), b"x" * 8, "takes 4 bytes, but its data_offsets span 8"),
    "half a byte": (entry(dtype="F4", shape=[3], data_offsets=[0, 2]), b"xx", "takes 1.5 bytes"),
    "a gap at the begin": (entry(data_offsets=[4, 12]), b"x" * 12, "data at 4 leaves a gap before it"),
    "a gap": ({"s": F32, "t": {**F32, "data_offsets": [9, 17]}}, b"x" * 17, "'t': its data at 9 leaves a gap"),
    "an overlap": ({"s": F32, "t": {**F32, "data_offsets": [4, 12]}}, b"x" * 12, "'t': its data at 4 overlaps"),
    "the same bytes twice": ({"s": F32, "t": F32}, b"x" * 8, "'t': its data at 0 overlaps"),
    "data cut short": (entry(), b"x" * 5, r"cut short: 3 of \d+ bytes are missing"),
    "no data": (entry(shape=[1 << 40], data_offsets=[0, 1 << 42]), b"", "4,398,046,511,104 of"),
    "bytes after the data": (entry(), b"x" * 9, "has 1 bytes after its last tensor"),
}


@pytest.mark.parametrize(("header", "data", "message"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_header_is_one_clear_error(tmp_path: Path, header: object, data: bytes, message: str) -> None:
    path = shard_file(tmp_path, header, data)
    with pytest.raises(CheckpointError, match=message) as caught:
        read(path)
    assert "'model.safetensors'" in str(caught.value)
    assert "download it again" in str(caught.value)
    assert str(tmp_path) not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is 0 bytes long, too short for a header"),
        (b"1234567", "is 7 bytes long, too short for a header"),
        (b"\2\0\0\0\0\0\0\0{", "ends within its header: 1 bytes are missing"),
        ((100_000_001).to_bytes(8, "little") + b"{}", "announces a header of 100,000,001 bytes"),
        (b"\xff" * 8 + b"{}", "announces a header of 18,446,744,073,709,551,615 bytes"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "is a Git LFS pointer.*git lfs pull"),
    ],
)
def test_a_hostile_length_is_one_clear_error(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    assert not library_opens(path)
    with pytest.raises(CheckpointError, match=f"shard 'model.safetensors' {message}"):
        read(path)


def test_a_header_at_the_limit_is_not_refused_for_its_length(tmp_path: Path) -> None:
    path = shard_file(tmp_path, b"{}", length=100_000_000)
    with pytest.raises(CheckpointError, match="99,999,998 bytes are missing"):
        read(path)


def test_a_shard_that_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, message in {"pipe": "not a regular file", ".": "not a regular file", "none": "cannot be read"}.items():
        with pytest.raises(CheckpointError, match=f"shard 'x' .*{message}"):
            read_header(tmp_path / name, "x")


def test_a_sparse_giant_is_read_by_its_header(tmp_path: Path) -> None:
    nbytes = 1 << 36
    path = shard_file(tmp_path, {"t": {"dtype": "U8", "shape": [nbytes], "data_offsets": [0, nbytes]}})
    os.truncate(path, path.stat().st_size + nbytes)
    began = time.perf_counter()
    assert read(path).tensors[0].nbytes == nbytes
    assert time.perf_counter() - began < 1


def test_collection_goes_on_after_a_header(tmp_path: Path) -> None:
    assert gc.isenabled()
    read(shard_file(tmp_path, {"a": F32}, b"x" * 8))
    assert gc.isenabled()
    with pytest.raises(CheckpointError):
        read(shard_file(tmp_path, {"a": 5}))
    assert gc.isenabled()


def agree(path: Path) -> None:
    """Whatever we take, the library takes too, with the same tensors; nothing but CheckpointError comes out."""
    from safetensors import safe_open

    try:
        header = read(path)
    except CheckpointError:
        return
    with safe_open(path, framework="np") as opened:
        assert {tensor.name for tensor in header.tensors} == set(opened.keys())
        assert dict(header.metadata) == (opened.metadata() or {})
        for tensor in header.tensors:
            assert opened.get_slice(tensor.name).get_shape() == list(tensor.shape)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the examples of one property share."""
    return tmp_path_factory.mktemp("fuzz")


numbers = st.one_of(
    st.integers(0, 9), st.sampled_from([-1, -0.0, 1.0, True, None, "2", 1 << 63, 1 << 64]), st.integers(0, 1 << 65)
)
entries = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from([*DTYPE_BITS, "F12", 5]),
        "shape": st.lists(numbers, max_size=4),
        "data_offsets": st.one_of(st.lists(numbers, max_size=3), st.tuples(st.integers(0, 9), st.integers(0, 9))),
    },
    optional={"extra": st.just(1.5)},
)
well_sized = st.integers(0, 4).map(lambda n: {"dtype": "U8", "shape": [n], "data_offsets": [0, n]})
metadata = st.one_of(st.none(), st.dictionaries(st.text(max_size=2), st.one_of(st.text(max_size=2), numbers)))
headers = st.dictionaries(st.text(max_size=3), st.one_of(well_sized, entries, numbers), max_size=3)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(headers=headers, extra=st.none() | metadata, data=st.binary(max_size=12))
@example(headers={"t": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}}, extra={"a": "b"}, data=b"xx")
def test_of_headers_near_the_format_we_take_no_more_than_the_library(
    scratch: Path, headers: dict[str, object], extra: object, data: bytes
) -> None:
    header = headers if extra is None else {"__metadata__": extra, **headers}
    agree(shard_file(scratch, header, data))


@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(position=st.integers(0, 150), change=st.binary(min_size=1, max_size=3), cut=st.integers(0, 4))
def test_of_damaged_bytes_we_take_no_more_than_the_library(
    scratch: Path, position: int, change: bytes, cut: int
) -> None:
    header = {"a": {"dtype": "F4", "shape": [4], "data_offsets": [0, 2]}, "bb": {**F32, "data_offsets": [2, 10]}}
    path = shard_file(scratch, {"__metadata__": {"format": "pt"}, **header}, b"x" * 10)
    content = bytearray(path.read_bytes())
    content[position : position + len(change)] = change
    path.write_bytes(content[: len(content) - cut])
    agree(path)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=64))
def test_random_bytes_bring_nothing_but_our_error(scratch: Path, content: bytes) -> None:
    path = scratch / "random"
    path.write_bytes(content)
    agree(path)


def test_ninety_thousand_tensors_are_read_quickly(tmp_path: Path, write_shard: Callable[..., Path]) -> None:
    tensors = {f"model.layers.{n}.mlp.experts.weight_packed": ("I8", (1, 2), b"xx") for n in range(95_427)}
    path = write_shard(tmp_path / "model.safetensors", tensors)
    began = time.process_time()
    assert len(read(path).tensors) == len(tensors)
    # About 0.5 s on a slow core; the bound is for a change that makes it quadratic or parses twice.
    assert time.process_time() - began < 3
