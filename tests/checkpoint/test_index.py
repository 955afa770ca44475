"""The index decides, and headers must agree with it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schemegen.checkpoint.index import INDEX_NAME
from schemegen.checkpoint.local import open_local
from schemegen.errors import CheckpointError


def edit_index(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the folder's index in place."""
    path = folder / INDEX_NAME
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def test_tensors_come_in_shard_and_offset_order(toy: Path) -> None:
    checkpoint = open_local(toy)
    assert checkpoint.index_name == INDEX_NAME
    assert [shard.name for shard in checkpoint.shards] == ["one.safetensors", "two.safetensors"]
    assert [(t.name, t.shard) for t in checkpoint.tensors] == [
        ("a.weight", "one.safetensors"),
        ("b.weight", "one.safetensors"),
        ("c.weight", "two.safetensors"),
    ]
    assert checkpoint.nbytes == 27
    assert checkpoint.index_metadata == {"total_size": 27}


@pytest.mark.parametrize("total", [27.0, 26, "27", None, float("nan"), [1]])
def test_a_total_size_of_any_kind_is_kept_as_read(toy: Path, total: object) -> None:
    edit_index(toy, lambda index: index.update(metadata={"total_size": total, "total_parameters": 5}))
    metadata = open_local(toy).index_metadata
    assert repr(metadata) == repr({"total_size": total, "total_parameters": 5})


@pytest.mark.parametrize("metadata", [None, 5, []])
def test_metadata_that_says_nothing_is_empty(toy: Path, metadata: object) -> None:
    edit_index(toy, lambda index: index.update(metadata=metadata))
    assert open_local(toy).index_metadata == {}


def test_metadata_may_be_missing(toy: Path) -> None:
    edit_index(toy, lambda index: index.pop("metadata"))
    assert open_local(toy).index_metadata == {}


@pytest.mark.parametrize(
    "shard",
    [
        "../one.safetensors",
        "x/../one.safetensors",
        "..",
        ".",
        "",
        "/etc/passwd",
        "./one.safetensors",
        "x//one.safetensors",
        "one.safetensors/",
        "x\\one.safetensors",
        "one.safetensors\0",
        5,
        None,
        ["one.safetensors"],
    ],
)
def test_a_shard_name_that_is_not_plain_is_refused(toy: Path, shard: object) -> None:
    edit_index(toy, lambda index: index["weight_map"].update({"a.weight": shard}))
    with pytest.raises(CheckpointError, match=r"puts tensor 'a\.weight' into .* no plain file name within the folder"):
        open_local(toy)


def test_a_shard_in_a_subfolder_is_plain(toy: Path) -> None:
    (toy / "parts").mkdir()
    (toy / "two.safetensors").rename(toy / "parts/two.safetensors")
    edit_index(toy, lambda index: index["weight_map"].update({"c.weight": "parts/two.safetensors"}))
    assert [shard.name for shard in open_local(toy).shards] == ["one.safetensors", "parts/two.safetensors"]


def test_a_named_shard_that_is_missing_is_named(toy: Path) -> None:
    (toy / "two.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"names 'two\.safetensors', which is not there; download it again"):
        open_local(toy)


def test_a_named_tensor_that_is_missing_is_named(toy: Path) -> None:
    edit_index(toy, lambda index: index["weight_map"].update({"d.weight": "two.safetensors"}))
    with pytest.raises(CheckpointError, match=r"puts tensor 'd\.weight' into 'two\.safetensors', which does not hold"):
        open_local(toy)


def test_a_tensor_in_another_shard_than_named_is_named(toy: Path) -> None:
    edit_index(toy, lambda index: index["weight_map"].update({"b.weight": "two.safetensors"}))
    with pytest.raises(CheckpointError, match=r"'b\.weight' stands in 'one\.safetensors', but .*into 'two\.safeten"):
        open_local(toy)


def test_a_tensor_in_two_shards_is_named(toy: Path, write_shard: Callable[..., Path]) -> None:
    write_shard(toy / "two.safetensors", {"c.weight": ("I8", (1,), b"c"), "a.weight": ("I8", (1,), b"c")})
    with pytest.raises(CheckpointError, match=r"'a\.weight' stands in 'two\.safetensors', but .*into 'one\.safeten"):
        open_local(toy)


def test_a_tensor_that_the_index_leaves_out_is_named(toy: Path) -> None:
    edit_index(toy, lambda index: index["weight_map"].pop("b.weight"))
    with pytest.raises(CheckpointError, match=r"'b\.weight' stands in 'one\.safetensors', but .* does not name it"):
        open_local(toy)


@pytest.mark.parametrize("weight_map", [None, {}, [], "one.safetensors"])
def test_an_index_without_a_map_is_refused(toy: Path, weight_map: object) -> None:
    edit_index(toy, lambda index: index.update(weight_map=weight_map))
    with pytest.raises(CheckpointError, match="has no weight_map"):
        open_local(toy)


def test_a_tensor_that_the_index_names_twice_is_refused(toy: Path) -> None:
    names = '"a.weight":"one.safetensors","a.weight":"two.safetensors"'
    (toy / INDEX_NAME).write_text('{"weight_map":{' + names + "}}")
    with pytest.raises(CheckpointError, match=r"index .*key 'a\.weight' stands twice"):
        open_local(toy)


@pytest.mark.parametrize("name", ["model.safetensors", "diffusion.safetensors", "UPPER.SAFETENSORS"])
def test_a_single_file_needs_no_index(tmp_path: Path, write_checkpoint: Callable[..., Path], name: str) -> None:
    folder = write_checkpoint(tmp_path / "x", {"a": ("I8", (1,), b"a")}, {}, {name: ["a"]})
    (folder / INDEX_NAME).unlink()
    checkpoint = open_local(folder)
    assert (checkpoint.index_name, checkpoint.index_metadata) == (None, {})
    assert [shard.name for shard in checkpoint.shards] == [name]
    assert checkpoint.side_files == ()
    assert checkpoint.unindexed == ()


def test_model_safetensors_comes_before_others(toy: Path, write_shard: Callable[..., Path]) -> None:
    (toy / INDEX_NAME).unlink()
    write_shard(toy / "model.safetensors", {"a": ("I8", (1,), b"a")})
    checkpoint = open_local(toy)
    assert [shard.name for shard in checkpoint.shards] == ["model.safetensors"]
    assert [file.name for file in checkpoint.unindexed] == ["one.safetensors", "two.safetensors"]


def test_several_files_without_an_index_are_named(toy: Path) -> None:
    (toy / INDEX_NAME).unlink()
    with pytest.raises(CheckpointError, match=r"has one\.safetensors, two\.safetensors, but no model\.safetensors\.in"):
        open_local(toy)


def test_no_weights_at_all_are_told(toy: Path) -> None:
    for path in toy.glob("*.safetensors*"):
        path.unlink()
    with pytest.raises(CheckpointError, match="no safetensors file; download the model's weights"):
        open_local(toy)


def test_files_without_a_tensor_are_told(toy: Path, write_shard: Callable[..., Path]) -> None:
    (toy / INDEX_NAME).unlink()
    write_shard(toy / "model.safetensors", {})
    with pytest.raises(CheckpointError, match=r"model\.safetensors holds no tensor"):
        open_local(toy)


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors are missing"),
        (
            "model-00002-of-00009.safetensors",
            r"model-00001-of-00009.*, model-00004-of-00009\.safetensors and 5 more are",
        ),
        ("diffusion_1-OF-2.SAFETENSORS", "diffusion_2-OF-2.SAFETENSORS are missing"),
        ("model-00003-of-00002.safetensors", "model-00002-of-00002.safetensors are missing"),
        ("x-1-of-999999999.safetensors", "and 999999995 more are missing"),
    ],
)
def test_one_of_several_files_is_not_a_model(
    tmp_path: Path, write_checkpoint: Callable[..., Path], name: str, missing: str
) -> None:
    folder = write_checkpoint(tmp_path / "x", {"a": ("I8", (1,), b"a")}, {}, {name: ["a"]})
    (folder / INDEX_NAME).unlink()
    with pytest.raises(CheckpointError, match=rf"is one of \d+ files by its name, but {INDEX_NAME}, .*{missing}"):
        open_local(folder)


@pytest.mark.parametrize("name", ["model-00001-of-00001.safetensors", "best-of-2.safetensors"])
def test_a_file_that_is_the_only_one_by_its_name_is_a_model(
    tmp_path: Path, write_checkpoint: Callable[..., Path], name: str
) -> None:
    folder = write_checkpoint(tmp_path / "x", {"a": ("I8", (1,), b"a")}, {}, {name: ["a"]})
    (folder / INDEX_NAME).unlink()
    assert [shard.name for shard in open_local(folder).shards] == [name]


@pytest.mark.parametrize("number", ["1e999", "-Infinity", "NaN"])
@pytest.mark.parametrize("place", ['"x": %s', '"x": [{"total_size": %s}]'])
def test_a_number_that_json_cannot_hold_is_refused(toy: Path, number: str, place: str) -> None:
    names = '"a.weight": "one.safetensors", "b.weight": "one.safetensors", "c.weight": "two.safetensors"'
    metadata = place % number
    (toy / INDEX_NAME).write_text(
        '{"metadata": {"total_size": 1e999, ' + metadata + '}, "weight_map": {' + names + "}}"
    )
    with pytest.raises(CheckpointError, match=r"index .* has metadata with a number that is infinite or none"):
        open_local(toy)
