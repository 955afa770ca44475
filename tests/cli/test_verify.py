"""`verify`: the checks that were made, or every finding and exit code 1."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from schemegen import api
from schemegen.errors import VerificationError

if TYPE_CHECKING:
    from tests.cli.conftest import Cli


def faked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    called: list[Any] = []

    def verify(
        folder: str, against: str | None, *, jobs: int | None, revision: str | None, progress: object
    ) -> api.Report:
        called.append((folder, against, jobs, revision))
        return api.Report(checks=("one check", "another check"), bytes_read=2_000_000_000)

    monkeypatch.setattr("schemegen.api.verify", verify)
    return called


def test_checks_are_told(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    called = faked(monkeypatch)
    done = cli("verify", "out dir")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[:3] == ["verified  out dir", "checked   one check", "          another check"]
    assert done.out.splitlines()[3].startswith("read      2.00 GB in ")
    assert called == [("out dir", None, None, None)]


def test_flags_reach_the_library(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    called = faked(monkeypatch)
    told = json.loads(cli("verify", "out", "--against", "model", "--revision", "v1", "--jobs", "2", "--json").out)
    assert called == [("out", "model", 2, "v1")]
    assert told.pop("seconds") >= 0
    assert told == {"path": "out", "checks": ["one check", "another check"], "bytes_read": 2_000_000_000, "notes": []}


def test_a_revision_of_nothing_is_a_usage_error(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    called = faked(monkeypatch)
    done = cli("verify", "out", "--revision", "main")
    assert (done.code, done.out, called) == (2, "", [])
    assert "--against MODEL" in done.err


def test_every_finding_is_told(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **given: object) -> NoReturn:
        raise VerificationError(["a.safetensors: wrong", "b.safetensors: wrong too"])

    monkeypatch.setattr("schemegen.api.verify", fail)
    done = cli("verify", "out", "--json")
    assert (done.code, done.err) == (1, "error: a.safetensors: wrong\nb.safetensors: wrong too\n")
    assert json.loads(done.out)["error"] == {
        "kind": "VerificationError",
        "message": "a.safetensors: wrong\nb.safetensors: wrong too",
    }


def test_a_folder_that_apply_did_not_write(cli: Cli, tmp_path: Path) -> None:
    assert cli("verify", str(tmp_path / "none")).code == 1
    done = cli("verify", str(tmp_path))
    assert (done.code, done.out) == (1, "")
    assert str(tmp_path) in done.err


def test_a_changed_byte_is_found(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    assert cli("apply", "kimi-k2-int4", "sample:qwen3.6-moe", "-o", str(folder)).code == 0
    assert cli("verify", str(folder)).code == 0
    shard = sorted(folder.glob("*.safetensors"))[0]
    raw = bytearray(shard.read_bytes())
    raw[-1] ^= 1
    shard.write_bytes(raw)
    done = cli("verify", str(folder))
    assert (done.code, done.out) == (1, "")
    assert shard.name in done.err.splitlines()[-1]
