"""What travels, and which weights do not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from schemegen.checkpoint.local import open_local
from schemegen.checkpoint.model import SideFile, Unindexed


def test_everything_else_is_a_side_file(toy: Path) -> None:
    for name in ("modeling_toy.py", "sub/deep/vocab.txt", "README.md", ".gitattributes", "schemegen.json", "LICENSE"):
        (toy / name).parent.mkdir(parents=True, exist_ok=True)
        (toy / name).write_text(name)
    checkpoint = open_local(toy)
    names = [".gitattributes", "LICENSE", "README.md", "modeling_toy.py", "schemegen.json", "sub/deep/vocab.txt"]
    assert checkpoint.side_files == tuple(SideFile(name, len(name)) for name in names)
    assert checkpoint.unindexed == ()


@pytest.mark.parametrize(
    "name",
    [
        "extra.safetensors",
        "pytorch_model.bin",
        "training_args.BIN",
        "optimizer.pt",
        "original/consolidated.00.pth",
        "Model-Q4_K.GGUF",
        "onnx/model.onnx",
        "tf_model.h5",
        "flax_model.msgpack",
        "pytorch_model.bin.index.json",
        "old.safetensors.index.json",
        "sub/config.safetensors",
    ],
)
def test_weights_outside_the_index_are_told_apart(toy: Path, name: str) -> None:
    (toy / name).parent.mkdir(parents=True, exist_ok=True)
    (toy / name).write_bytes(b"12345")
    checkpoint = open_local(toy)
    assert checkpoint.unindexed == (Unindexed(name, 5, mtp=False),)
    assert checkpoint.side_files == ()


@pytest.mark.parametrize(
    "name", ["robin", "bin", "model.safetensors.md", "weights.json", "index.json", "sub/config.json"]
)
def test_what_only_sounds_like_weights_travels(toy: Path, name: str) -> None:
    (toy / name).parent.mkdir(parents=True, exist_ok=True)
    (toy / name).write_bytes(b"12345")
    assert open_local(toy).side_files == (SideFile(name, 5),)


@pytest.mark.parametrize(
    ("tensor", "mtp"),
    [
        ("mtp.fc.weight", True),
        ("model.mtp.layers.0.weight", True),
        ("model.mtp_block.0.weight", True),
        ("model.smtp.weight", False),
        ("model.layers.0.mtp", False),
    ],
)
def test_unindexed_mtp_tensors_are_noticed(toy: Path, write_shard: Callable[..., Path], tensor: str, mtp: bool) -> None:
    path = write_shard(toy / "extra.safetensors", {"other": ("I8", (1,), b"a"), tensor: ("I8", (1,), b"a")})
    assert open_local(toy).unindexed == (Unindexed("extra.safetensors", path.stat().st_size, mtp),)


def test_the_ending_of_an_unindexed_file_may_be_upper_case(toy: Path, write_shard: Callable[..., Path]) -> None:
    write_shard(toy / "MTP.SAFETENSORS", {"mtp.fc.weight": ("I8", (1,), b"a")})
    assert open_local(toy).unindexed[0].mtp


def test_a_damaged_unindexed_file_is_only_named(toy: Path, write_shard: Callable[..., Path]) -> None:
    path = write_shard(toy / "extra.safetensors", {"mtp.fc.weight": ("I8", (9,), b"a" * 9)})
    path.write_bytes(path.read_bytes()[:-1])
    assert open_local(toy).unindexed == (Unindexed("extra.safetensors", path.stat().st_size, mtp=False),)
