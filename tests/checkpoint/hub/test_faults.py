"""One sentence for whatever goes wrong: it names the repository and the way out."""

from __future__ import annotations

import errno
import os
import re
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from bench.loopback_hub import Fault, LoopbackHub
from schemegen.checkpoint import open_checkpoint
from schemegen.errors import CheckpointError
from schemegen.progress import Silent

REPO = "Qwen/Tiny"
Files = Mapping[str, bytes]


def sentence(model: str = REPO, revision: str | None = None) -> str:
    """What a person is told instead of getting the model."""
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(model, revision).fetched(Silent())
    text = "; ".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
    assert "\n" not in text
    assert text[0].islower() or text.startswith(("HF_", model.split("/")[0]))
    return text


def test_a_gated_one(hub: LoopbackHub, toy_files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add(REPO, toy_files, locked="GatedRepo")
    page = f"{hub.url}/{REPO}"
    assert sentence() == (
        f"{REPO} is gated: accept its terms at {page}, then log in with 'hf auth login' (or set HF_TOKEN) "
        "and run the same command again"
    )
    monkeypatch.setenv("HF_TOKEN", hub.token)
    assert sentence() == (
        f"{REPO} is gated and your account has no access yet: ask for it at {page}, then run the same command again"
    )


def test_a_gated_one_whose_terms_are_accepted(
    hub: LoopbackHub, toy_files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add(REPO, toy_files, locked="GatedRepo", refs={"main": "1" * 40, "accepted": "1" * 40})
    monkeypatch.setenv("HF_TOKEN", hub.token)
    assert open_checkpoint(REPO).fetched(Silent()).model_id == REPO


def test_a_missing_or_private_one(hub: LoopbackHub, toy_files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add(REPO, toy_files, locked="RepoNotFound")
    assert sentence() == (
        f"there is no model {REPO} on {hub.url}, or it is private; check the spelling; "
        "if it is private, log in with 'hf auth login' (or set HF_TOKEN)"
    )
    monkeypatch.setenv("HF_TOKEN", hub.token)
    assert open_checkpoint(REPO).fetched(Silent()).model_id == REPO
    assert "check the spelling; if it is private, use a token that may read it" in sentence("some/body")


@pytest.mark.parametrize("model", ["Qwen/Tinny", "qwen/tyny", "Qwenn/Tiny"])
def test_a_misspelt_one(hub: LoopbackHub, toy_files: Files, model: str) -> None:
    hub.add(REPO, toy_files)
    assert f"there is no model {model} on {hub.url}, or it is private; did you mean {REPO}?" in sentence(model)


def test_a_misspelt_one_that_the_cache_knows(hub: LoopbackHub, cache: Path) -> None:
    (cache / "models--Qwen--Tiny-2").mkdir(parents=True)
    assert "did you mean Qwen/Tiny-2?" in sentence()


def test_a_misspelt_folder(hub: LoopbackHub, toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(toy.parent.parent)
    text = sentence(f"{toy.parent.name}/toyy")
    assert text.endswith(f"there is no folder '{toy.parent.name}/toyy' either: did you mean {toy.parent.name}/toy?")


@pytest.mark.parametrize("kind", ["dataset", "space"])
def test_one_of_another_kind(hub: LoopbackHub, kind: str) -> None:
    hub.add(REPO, {"README.md": b""}, kind=f"{kind}s")
    assert sentence() == f"{REPO} is a {kind} on the Hub, not a model; give a model's id"


def test_a_missing_revision(hub: LoopbackHub, toy_files: Files) -> None:
    refs = dict.fromkeys(("main", *(f"v{number}" for number in range(9))), "1" * 40)
    hub.add(REPO, toy_files, refs=refs)
    listed = "it has main, v0, v1, v2, v3, v4, v5, v6 and 2 more"
    assert sentence(REPO, "v77") == f"{REPO} has no revision 'v77'; {listed}"
    assert sentence(REPO, "../x") == f"{REPO} has no revision '../x'; {listed}"
    assert sentence(REPO, "2" * 40) == f"{REPO} has no revision '{'2' * 40}'; {listed}"


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"config.json": b"{}", "a.gguf": b""}, f"{REPO} holds GGUF files only, quantized already; give the model"),
        (
            {"config.json": b"{}", "pytorch_model.bin": b""},
            f"{REPO} has no safetensors file, only weights such as pytorch_model.bin; convert them first",
        ),
        ({"README.md": b""}, f"{REPO} has no safetensors file, and no other weights; check the id"),
        ({"model.safetensors": b"x" * 99}, f"{REPO} has no config.json, so its architecture is unknown"),
        (
            {"adapter_config.json": b"{}", "adapter_model.safetensors": b""},
            f"{REPO} is an adapter without its base model; merge the two",
        ),
    ],
)
def test_what_is_no_model_with_safetensors(hub: LoopbackHub, files: Files, says: str) -> None:
    hub.add(REPO, files)
    assert sentence().startswith(says)
    assert hub.sent == {}


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
    hub: LoopbackHub, toy_files: Files, fault: Fault, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if fault.silent:
        be_impatient(monkeypatch)
    only_one = {name: data for name, data in toy_files.items() if "two" not in name}
    index = only_one["model.safetensors.index.json"].decode()
    index = re.sub(r',\s*"c.weight": "two.safetensors"', "", index)
    hub.add(REPO, {**only_one, "model.safetensors.index.json": index.encode()})
    hub.faults.append(Fault(**vars(fault)))
    assert says.format(url=hub.url, one=len(toy_files["one.safetensors"])) in sentence()


def test_a_hub_that_is_not_there(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert sentence().startswith(f"cannot read {REPO} from the Hub: http://127.0.0.1:9 cannot be reached: ")
    monkeypatch.setattr(constants, "ENDPOINT", "http://no-such-host.invalid")
    assert sentence().endswith("; check the network and HTTPS_PROXY, or give a folder that holds the model")


@pytest.mark.parametrize("endpoint", ["huggingface.co", "ftp://x", "http://", "https:///x", "http://a b\n"])
def test_an_endpoint_that_is_no_address(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    assert sentence().startswith(f"HF_ENDPOINT is {endpoint!r}, which is no address such as https://huggingface.co")


@pytest.mark.parametrize("token", ["hf_secret-of-another", "hf_secret\x01\x02", "hf_secret\N{SNOWMAN}"])
def test_a_token_that_is_not_accepted_is_never_shown(
    hub: LoopbackHub, toy_files: Files, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    hub.add(REPO, toy_files)
    monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(REPO)
    assert re.search(r"does not accept your token for Qwen/Tiny|HF_TOKEN holds what no token can", str(caught.value))
    assert "secret" not in "".join(traceback.format_exception(caught.value))


def test_a_token_does_not_follow_to_another_host(
    hub: LoopbackHub, toy_files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add(REPO, toy_files)
    monkeypatch.setenv("HF_TOKEN", hub.token)
    with LoopbackHub().running() as other:
        other.add(REPO, toy_files)
        hub.faults.append(
            Fault("/resolve/.*safetensors$", 302, {"Location": f"{other.url}/cdn/{REPO}/one.safetensors"})
        )
        with pytest.raises(CheckpointError):
            open_checkpoint(REPO).fetched(Silent())
        assert other.requests
        assert other.authorizations == {None}
    assert hub.authorizations == {f"Bearer {hub.token}"}


def without_space(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Let the disk take `after` more bytes of downloads."""
    from schemegen.checkpoint.hub.store import Partial

    append, left = Partial.append, [after]

    def limited(self: Partial, data: bytes) -> None:
        left[0] -= len(data)
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        append(self, data)

    monkeypatch.setattr(Partial, "append", limited)


def test_a_disk_that_is_full(
    hub: LoopbackHub, sample_folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add(REPO, sample_folder)
    checkpoint = open_checkpoint(REPO)
    with monkeypatch.context() as patch:
        without_space(patch, 2_000_000)
        text = sentence()
    assert re.fullmatch(
        r"cannot keep \S+ of Qwen/Tiny in the Hub's cache \(\S+/hf: no space left on device\); what has come "
        r"is kept: make room, or set HF_HUB_CACHE to another disk, and run the same command again",
        text,
    )
    hub.forget()
    checkpoint.fetched(Silent())
    kept = sum(len(data) for data in hub.repos[REPO].files.values()) - sum(hub.sent.values())
    assert kept > 1_000_000


def test_a_cache_that_cannot_be_written(hub: LoopbackHub, toy_files: Files, cache: Path) -> None:
    hub.add(REPO, toy_files)
    cache.write_text("a file where the cache should be")
    text = sentence()
    assert re.match(r"cannot keep \S+ of Qwen/Tiny in the Hub's cache \(\S+: .*\); set HF_HUB_CACHE to a folder", text)
    assert text.endswith("set HF_HUB_CACHE to a folder that you may write to")


def test_bytes_that_are_not_those_listed(hub: LoopbackHub, toy_files: Files, cache: Path) -> None:
    data = toy_files["one.safetensors"]
    hub.add(REPO, toy_files, listed={"one.safetensors": data[:-1] + b"!"})
    text = sentence()
    assert text.startswith(
        "one.safetensors of Qwen/Tiny came with other bytes than the Hub lists; run the same command"
    )
    assert not [path for path in cache.rglob("*.incomplete") if path.stat().st_size]


def test_a_file_of_another_size_than_listed(hub: LoopbackHub, toy_files: Files) -> None:
    listed: dict[str, Callable[[bytes], bytes]] = {
        "vocab.txt": lambda data: data + b"c",
        "tokens.txt": lambda data: data[:-1],
    }
    for name, change in listed.items():
        data = toy_files["vocab.txt"]
        hub.repos.clear()
        hub.add(REPO, {**toy_files, name: data}, listed={name: change(data)}, refs={"main": f"{len(name) % 10}" * 40})
        assert f"{name} of Qwen/Tiny is listed with {len(change(data))} bytes" in sentence()
