"""The comparison that bench trusts must notice every kind of difference."""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.checkpoints import FULL_BYTES, build, check_full, recipe
from bench.compare import file_differences, read_shard, report, stored_tensors, tensor_differences
from bench.layout import tensors

SHARD = "model-00001-of-00002.safetensors"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bench") / "fused"
    build("fused", folder)
    return folder


@pytest.fixture
def changed(original: Path, tmp_path: Path) -> Path:
    return shutil.copytree(original, tmp_path / "changed")


def rewrite_header(shard: Path, change: Callable[[dict[str, dict[str, object]]], None]) -> None:
    """Change the header of a shard in place, data untouched."""
    raw = shard.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    change(header)
    text = json.dumps(header).encode()
    shard.write_bytes(struct.pack("<Q", len(text)) + text + raw[8 + length :])


def test_equal_folders_are_equal(original: Path, changed: Path) -> None:
    assert list(tensor_differences(original, changed, same_shards=True)) == []
    assert list(file_differences(original, changed)) == []
    assert report(original, changed, tensors_only=False, any_shard=False) == 0


@pytest.mark.parametrize("back", [1, 1000, 4 << 20])
def test_a_flipped_byte_is_found(original: Path, changed: Path, back: int) -> None:
    size = (changed / SHARD).stat().st_size
    with (changed / SHARD).open("r+b") as file:
        byte = os.pread(file.fileno(), 1, size - back)
        os.pwrite(file.fileno(), bytes([byte[0] ^ 1]), size - back)
    (found,) = tensor_differences(original, changed)
    assert "bytes differ from byte" in found
    assert list(file_differences(original, changed)) == [f"{SHARD}: bytes differ"]
    assert report(original, changed, tensors_only=True, any_shard=True) == 1


def test_the_place_of_a_flipped_byte_is_named(original: Path, changed: Path) -> None:
    name, tensor = next((n, t) for n, t in stored_tensors(original).items() if len(t.shape) == 3 and "experts" in n)
    with (changed / tensor.file).open("r+b") as file:
        os.pwrite(file.fileno(), b"\x55", tensor.start + 2001)
    assert list(tensor_differences(original, changed)) == [
        f"{name}: bytes differ from byte 2001 on, element 1000 (BF16)"
    ]


def test_a_wrong_dtype_is_found(original: Path, changed: Path) -> None:
    rewrite_header(
        changed / SHARD,
        lambda h: h["lm_head.weight" if "lm_head.weight" in h else min(h.keys() - {"__metadata__"})].update(
            dtype="F16"
        ),
    )
    (found,) = tensor_differences(original, changed)
    assert "against F16" in found


def test_a_wrong_shape_is_found(original: Path, changed: Path) -> None:
    name = "model.language_model.embed_tokens.weight"
    rewrite_header(changed / SHARD, lambda h: h[name].update(shape=[256, 512]))
    assert list(tensor_differences(original, changed)) == [f"{name}: BF16 [512, 256] against BF16 [256, 512]"]


def test_a_missing_shard_contradicts_the_index(original: Path, changed: Path) -> None:
    (changed / SHARD).unlink()
    with pytest.raises(ValueError, match="disagrees with the shards"):
        stored_tensors(changed)
    (changed / "model.safetensors.index.json").unlink()
    assert all(f"only in {original}" in line for line in tensor_differences(original, changed))


def test_a_renamed_tensor_is_found_on_both_sides(original: Path, changed: Path) -> None:
    name = "model.language_model.embed_tokens.weight"
    rewrite_header(changed / SHARD, lambda h: h.update({"x": h.pop(name)}))
    (changed / "model.safetensors.index.json").unlink()
    assert list(tensor_differences(original, changed)) == [f"{name}: only in {original}", f"x: only in {changed}"]


def test_a_truncated_shard_is_refused(changed: Path) -> None:
    os.truncate(changed / SHARD, (changed / SHARD).stat().st_size - 1)
    with pytest.raises(ValueError, match="its header says"):
        read_shard(changed / SHARD)


def test_overlapping_tensors_are_refused(changed: Path) -> None:
    def overlap(header: dict[str, dict[str, object]]) -> None:
        names = [n for n in header if n != "__metadata__"]
        offsets = header[names[1]]["data_offsets"]
        assert isinstance(offsets, list)
        header[names[1]]["data_offsets"] = [offset - 2 for offset in offsets]

    rewrite_header(changed / SHARD, overlap)
    with pytest.raises(ValueError, match="contradicts"):
        read_shard(changed / SHARD)


def test_a_changed_side_file_is_found(original: Path, changed: Path) -> None:
    (changed / "config.json").write_text("{}")
    (changed / "extra").mkdir()
    (changed / "extra/a.txt").write_text("")
    assert list(file_differences(original, changed)) == [f"extra/a.txt: only in {changed}", "config.json: bytes differ"]
    assert report(original, changed, tensors_only=False, any_shard=False) == 1
    assert report(original, changed, tensors_only=True, any_shard=False) == 0


def test_shards_count_only_when_asked(original: Path, tmp_path: Path) -> None:
    build("fused", tmp_path / "again")
    moved = tmp_path / "again"
    for number in (1, 2):
        (moved / f"model-0000{number}-of-00002.safetensors").rename(moved / f"other-{number}.safetensors")
    index = (moved / "model.safetensors.index.json").read_text()
    for number in (1, 2):
        index = index.replace(f"model-0000{number}-of-00002", f"other-{number}")
    (moved / "model.safetensors.index.json").write_text(index)
    assert list(tensor_differences(original, moved)) == []
    assert len(list(tensor_differences(original, moved, same_shards=True))) == 124


def test_both_layouts_hold_the_same_experts(original: Path, tmp_path: Path) -> None:
    build("one-by-one", tmp_path / "single")
    fused, single = stored_tensors(original), stored_tensors(tmp_path / "single")
    stack = fused["mtp.layers.0.mlp.experts.gate_up_proj"]
    up = single["mtp.layers.0.mlp.experts.7.up_proj.weight"]
    size = up.stop - up.start
    with (original / stack.file).open("rb") as a, (tmp_path / "single" / up.file).open("rb") as b:
        assert os.pread(a.fileno(), size, stack.stop - size) == os.pread(b.fileno(), size, up.start)


def test_the_full_recipe_is_the_published_one() -> None:
    full = recipe("sparse-full")
    check_full(full)
    assert sum(t.nbytes for t in tensors(full.dims)) == FULL_BYTES
