"""A sealed folder holds the source's files, the loaders' texts, and a manifest that names every byte."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

import schemegen
from schemegen.digests import file_digest
from schemegen.errors import CheckpointError, OutputError, VerificationError
from schemegen.manifest import read_manifest
from schemegen.seal import Sealing, seal
from schemegen.verifier import check_unread

MakeSealing = Callable[..., Sealing]
INDEX = "model.safetensors.index.json"
OWN = {"config.json", "README.md", "schemegen.json", INDEX}


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by posix name."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_every_side_file_travels_byte_for_byte(source: Path, shards: Path, make_sealing: MakeSealing) -> None:
    (source / "deep" / "er").mkdir(parents=True)
    (source / "deep" / "er" / "modeling_x.py").write_bytes(b"raise SystemExit\r\n")
    (source / "empty.txt").touch()
    seal(shards, make_sealing(source, shards))
    theirs, ours = contents(source), contents(shards)
    for name in theirs.keys() - OWN:
        assert name.endswith(".safetensors") or ours[name] == theirs[name], name
    assert ours["deep/er/modeling_x.py"] == b"raise SystemExit\r\n"
    assert ours["README.base.md"] == theirs["README.md"]
    assert ours.keys() == theirs.keys() | {"README.base.md", "schemegen.json"}


def test_the_manifest_names_every_file_and_every_byte(source: Path, shards: Path, make_sealing: MakeSealing) -> None:
    sealing = make_sealing(source, shards, report=("a remark",))
    manifest = seal(shards, sealing)
    assert read_manifest(shards) == manifest
    names = set(contents(shards)) - {"schemegen.json"}
    assert manifest.files.keys() | manifest.shards.keys() == names
    assert all(file_digest(shards / name) == digest for name, digest in manifest.files.items())
    for name, tiles in manifest.shards.items():
        assert sum(tile.nbytes for tile in tiles) == (shards / name).stat().st_size
    assert [shard.name for shard in manifest.source] == sorted(manifest.shards)
    assert manifest.totals.bytes_out == sealing.plan.totals.bytes_out
    assert (manifest.backend, manifest.backend_versions) == ("a-backend", {"numpy": "2.0"})
    assert manifest.backend_report == ("a remark",)


def test_what_is_sealed_passes_the_checks_of_a_run(source: Path, shards: Path, make_sealing: MakeSealing) -> None:
    sealing = make_sealing(source, shards)
    assert len(check_unread(shards, sealing.plan, seal(shards, sealing))) >= 5
    other = make_sealing(source, shards, "keep-mtp")
    with pytest.raises(VerificationError, match="mtp"):
        check_unread(shards, other.plan, seal(shards, other))


def test_sealing_again_and_elsewhere_gives_equal_bytes(
    source: Path, shards: Path, tmp_path: Path, make_sealing: MakeSealing
) -> None:
    sealing = make_sealing(source, shards)
    seal(shards, sealing)
    first = contents(shards)
    other = Path(shutil.copytree(shards, tmp_path / "quite" / "another"))
    (other / "README.md").write_text("an interrupted run's")
    (other / "schemegen.json.part").write_text("an interrupted run's")
    seal(other, sealing)
    assert contents(other) == first


def test_half_characters_do_not_end_a_run_at_its_end(source: Path, shards: Path, make_sealing: MakeSealing) -> None:
    (source / "README.md").write_text('---\nlicense: "\\ud800"\ntags: ["\\udc00"]\n---\n')
    sealing = make_sealing(source, shards, report=("a \ud800 remark",), notes=("\udfff",))
    seal(shards, replace(sealing, versions={"x": "1\ud800"}, backend="b\ud800"))
    manifest = read_manifest(shards)
    assert manifest.backend_report == ("a \ufffd remark",)
    assert manifest.notes == ("\ufffd",)
    card = (shards / "README.md").read_text(encoding="utf-8")
    assert "a \ufffd remark" in card
    assert "\ufffd" in yaml.safe_load(card.split("---")[1])["tags"]


def test_no_text_names_the_places(source: Path, shards: Path, tmp_path: Path, make_sealing: MakeSealing) -> None:
    seal(shards, make_sealing(source, shards))
    for name in OWN:
        text = (shards / name).read_text()
        assert str(tmp_path) not in text
        assert "quirk" not in text


def test_config_and_index_say_what_loaders_need(source: Path, shards: Path, make_sealing: MakeSealing) -> None:
    index = json.loads((source / INDEX).read_text())
    index["metadata"] = {"total_size": 1.5, "note": "kept"}
    (source / INDEX).write_text(json.dumps(index))
    sealing = make_sealing(source, shards)
    seal(shards, sealing)
    before, after = (source / "config.json").read_text(), (shards / "config.json").read_text()
    assert after.startswith(before.rstrip().removesuffix("}").rstrip())
    assert list(json.loads(after).items())[:-1] == list(json.loads(before).items())
    written = json.loads((shards / INDEX).read_text())
    assert written["metadata"] == {"total_size": sealing.plan.totals.bytes_out, "note": "kept"}
    assert type(written["metadata"]["total_size"]) is int
    assert list(written["weight_map"]) == sorted(o.name for t in sealing.plan.tensors for o in t.outputs)


def test_one_file_without_an_index_stays_so(
    source: Path, tmp_path: Path, write_checkpoint: Callable[..., Path], make_sealing: MakeSealing
) -> None:
    one = tmp_path / "one"
    merge(source, one, write_checkpoint)
    output = tmp_path / "made"
    schemegen.apply("kimi-k2-int4", one, output)
    assert set(contents(output)) == {"model.safetensors", "config.json", "README.md", "schemegen.json"}
    assert read_manifest(output).files.keys() == {"config.json", "README.md"}


def merge(source: Path, target: Path, write_checkpoint: Callable[..., Path]) -> None:
    """Write the tensors of a sharded checkpoint into one file."""
    from schemegen.checkpoint.local import open_local

    checkpoint = open_local(source)
    tensors = {}
    for tensor in checkpoint.tensors:
        raw = checkpoint.path(tensor.shard).read_bytes()
        tensors[tensor.name] = (tensor.dtype, tensor.shape, raw[tensor.offset : tensor.offset + tensor.nbytes])
    write_checkpoint(target, tensors, checkpoint.config)


def test_digests_that_do_not_cover_a_shard_are_refused(source: Path, shards: Path, make_sealing: MakeSealing) -> None:
    sealing = make_sealing(source, shards)
    file = sealing.plan.files[0]
    for digests in ({**sealing.digests, file: sealing.digests[file][1:]}, {}):
        with pytest.raises(OutputError, match=r"model-00001.*bytes"):
            seal(shards, replace(sealing, digests=digests))
    assert not (shards / "schemegen.json").exists()


def test_a_side_file_that_changes_under_the_run_is_noticed(
    source: Path, shards: Path, make_sealing: MakeSealing
) -> None:
    sealing = make_sealing(source, shards)
    with (source / "tokenizer.json").open("a") as file:
        file.write(" ")
    with pytest.raises(CheckpointError, match=r"tokenizer\.json"):
        seal(shards, sealing)
    assert not (shards / "schemegen.json").exists()


def test_the_manifest_comes_last_and_in_one_step(
    source: Path, shards: Path, make_sealing: MakeSealing, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[set[str]] = []
    rename = Path.replace

    def replaced(self: Path, target: Path) -> Path:
        seen.append(set(contents(shards)))
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", replaced)
    manifest = seal(shards, make_sealing(source, shards))
    assert seen == [{*manifest.files, *manifest.shards, "schemegen.json.part"}]


def test_every_file_is_flushed_before_the_manifest_has_its_name(
    source: Path, shards: Path, make_sealing: MakeSealing, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: set[tuple[int, int]] = set()
    before: list[set[tuple[int, int]]] = []
    fsync, rename = os.fsync, Path.replace

    def noted(descriptor: int) -> None:
        fsync(descriptor)
        flushed.add(inode(descriptor))

    def replaced(self: Path, target: Path) -> Path:
        before.append(set(flushed))
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(Path, "replace", replaced)
    manifest = seal(shards, make_sealing(source, shards))
    wanted = {shards / name for name in (*manifest.files, *manifest.shards)} | {shards, shards / "examples"}
    assert {inode(path) for path in wanted} <= before[0]


def inode(file: int | Path) -> tuple[int, int]:
    found = os.stat(file)
    return found.st_dev, found.st_ino
