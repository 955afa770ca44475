"""One sentence for a Hub that fails: it names the repository and the way out."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from bench.loopback_hub import Fault, LoopbackHub

REPO = "Qwen/Tiny"
Files = Mapping[str, bytes]
Sentence = Callable[..., str]


def be_impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait a second for an answer, and no longer."""
    from huggingface_hub import constants

    for name in ("HF_HUB_DOWNLOAD_TIMEOUT", "HF_HUB_ETAG_TIMEOUT"):
        monkeypatch.setattr(constants, name, 1)


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (
            Fault("/api/", 429),
            "{url} has had too many requests from you for Qwen/Tiny; run the same command again in some ",
        ),
        (
            Fault("/api/", 429, {"Retry-After": "77"}),
            "run the same command again in 77 s, or log in with 'hf auth login'",
        ),
        (Fault("/api/", 429, {"RateLimit": '"api";r=0;t=88'}), "run the same command again in 88 s, or log in"),
        (Fault("/cdn/", 429, {"Retry-After": "99"}), "from you for Qwen/Tiny; run the same command again in 99 s"),
        (Fault("/api/", 500), "{url} answers with error 500 for Qwen/Tiny; run the same command again later"),
        (
            Fault("/cdn/", 503),
            "{url} answers with error 503 for one.safetensors of Qwen/Tiny; run the same command",
        ),
        (
            Fault("/api/", 200, {}, b"<html>Log in</html>"),
            "what {url} answers about Qwen/Tiny is not what a Hub answers",
        ),
        (Fault("/api/", 200, {}, b'{"sha": 7}'), "what {url} answers about Qwen/Tiny is not what a Hub answers"),
        (Fault("/api/", 200, {}, b"[]"), "what {url} answers about Qwen/Tiny is not what a Hub answers"),
        (
            Fault("/tree/", 200, {}, b'[{"type": "file"}]'),
            "what {url} answers about Qwen/Tiny is not what a Hub answers",
        ),
        (
            Fault("/api/", silent=3.0),
            "cannot read Qwen/Tiny from the Hub: {url} does not answer in time; check the network",
        ),
        (
            Fault("/cdn/", silent=3.0),
            "cannot read one.safetensors of Qwen/Tiny from the Hub: {url} does not answer in time",
        ),
        (Fault("/api/", 403), "your token may not read Qwen/Tiny; give it that right at {url}/settings/tokens"),
        (Fault("/api/", 400), "{url} answers with error 400 for Qwen/Tiny; run the same command again later"),
        (
            Fault("/api/", 403, {"X-Error-Message": "Access to this resource is disabled."}),
            "Qwen/Tiny has been disabled; see {url}/Qwen/Tiny for the reason",
        ),
        (
            Fault("/resolve/.*/one", 404, {"X-Error-Code": "EntryNotFound"}),
            "one.safetensors of Qwen/Tiny is listed but cannot be had any more; run the same command again, or choose",
        ),
        (
            Fault("/cdn/", 206, {"Content-Range": "bytes 5-9/10"}, b"12345"),
            "one.safetensors of Qwen/Tiny is listed with {one} bytes, but the Hub sends a file of another size",
        ),
        (Fault("/cdn/", 206, {}, b"12345"), "what {url} answers about Qwen/Tiny is not what a Hub answers"),
        (
            Fault("/cdn/", 200),
            "one.safetensors of Qwen/Tiny is listed with {one} bytes, but the Hub sends a file of anot",
        ),
        (
            Fault("/cdn/", cut=0),
            "cannot read one.safetensors of Qwen/Tiny from the Hub: the connection to {url} broke off: ",
        ),
        (
            Fault("/api/", 302, {"Location": "/api/models/Qwen/Tiny"}),
            "what {url} answers about Qwen/Tiny is not what a Hub answers",
        ),
    ],
)
def test_a_hub_that_fails(
    hub: LoopbackHub, toy_files: Files, fault: Fault, says: str, monkeypatch: pytest.MonkeyPatch, sentence: Sentence
) -> None:
    if fault.silent:
        be_impatient(monkeypatch)
    only_one = {name: data for name, data in toy_files.items() if "two" not in name}
    index = only_one["model.safetensors.index.json"].decode()
    index = re.sub(r',\s*"c.weight": "two.safetensors"', "", index)
    hub.add(REPO, {**only_one, "model.safetensors.index.json": index.encode()})
    hub.faults.append(Fault(**vars(fault)))
    assert says.format(url=hub.url, one=len(toy_files["one.safetensors"])) in sentence()


def test_a_hub_that_is_not_there(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch, sentence: Sentence) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert sentence().startswith(f"cannot read {REPO} from the Hub: http://127.0.0.1:9 cannot be reached: ")
    monkeypatch.setattr(constants, "ENDPOINT", "http://no-such-host.invalid")
    assert sentence().endswith("; check the network and HTTPS_PROXY, or give a folder that holds the model")


@pytest.mark.parametrize("endpoint", ["huggingface.co", "ftp://x", "http://", "https:///x", "http://a b\n"])
def test_an_endpoint_that_is_no_address(
    hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch, endpoint: str, sentence: Sentence
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    assert sentence().startswith(f"HF_ENDPOINT is {endpoint!r}, which is no address such as https://huggingface.co")


def test_bytes_that_are_not_those_listed(hub: LoopbackHub, toy_files: Files, cache: Path, sentence: Sentence) -> None:
    data = toy_files["one.safetensors"]
    hub.add(REPO, toy_files, listed={"one.safetensors": data[:-1] + b"!"})
    text = sentence()
    assert text.startswith(
        "one.safetensors of Qwen/Tiny came with other bytes than the Hub lists; run the same command"
    )
    assert not [path for path in cache.rglob("*.incomplete") if path.stat().st_size]


def test_a_file_of_another_size_than_listed(hub: LoopbackHub, toy_files: Files, sentence: Sentence) -> None:
    listed: dict[str, Callable[[bytes], bytes]] = {
        "vocab.txt": lambda data: data + b"c",
        "tokens.txt": lambda data: data[:-1],
    }
    for name, change in listed.items():
        data = toy_files["vocab.txt"]
        hub.repos.clear()
        hub.add(REPO, {**toy_files, name: data}, listed={name: change(data)}, refs={"main": f"{len(name) % 10}" * 40})
        assert f"{name} of Qwen/Tiny is listed with {len(change(data))} bytes" in sentence()
