"""What the environment says of the Hub."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from bench.loopback_hub import Fault, LoopbackHub
from schemegen.checkpoint import open_checkpoint
from schemegen.checkpoint.hub.settings import printable, quiet_client

REPO = "Qwen/Tiny"
ROOT = Path(__file__).parents[3]
Files = Mapping[str, bytes]
Sentence = Callable[..., str]


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("HF_ENDPOINT", "http://[::1", "HF_ENDPOINT is 'http://[::1', which is no address"),
        ("HF_ENDPOINT", "http://x:99999", "HF_ENDPOINT is 'http://x:99999', which is no address"),
        ("HF_ENDPOINT", "http://me:secret@[::1", "HF_ENDPOINT is 'http://[::1', which is no address"),
        ("HF_HUB_DOWNLOAD_TIMEOUT", "abc", "HF_HUB_DOWNLOAD_TIMEOUT holds what the Hub's client cannot read"),
        ("HF_HUB_ETAG_TIMEOUT", "-1", "HF_HUB_ETAG_TIMEOUT is -1, and has to be above 0; correct or unset it"),
        ("HTTP_PROXY", "garbage://x", "cannot read Qwen/Tiny from the Hub: "),
        ("HF_TOKEN_PATH", "/", "the token in / cannot be read (is a directory); remove that, and log in"),
        ("HF_HUB_CACHE", "", "HF_HUB_CACHE is empty, which is no folder; name one or unset it"),
    ],
)
def test_a_setting_that_the_client_cannot_take_is_named(tmp_path: Path, name: str, value: str, says: str) -> None:
    env = {**os.environ, "HF_ENDPOINT": "http://127.0.0.1:9", "PYTHONPATH": str(ROOT), name: value}
    words = [sys.executable, "-m", "schemegen", "inspect", REPO]
    done = subprocess.run(words, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {says}")
    assert len(done.stderr.splitlines()) == 1
    assert [*tmp_path.iterdir()] == []


def test_a_password_in_the_address_is_not_shown(
    hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch, sentence: Sentence
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://me:secret@127.0.0.1:9")
    text = sentence()
    assert "http://127.0.0.1:9 cannot be reached" in text
    assert "secret" not in text


def test_what_a_server_says_in_its_own_words_is_not_repeated(
    hub: LoopbackHub, toy_files: Files, caplog: pytest.LogCaptureFixture, sentence: Sentence
) -> None:
    hub.add(REPO, toy_files)
    warning = {"X-HF-Warning": "topic; \x1b[31mred"}
    hub.faults.append(Fault("/revision/", 503, warning, times=1))
    assert len(open_checkpoint(REPO).tensors) == 3
    hub.faults.append(Fault("/cdn/", 302, {"Location": "gopher://\x1b[31mred/"}))
    hub.add(REPO, toy_files, refs={"main": "1" * 40}, listed={"one.safetensors": b"9" * 99})
    assert sentence().isprintable()
    assert [record for record in caplog.records if record.name.startswith("huggingface_hub")] == []


def test_silence_ends() -> None:
    logger = logging.getLogger("huggingface_hub")
    before = logger.level
    with quiet_client():
        with quiet_client():
            pass
        assert not logger.isEnabledFor(logging.ERROR)
    assert logger.level == before


def test_what_others_chose_is_shown_on_one_line() -> None:
    assert printable("a\x1b[31m\nb") == "a\\x1b[31m\\nb"
    assert printable("proxy http://me:secret@p:1 refused") == "proxy http://p:1 refused"
    assert len(printable("x" * 10_000)) < 400
