"""The main job by its full name, as processes against a Hub on this machine: apply, plan, inspect and verify."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from bench.compare import tensor_differences
from bench.loopback_hub import Fault, LoopbackHub
from schemegen.checkpoint.hub.transfer import GUESS_BYTES

REPO = "Qwen/Tiny"
ROOT = Path(__file__).parents[2]
LEFT_ALONE = {"pytorch_model.bin": b"b" * 500_000, "model-Q4.gguf": b"g" * 500_000}
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where commands are run."""
    (tmp_path / "here").mkdir()
    return tmp_path / "here"


@pytest.fixture
def files(sample_folder: Path, hub_server: LoopbackHub) -> Mapping[str, bytes]:
    """The sample as a repository of the Hub, with files that no run needs; those that one needs."""
    paths = [path for path in sample_folder.rglob("*") if path.is_file()]
    needed = {path.relative_to(sample_folder).as_posix(): path.read_bytes() for path in paths}
    hub_server.add(REPO, {**needed, **LEFT_ALONE})
    return needed


@pytest.fixture
def run(hub_env: Mapping[str, str], folder: Path) -> Run:
    """Run the command line to its end."""

    def command(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-m", "schemegen", *args]
        whole = {**hub_env, "PYTHONPATH": str(ROOT), **env}
        return subprocess.run(words, cwd=folder, env=whole, capture_output=True, text=True, timeout=120, check=False)

    return command


@pytest.fixture
def here(hub: LoopbackHub, cli: Callable[..., Any], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command line in this process."""
    monkeypatch.chdir(folder)

    def command(*args: str) -> subprocess.CompletedProcess[str]:
        done = cli(*args)
        return subprocess.CompletedProcess(args, done.code, done.out, done.err)

    return command


def good(done: subprocess.CompletedProcess[str]) -> str:
    """What a command that succeeded printed."""
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_main_job(
    run: Run, hub_server: LoopbackHub, files: Mapping[str, bytes], folder: Path, finished: Path
) -> None:
    """Bytes fetched are bytes needed, headers and all; the commit is recorded."""
    commit = hub_server.repos[REPO].commit
    planned = json.loads(good(run("plan", "kimi-k2-int4", REPO, "--json")))
    assert (planned["model_id"], planned["revision"]) == (REPO, commit)
    assert sum(hub_server.sent.values()) < 4 * GUESS_BYTES
    good(run("apply", "kimi-k2-int4", REPO))
    assert dict(hub_server.sent) == {name: len(data) for name, data in files.items()}
    made = folder / "Tiny-kimi-k2-int4"
    assert [*tensor_differences(finished, made, same_shards=True)] == []
    assert json.loads((made / "schemegen.json").read_text())["revision"] == commit
    assert f"schemegen apply kimi-k2-int4 {REPO} --revision {commit}" in (made / "README.md").read_text()


def test_the_same_again_and_verify_fetch_nothing(
    here: Run, hub: LoopbackHub, files: Mapping[str, bytes], folder: Path
) -> None:
    commit = hub.repos[REPO].commit
    good(here("apply", "kimi-k2-int4", REPO))
    hub.forget()
    assert "already holds this result" in good(here("apply", "kimi-k2-int4", REPO, "--revision", commit))
    hub.repos[REPO].refs.update(main="1" * 40, before=commit)
    good(here("verify", "Tiny-kimi-k2-int4", "--against", REPO))
    assert f"at {commit}" in good(here("inspect", REPO, "--revision", commit))
    assert hub.sent == {}
    assert {path for _, path, _ in hub.requests} == {f"/api/models/{REPO}/tree/{commit}"}
    moved = here("verify", "Tiny-kimi-k2-int4", "--against", REPO, "--revision", "2" * 40)
    assert (moved.returncode, "has no revision" in moved.stderr) == (1, True)


def test_another_source_is_told_from_headers(
    here: Run, hub: LoopbackHub, files: Mapping[str, bytes], sample_folder: Path
) -> None:
    good(here("apply", "kimi-k2-int4", str(sample_folder), "-o", "out"))
    first, *_ = (name for name in files if name.endswith(".safetensors"))
    data = files[first].replace(b'{"format":"pt"}', b'{"format":"np"}')
    assert data != files[first]
    hub.add(REPO, {**files, first: data})
    done = here("verify", "out", "--against", REPO)
    assert (done.returncode, f"{first} has another header; give the same revision" in done.stderr) == (1, True)
    assert sum(hub.sent.values()) < 4 * GUESS_BYTES


def test_a_result_whose_source_is_gone_from_the_cache_needs_no_download(
    here: Run, hub: LoopbackHub, files: Mapping[str, bytes], tmp_path: Path
) -> None:
    good(here("apply", "kimi-k2-int4", REPO, "-o", "out"))
    shutil.rmtree(tmp_path / "hf")
    hub.forget()
    assert "already holds this result" in good(here("apply", "kimi-k2-int4", REPO, "-o", "out"))
    other = here("apply", "kimi-k2-int4", REPO, "-o", "out", "--policy", "keep-mtp")
    assert (other.returncode, "exists and is not this result" in other.stderr) == (1, True)
    hub.repos[REPO].refs["main"] = "1" * 40
    other = here("apply", "kimi-k2-int4", REPO, "-o", "out")
    assert (other.returncode, "revision: there" in other.stderr) == (1, True)
    assert sum(hub.sent.values()) < 10 * GUESS_BYTES


def test_what_a_server_says_in_its_own_words_is_not_repeated(
    run: Run, hub_server: LoopbackHub, files: Mapping[str, bytes]
) -> None:
    listing = json.dumps(hub_server.repos[REPO].tree()).encode()
    hub_server.faults.append(Fault("/tree/", 200, {"X-HF-Warning": "topic; \x1b[31mred"}, listing))
    done = run("inspect", REPO)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_stopped_download_goes_on(
    start: Callable[..., subprocess.Popen[bytes]],
    hub_env: Mapping[str, str],
    run: Run,
    hub_server: LoopbackHub,
    files: Mapping[str, bytes],
    folder: Path,
    finished: Path,
    number: signal.Signals,
) -> None:
    hub_server.bytes_per_second = 600_000
    code = f"main(['apply', 'kimi-k2-int4', {REPO!r}, '-o', 'out'])"
    process = start(code, cwd=folder, env={**hub_env, "PYTHONPATH": str(ROOT)})
    until = time.monotonic() + 60
    while sum(hub_server.sent.values()) < 3_000_000 and time.monotonic() < until:
        time.sleep(0.02)
    process.send_signal(number)
    said = process.communicate(timeout=30)[1].decode()
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number)
    assert ("interrupted; run the same command again to resume" in said) == (number == signal.SIGINT)
    assert not [*folder.iterdir()]
    left = {path.name.partition(".")[0]: path.stat().st_size for path in Path(hub_env["HF_HOME"]).rglob("*.incomplete")}
    assert sum(left.values()) > 1_000_000
    hub_server.bytes_per_second = None
    hub_server.forget()
    again = run("apply", "kimi-k2-int4", REPO, "-o", "out")
    good(again)
    assert re.search(r"download  [\d.]+ MB, [\d.]+ MB of it done before", again.stderr)
    shards = [name for name in files if name.endswith(".safetensors")]
    began = {
        path: int(asked[6:].partition("-")[0]) for _, path, asked in hub_server.requests if path.startswith("/cdn/")
    }
    assert sorted(began.values()) == sorted(left.values())
    assert sum(hub_server.sent[name] for name in shards) == sum(len(files[name]) for name in shards) - sum(
        left.values()
    )
    assert [*tensor_differences(finished, folder / "out", same_shards=True)] == []


def test_whatever_would_stop_the_run_stops_it_before_the_download(
    here: Run,
    hub: LoopbackHub,
    files: Mapping[str, bytes],
    folder: Path,
    write_shard: Callable[..., Path],
    tmp_path: Path,
) -> None:
    (folder / "taken").mkdir()
    (folder / "other.partial").mkdir()
    (folder / "other.partial" / "mine").touch()
    for args, says in (
        (["-o", "taken"], "exists and is no result of schemegen"),
        (["-o", "other"], "was made by no run"),
        (["--backend", "nobody"], "unknown backend"),
        (["--policy", "nobody"], "unknown policy"),
    ):
        done = here("apply", "kimi-k2-int4", REPO, *args)
        assert (done.returncode, done.stdout) == (1, "")
        assert says in done.stderr
    extra = write_shard(tmp_path / "x", {"mtp.fc.weight": ("I8", (9,), b"a" * 9)}).read_bytes()
    hub.add("Qwen/Lost", {**files, "mtp.safetensors": extra})
    done = here("apply", "kimi-k2-int4", "Qwen/Lost")
    assert "mtp.safetensors holds MTP tensors but the index does not name it" in done.stderr
    assert not any(name.startswith("tokenizer") for name in hub.sent)
    good(here("apply", "kimi-k2-int4", "Qwen/Lost", "--unindexed", "drop", "-o", "out"))


def test_offline_the_cache_serves_and_says_so(
    here: Run, hub: LoopbackHub, files: Mapping[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    good(here("apply", "kimi-k2-int4", REPO, "-o", "out"))
    hub.forget()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    note = f"HF_HUB_OFFLINE is set: {REPO} is taken from the cache, as main was when last seen ("
    assert f"note      {note}" in good(here("apply", "kimi-k2-int4", REPO, "-o", "again"))
    for args in (
        ["inspect", REPO],
        ["plan", "kimi-k2-int4", REPO],
        ["verify", "out", "--against", f"{hub.url}/{REPO}/tree/main"],
    ):
        assert note in good(here(*args))
    assert hub.requests == []
    for path in (tmp_path / "hf").rglob("*00002-of-00003.safetensors"):
        path.resolve().unlink()
    done = here("apply", "kimi-k2-int4", REPO, "-o", "third")
    assert done.returncode == 1
    assert re.fullmatch(
        rf"error: {REPO} is only partly in the cache and HF_HUB_OFFLINE is set: model-00002-of-00003\.safetensors "
        r"\(7,654,120 bytes\) are missing; unset HF_HUB_OFFLINE and run again\n",
        done.stderr,
    )


def test_where_the_client_keeps_files_and_tokens_is_heeded(
    run: Run, hub_server: LoopbackHub, files: Mapping[str, bytes], tmp_path: Path
) -> None:
    hub_server.repos[REPO].locked = "RepoNotFound"
    assert "or it is private" in run("plan", "kimi-k2-int4", REPO).stderr
    token = tmp_path / "token"
    token.write_text(f"{hub_server.token}\n")
    for env in ({"HF_TOKEN": hub_server.token}, {"HF_TOKEN_PATH": str(token)}):
        cache = tmp_path / f"cache-{len(env)}-{next(iter(env))}"
        done = run("plan", "kimi-k2-int4", REPO, HF_HUB_CACHE=str(cache), HF_DEBUG="1", **env)
        good(done)
        assert [*cache.glob("models--Qwen--Tiny/snapshots/*/config.json")]
        assert hub_server.token not in done.stdout + done.stderr


def test_an_error_is_one_sentence_on_stderr(here: Run, hub: LoopbackHub, files: Mapping[str, bytes]) -> None:
    hub.faults.append(Fault("/api/models", 502))
    for verb in (["plan", "kimi-k2-int4"], ["inspect"], ["apply", "kimi-k2-int4"]):
        done = here(*verb, REPO)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == f"error: {hub.url} answers with error 502 for {REPO}; run the same command again later\n"


def test_a_revision_is_for_hub_ids(here: Run, sample_folder: Path) -> None:
    for model in ("sample:qwen3.6-moe", str(sample_folder)):
        done = here("plan", "kimi-k2-int4", model, "--revision", "main")
        assert done.returncode == 1
        assert re.match(r"error: --revision main is for a Hub id, and .* is on disk: it has none; leave", done.stderr)


@pytest.mark.parametrize("words", [["--help"], ["list"], ["plan", "kimi-k2-int4", "sample:qwen3.6-moe"]])
def test_what_needs_no_hub_does_not_import_its_client(words: list[str]) -> None:
    code = (
        "import contextlib, sys, schemegen.cli\n"
        f"with contextlib.suppress(SystemExit): schemegen.cli.main({words!r})\n"
        "assert 'schemegen' in sys.modules\n"
        "sys.exit(bool({'huggingface_hub', 'httpx', 'httpx2', 'tqdm'} & {*sys.modules}))"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
