"""The manifest: equal bytes for equal content, and nothing damaged, forged or foreign is taken for one."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import schemegen
from schemegen.digests import digest
from schemegen.errors import CheckpointError, OutputError, VerificationError
from schemegen.manifest import (
    MANIFEST_NAME,
    Manifest,
    SourceShard,
    Sums,
    Tile,
    check_names,
    read_manifest,
    tile,
    travel_names,
    write_manifest,
)
from schemegen.planner import ResolvedRule

HEX = "0123456789abcdef" * 2


@pytest.fixture(scope="session")
def manifest(sample_folder: Path) -> Manifest:
    """A manifest of the sample's plan, with made-up digests."""
    plan = schemegen.plan("kimi-k2-int4", sample_folder, policies=["keep-mtp"])
    return Manifest(
        schemegen="1.2.3",
        backend="native-rtn",
        backend_versions={"numpy": "2"},
        backend_report=("nothing to say",),
        model_id=plan.model_id,
        revision=None,
        architecture=plan.architecture,
        scheme=plan.scheme,
        scheme_digest=plan.scheme.digest,
        rules=[rule.to_dict() for rule in plan.rules],
        notes=plan.notes,
        left_out=("other.gguf",),
        totals=Sums.of(plan.totals),
        source=(SourceShard(name="a.safetensors", size=5, header_digest=HEX, sample_digest=HEX),),
        source_files={"config.json": HEX},
        files={"config.json": HEX, "sub/über.txt": HEX},
        shards={"a.safetensors": (Tile(3, HEX), Tile(2, HEX[::-1])), "b.safetensors": ()},
    )


def rewritten(folder: Path, **changes: Any) -> None:
    """Change fields of the manifest in `folder` and seal it again, as somebody who wants to be believed would."""
    path = folder / MANIFEST_NAME
    body = json.loads(path.read_bytes())
    del body["digest"]
    raw = json.dumps(body | changes).encode()[:-1]
    path.write_bytes(raw + f',\n  "digest": "{digest([raw])}"\n}}\n'.encode())


def test_it_comes_back_as_it_was_written(manifest: Manifest, tmp_path: Path) -> None:
    write_manifest(tmp_path, manifest)
    assert [path.name for path in tmp_path.iterdir()] == [MANIFEST_NAME]
    assert read_manifest(tmp_path) == manifest
    assert read_manifest(tmp_path).to_bytes() == (tmp_path / MANIFEST_NAME).read_bytes()


def test_it_is_plain_json_with_a_line_a_chunk(manifest: Manifest) -> None:
    text = manifest.to_bytes().decode()
    body = json.loads(text)
    assert body["shards"] == {"a.safetensors": [[3, HEX], [2, HEX[::-1]]], "b.safetensors": []}
    assert body["totals"]["by_role"][0]["role"] == "routed_expert"
    assert [rule["label"] for rule in body["rules"]] == ["keep-mtp[0]", "experts-only[0]"]
    assert text.count(f'[3, "{HEX}"],\n') == 1


def test_many_chunks_stay_small(manifest: Manifest) -> None:
    tiles = tuple(Tile(8 << 20, f"{number:032x}") for number in range(25_000))
    assert len(manifest.model_copy(update={"shards": {"a": tiles}}).to_bytes()) < 1_500_000


def test_it_names_no_place(manifest: Manifest, tmp_path: Path) -> None:
    write_manifest(tmp_path, manifest)
    text = (tmp_path / MANIFEST_NAME).read_text()
    assert str(tmp_path) not in text
    assert str(Path.home()) not in text
    assert re.search(r"mtime|time_ns|20\d\d-\d\d", text) is None


def test_any_changed_byte_is_noticed(manifest: Manifest, tmp_path: Path) -> None:
    raw = manifest.to_bytes()
    for position in random.Random(7).sample(range(len(raw)), 300):
        changed = bytearray(raw)
        changed[position] ^= 1
        (tmp_path / MANIFEST_NAME).write_bytes(changed)
        with pytest.raises(VerificationError, match=MANIFEST_NAME):
            read_manifest(tmp_path)


@pytest.mark.parametrize("cut", [0, 1, 40, 400])
def test_a_cut_one_is_damaged(manifest: Manifest, tmp_path: Path, cut: int) -> None:
    raw = manifest.to_bytes()
    (tmp_path / MANIFEST_NAME).write_bytes(raw[:cut] if cut else b"")
    with pytest.raises(VerificationError, match="damaged"):
        read_manifest(tmp_path)


def test_a_folder_without_one_is_no_output(tmp_path: Path) -> None:
    with pytest.raises(VerificationError, match=r"holds no schemegen\.json"):
        read_manifest(tmp_path)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"schema_version": 2}, "schema_version"),
        ({"extra": 1}, "extra"),
        ({"scheme_digest": "0" * 64}, "scheme_digest"),
        ({"files": {"../x": HEX}}, "files"),
        ({"files": {"/x": HEX}}, "files"),
        ({"files": {"a//b": HEX}}, "files"),
        ({"files": {"a": "nonsense"}}, "files"),
        ({"shards": {"a": [[-1, HEX]]}}, "shards"),
        ({"shards": {"a": [["1", HEX]]}}, "shards"),
        ({"digest_algorithm": "md5"}, "digest_algorithm"),
        ({"shards": {"a": [[0, HEX]]}}, "shards"),
        ({"shards": {"a": [[10**4200, HEX]]}}, "shards"),
        ({"files": {"a\0b": HEX}}, "files"),
        ({"source_files": {"../x": HEX}}, "source_files"),
        ({"rules": [{}]}, "rules.0"),
        ({"notes": ["\ud800"]}, "Invalid JSON"),
        ({"rules": [[]]}, "rules.0"),
        ({"rules": [{"label": "a", "format": None, "rule": {"use": 1}}]}, "rules.0"),
        ({"rules": [{"label": 1, "format": None, "rule": {"use": "keep"}}]}, "rules.0"),
        ({"rules": [{"label": "a", "format": None, "rule": {"use": "keep"}, "more": 1}]}, "rules.0"),
        ({"rules": [{"label": "a", "format": "int4", "rule": {"use": "keep"}}]}, "rules.0"),
        ({"rules": [{"label": "a", "format": "int5", "rule": {"use": "int5"}}]}, "rules.0"),
        ({"rules": [{"label": "a", "format": [], "rule": {"use": "keep"}}]}, "rules.0"),
        ({"rules": [{"label": "a", "format": None, "rule": {"use": "keep", "name": "re:("}}]}, "rules.0"),
    ],
)
def test_a_sealed_one_of_other_content_is_refused(
    manifest: Manifest, tmp_path: Path, changes: dict[str, Any], field: str
) -> None:
    write_manifest(tmp_path, manifest)
    rewritten(tmp_path)
    assert read_manifest(tmp_path) == manifest
    rewritten(tmp_path, **changes)
    with pytest.raises(VerificationError, match=f"not a manifest that this version reads.*{field}"):
        read_manifest(tmp_path)


def test_an_output_whose_scheme_would_be_refused_today_verifies(
    finished: Path, sample_folder: Path, tmp_path: Path
) -> None:
    """An earlier version took a rule that others shadow, and layers that run backwards; nobody can mend its output."""
    folder = shutil.copytree(finished, tmp_path / "old")
    found = read_manifest(folder)
    body = found.scheme.model_dump(mode="json")
    late = [{"role": "routed_expert", "use": "int4"}, {"role": "mlp", "layers": "3-1", "use": "int4"}]
    scheme = schemegen.Scheme.model_validate(body | {"policy": ["experts-only", *late]})
    rules = [*found.rules, *({"label": f"{scheme.name}[{n}]", "format": "int4", "rule": late[n - 1]} for n in (1, 2))]
    rewritten(folder, scheme=scheme.model_dump(mode="json"), scheme_digest=scheme.digest, rules=rules)
    assert [ResolvedRule.from_dict(rule).source for rule in rules] == ["experts-only", scheme.name, scheme.name]
    assert schemegen.verify(folder).checks
    assert schemegen.verify(folder, against=sample_folder).checks
    with pytest.raises(schemegen.PlanError, match=r"policy\.1: .* never decides"):
        schemegen.plan(scheme, sample_folder)
    made = schemegen.plan("kimi-k2-int4", sample_folder)
    old = replace(made, scheme=scheme, rules=tuple(map(ResolvedRule.from_dict, rules)))
    assert schemegen.Plan.from_json(old.to_json()) == old


def test_a_place_that_cannot_be_written_is_an_output_error(manifest: Manifest, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=MANIFEST_NAME):
        write_manifest(tmp_path / "missing", manifest)


def test_tiles_are_sorted_into_place() -> None:
    assert tile("a", 6, [(3, 3, "c"), (0, 1, "a"), (1, 2, "b")]) == (Tile(1, "a"), Tile(2, "b"), Tile(3, "c"))


@pytest.mark.parametrize(
    ("size", "found", "message"),
    [
        (6, [(0, 3, "a"), (4, 2, "b")], "written at 4 leaves a gap behind what ends at 3"),
        (6, [(0, 4, "a"), (3, 3, "b")], "written at 3 overlaps what ends at 4"),
        (6, [(0, 3, "a"), (0, 3, "a"), (3, 3, "b")], "written at 0 overlaps"),
        (6, [(0, 3, "a")], "3 of 6 bytes"),
        (2, [(0, 3, "a")], "3 of 2 bytes"),
        (6, [(1, 5, "a")], "leaves a gap"),
        (1, [], "0 of 1 bytes"),
    ],
)
def test_what_does_not_cover_the_file_is_refused(size: int, found: list[tuple[int, int, str]], message: str) -> None:
    with pytest.raises(OutputError, match=f"a.safetensors: .*{message}"):
        tile("a.safetensors", size, found)


def test_side_files_give_way_to_the_outputs_own() -> None:
    names = ["README.md", "README.base.md", "schemegen.json", "sub/README.md", "readme.md"]
    assert travel_names(names) == {
        "README.md": "README.base2.md",
        "README.base.md": "README.base.md",
        "schemegen.json": "schemegen.base.json",
        "sub/README.md": "sub/README.md",
        "readme.md": "readme.base3.md",
    }
    assert travel_names(["README.md/a", "README.md/b", "README.base.md/c", "x"]) == {
        "README.md/a": "README.base2.md/a",
        "README.md/b": "README.base2.md/b",
        "README.base.md/c": "README.base.md/c",
        "x": "x",
    }


@pytest.mark.parametrize(
    "shard",
    [
        "README.md",
        "readme.md",
        "schemegen.json",
        "config.json",
        "config.json/a",
        "schemegen.json.part",
        "README.base.md",
    ],
)
def test_a_shard_in_the_way_of_another_file_is_told_before_any_work(shard: str) -> None:
    check_names(["README.md", "a/b"], ["model.safetensors", "a/model.safetensors"])
    with pytest.raises(CheckpointError, match=f"shard '{shard}' has the name.*rename it"):
        check_names(["README.md"], ["model.safetensors", shard])


def test_what_is_no_file_is_no_manifest(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / MANIFEST_NAME)
    with pytest.raises(VerificationError, match="no manifest"):
        read_manifest(tmp_path)


def test_a_side_file_cannot_have_the_temporary_name(manifest: Manifest, tmp_path: Path) -> None:
    (tmp_path / "schemegen.json.tmp").write_text("the source's")
    os.mkfifo(tmp_path / "schemegen.json.part")
    write_manifest(tmp_path, manifest)
    assert (tmp_path / "schemegen.json.tmp").read_text() == "the source's"
    assert not (tmp_path / "schemegen.json.part").exists()
