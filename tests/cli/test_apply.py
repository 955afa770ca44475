"""`apply`: what it made, said once; flags that reach the library; a result that stands."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from schemegen import api

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

SAMPLE = "sample:qwen3.6-moe"
APPLY = ("apply", "kimi-k2-int4", SAMPLE)
Faked = Callable[..., dict[str, Any]]


def result(**changed: Any) -> api.Result:
    made = api.Result(
        path=Path("out dir"),
        status="written",
        plan=api.plan("kimi-k2-int4", SAMPLE),
        seconds=2.0,
        bytes_in=3_280_000_000,
        bytes_out=1_100_000_000,
        resumed_bytes=0,
        checks=("one check", "another check"),
        serve="vllm serve 'out dir'",
        notes=(),
        unindexed=(),
    )
    return replace(made, **changed)


@pytest.fixture
def faked(monkeypatch: pytest.MonkeyPatch) -> Faked:
    """Put a result in place of the work; what `apply` was called with."""

    def fake(**changed: Any) -> dict[str, Any]:
        called: dict[str, Any] = {}

        def apply(scheme: str, model: str, output: str | None, **given: Any) -> api.Result:
            called.update(given, scheme=scheme, model=model, output=output)
            return result(**changed)

        monkeypatch.setattr("schemegen.api.apply", apply)
        return called

    return fake


def test_what_was_made(cli: Cli, faked: Faked) -> None:
    faked()
    done = cli(*APPLY)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "written   out dir",
        f"scheme    kimi-k2-int4 on {SAMPLE}",
        "tensors   124 in, 474 out",
        "size      3.28 GB to 1.10 GB, 2.98 times smaller",
        "time      2.00 s, 1.64 GB/s",
        "checked   one check",
        "          another check",
        "serve     vllm serve 'out dir'",
    ]


def test_what_was_resumed_left_out_and_remarked(cli: Cli, faked: Faked) -> None:
    faked(resumed_bytes=1_280_000_000, unindexed=("old.bin", "old.gguf"), notes=("a remark",))
    lines = cli(*APPLY).out.splitlines()
    assert "time      2.00 s, 1.00 GB/s" in lines
    assert "resumed   1.28 GB were done by an earlier run" in lines
    assert lines[lines.index("left out  old.bin") + 1] == "          old.gguf"
    assert "note      a remark" in lines


def test_a_result_that_stands_is_one_sentence(cli: Cli, faked: Faked) -> None:
    faked(status="unchanged")
    assert cli(*APPLY).out == "out dir already holds this result; nothing to do (schemegen verify reads every byte)\n"


def test_json_is_one_object_without_the_tensors(cli: Cli, faked: Faked) -> None:
    faked()
    told = json.loads(cli(*APPLY, "--json").out)
    plan = result().plan
    assert told.keys() == {
        *("path", "status", "seconds", "bytes_in", "bytes_out", "resumed_bytes", "checks", "serve", "notes"),
        *("unindexed", "model_id", "scheme", "totals"),
    }
    assert (told["path"], told["status"], told["scheme"]) == ("out dir", "written", "kimi-k2-int4")
    assert told["totals"]["tensors_out"] == plan.totals.tensors_out
    assert [row["role"] for row in told["totals"]["by_role"]] == [row.role for row in plan.totals.by_role]


def test_defaults_reach_the_library(cli: Cli, faked: Faked) -> None:
    called = faked()
    cli(*APPLY)
    called.pop("progress")
    assert called == {
        "scheme": "kimi-k2-int4",
        "model": SAMPLE,
        "output": None,
        "policies": (),
        "backend": "native-rtn",
        "device": "auto",
        "jobs": None,
        "revision": None,
        "base_model": None,
        "overwrite": False,
        "restart": False,
        "unindexed": "refuse",
    }


def test_flags_reach_the_library(cli: Cli, faked: Faked) -> None:
    called = faked()
    flags = "-o out --policy a --policy b.yaml --backend x --device cuda:0 --device cuda:1 --jobs 3 --overwrite"
    flags += " --revision v1 --base-model a/b --restart --unindexed drop"
    assert cli(*APPLY, *flags.split()).code == 0
    called.pop("progress")
    assert called == {
        "scheme": "kimi-k2-int4",
        "model": SAMPLE,
        "output": "out",
        "policies": ("a", "b.yaml"),
        "backend": "x",
        "device": ("cuda:0", "cuda:1"),
        "jobs": 3,
        "revision": "v1",
        "base_model": "a/b",
        "overwrite": True,
        "restart": True,
        "unindexed": "drop",
    }


def test_the_sample_is_made_once(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "größer, mit Leerzeichen"
    done = cli(*APPLY, "-o", str(folder), "--json")
    assert done.code == 0
    told = json.loads(done.out)
    assert (told["path"], told["status"]) == (str(folder), "written")
    assert (folder / "config.json").is_file()
    assert done.err.startswith("quantize  18.2 MB\n")
    again = cli(*APPLY, "-o", str(folder))
    assert (again.code, again.out) == (
        0,
        f"{folder} already holds this result; nothing to do (schemegen verify reads every byte)\n",
    )
    other = cli(*APPLY, "-o", str(folder), "--policy", "keep-mtp", "--json")
    assert other.code == 1
    assert json.loads(other.out)["error"]["kind"] == "OutputError"


def test_the_progress_is_that_of_stderr(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def apply(*args: object, progress: Any, **given: object) -> api.Result:
        progress.start("quantize", 10)
        progress.advance(10)
        progress.finish()
        return result()

    monkeypatch.setattr("schemegen.api.apply", apply)
    done = cli(*APPLY, "--json")
    assert done.err.splitlines()[0] == "quantize  10 B"
    assert "10 of 10 B  100 %" in done.err
    assert json.loads(done.out)["status"] == "written"
