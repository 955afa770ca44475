"""`check`: a line for a good file, all faults of the others, and the schemas for editors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from schemegen.backends.lacks import Lack
from schemegen.schemas import KINDS, json_schema

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

SCHEME = """\
schema_version: 1
name: mine
summary: INT4 on routed experts
formats:
  int4: {num_bits: 4, group_size: 32}
  fp8: {num_bits: 8, type: float, strategy: channel}
policy: [{role: routed_expert, use: int4}, {role: attention, use: fp8}]
"""
POLICY = "schema_version: 1\nname: keep-it\nsummary: s\nrules: [{part: mtp, use: keep}]\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a good scheme and a good policy."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(SCHEME, encoding="utf-8")
    (tmp_path / "keep-it.yaml").write_text(POLICY, encoding="utf-8")
    return tmp_path


@pytest.mark.usefixtures("here")
def test_good_files_are_a_line_each(cli: Cli) -> None:
    done = cli("check", "mine.yaml", "keep-it.yaml")
    assert (done.code, done.err) == (0, "")
    assert done.out == (
        "mine.yaml: scheme mine: int4 INT4 g32; fp8 FP8 per channel\nkeep-it.yaml: policy keep-it: 1 rule\n"
    )


def test_all_faults_of_all_files_come_at_once(cli: Cli, here: Path) -> None:
    (here / "bad.yaml").write_text(SCHEME.replace("num_bits: 4", "num_bits: x").replace("use: fp8", "use: fp4"))
    done = cli("check", "bad.yaml", "none.yaml", "keep-it.yaml")
    assert done.code == 1
    assert done.out.splitlines() == [
        "bad.yaml:5: formats.int4.num_bits: must be a whole number",
        "bad.yaml:7: policy.1.use: fp4 names no format of this scheme; it has int4, fp8, and keep",
        "none.yaml: cannot be read: no such file or directory",
        "keep-it.yaml: policy keep-it: 1 rule",
    ]
    assert done.err == "error: 3 faults in 2 of 3 files\n"


def test_more_faults_than_an_error_shows_are_all_told(cli: Cli, here: Path) -> None:
    (here / "bad.yaml").write_text(SCHEME + "".join(f"x{number}: 1\n" for number in range(40)))
    assert len(cli("check", "bad.yaml").out.splitlines()) == 40


def test_json_tells_the_same(cli: Cli, here: Path) -> None:
    (here / "bad.yaml").write_text(SCHEME + "kv_cache: {num_bits: 8}\n")
    (here / "empty.yaml").touch()
    done = cli("check", "--json", "mine.yaml", "bad.yaml", "empty.yaml")
    assert done.code == 1
    good, bad, empty = json.loads(done.out)["files"]
    assert good == {"file": "mine.yaml", "kind": "scheme", "name": "mine", "faults": [], "remarks": []}
    assert (bad["kind"], bad["name"]) == ("scheme", "mine")
    assert [(fault["line"], fault["field"]) for fault in bad["faults"]] == [(2, "name"), (8, "kv_cache")]
    assert (empty["kind"], empty["name"], len(empty["faults"])) == (None, None, 1)


@pytest.mark.usefixtures("here")
def test_a_remark_is_a_note(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    told = Lack("would take it, with a package more")
    monkeypatch.setattr("schemegen.backends.guard.GuardedBackend.refuses", lambda self, format: told)
    done = cli("check", "mine.yaml")
    assert (done.code, done.out) == (0, "mine.yaml: scheme mine: int4 INT4 g32; fp8 FP8 per channel\n")
    assert done.err.startswith("note: mine.yaml:5: formats.int4: no backend takes it: ")
    (found,) = json.loads(cli("check", "--json", "mine.yaml").out)["files"]
    assert [(remark["line"], remark["field"]) for remark in found["remarks"]] == [
        (5, "formats.int4"),
        (6, "formats.fp8"),
    ]


@pytest.mark.usefixtures("here")
def test_a_folder_stands_for_its_files(cli: Cli) -> None:
    assert cli("check", ".").out.splitlines() == cli("check", "keep-it.yaml", "mine.yaml").out.splitlines()


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_is_printed(cli: Cli, kind: str) -> None:
    done = cli("check", "--schema", kind)
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out) == json_schema(kind)
    assert len(done.out.splitlines()) > 50, "for reading, too"


@pytest.mark.parametrize("args", [[], ["--json"], ["--schema", "scheme", "mine.yaml"], ["--schema", "plan"], [""]])
def test_wrong_usage(cli: Cli, args: list[str]) -> None:
    assert cli("check", *args).code == 2
