"""`schemegen new`: what it says, and what it leaves on disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Cli


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder of the test's own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_plugin_comes_with_the_commands_to_go_on_with(cli: Cli, here: Path) -> None:
    done = cli("new", "plugin", "acme-quant")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "written  schemegen-acme-quant",
        "files    pyproject.toml",
        "         README.md",
        "         src/schemegen_acme_quant/__init__.py",
        "         src/schemegen_acme_quant/schemes/acme-quant-int4.yaml",
        "         src/schemegen_acme_quant/py.typed",
        "         tests/cases/acme-quant-int4.yaml",
        "         tests/test_cases.py",
        "         tests/test_plugin.py",
        "next     cd schemegen-acme-quant",
        "         pip install -e '.[test]'",
        "         pytest",
        "         schemegen apply acme-quant-int4 sample:qwen3.6-moe",
    ]
    assert [path.name for path in here.iterdir()] == ["schemegen-acme-quant"]


def test_a_scheme_is_a_file_that_every_command_takes(cli: Cli, here: Path) -> None:
    made = json.loads(cli("new", "scheme", "acme-int4", "-o", "my schemes", "--json").out)
    folder = here / "my schemes"
    assert made["folder"] == str(folder)
    assert sorted(made["files"]) == sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )
    assert cli("check", str(folder / "acme-int4.yaml")).code == 0
    assert cli("plan", str(folder / "acme-int4.yaml"), "sample:qwen3.6-moe").code == 0


def test_a_folder_with_a_blank_is_quoted(cli: Cli) -> None:
    assert "next     cd 'my schemes'" in cli("new", "scheme", "acme-int4", "-o", "my schemes").out


def test_a_folder_like_an_option_is_named_as_a_folder(cli: Cli, here: Path) -> None:
    assert "next     cd ./--" in cli("new", "scheme", "acme-int4", "-o", "--").out
    assert (here / "--" / "acme-int4.yaml").is_file()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["plugin", "Acme.Quant"], "did you mean acme-quant?"),
        (["scheme", "w4a16-g32"], "scheme 'w4a16-g32' is taken by schemegen"),
        (["scheme", "taken"], "taken exists; choose another folder with -o"),
        (["scheme", "acme", "-o", "no/where"], "there is no folder"),
    ],
)
def test_what_cannot_be_is_one_error_and_nothing_on_disk(cli: Cli, here: Path, arguments: list[str], told: str) -> None:
    (here / "taken").mkdir()
    done = cli("new", *arguments)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error: ")
    assert told in done.err
    assert len(done.err.splitlines()) == 1
    assert [path.name for path in here.rglob("*")] == ["taken"]


@pytest.mark.parametrize("arguments", [["policy", "x"], ["plugin"], ["plugin", ""], ["scheme", "x", "-o", ""]])
def test_other_kinds_and_missing_names_are_wrong_usage(cli: Cli, here: Path, arguments: list[str]) -> None:
    assert cli("new", *arguments).code == 2
    assert list(here.iterdir()) == []
