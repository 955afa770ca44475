"""One sentence for a model that cannot be had: it names the repository and the way out."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import quote

import pytest

from bench.loopback_hub import Fault, LoopbackHub
from schemegen.checkpoint import open_checkpoint
from schemegen.errors import CheckpointError
from schemegen.progress import Silent

REPO = "Qwen/Tiny"
Files = Mapping[str, bytes]
Sentence = Callable[..., str]


def test_a_gated_one(hub: LoopbackHub, toy_files: Files, monkeypatch: pytest.MonkeyPatch, sentence: Sentence) -> None:
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


def test_a_missing_or_private_one(
    hub: LoopbackHub, toy_files: Files, monkeypatch: pytest.MonkeyPatch, sentence: Sentence
) -> None:
    hub.add(REPO, toy_files, locked="RepoNotFound")
    assert sentence() == (
        f"there is no model {REPO} on {hub.url}, or it is private; check the spelling; "
        "if it is private, log in with 'hf auth login' (or set HF_TOKEN)"
    )
    monkeypatch.setenv("HF_TOKEN", hub.token)
    assert open_checkpoint(REPO).fetched(Silent()).model_id == REPO
    assert "check the spelling; if it is private, use a token that may read it" in sentence("some/body")


@pytest.mark.parametrize("model", ["Qwen/Tinny", "qwen/tyny", "Qwenn/Tiny"])
def test_a_misspelt_one(hub: LoopbackHub, toy_files: Files, model: str, sentence: Sentence) -> None:
    hub.add(REPO, toy_files)
    assert f"there is no model {model} on {hub.url}, or it is private; did you mean {REPO}?" in sentence(model)


def test_a_misspelt_one_that_the_cache_knows(hub: LoopbackHub, cache: Path, sentence: Sentence) -> None:
    (cache / "models--Qwen--Tiny-2").mkdir(parents=True)
    assert "did you mean Qwen/Tiny-2?" in sentence()


def test_a_misspelt_folder(hub: LoopbackHub, toy: Path, monkeypatch: pytest.MonkeyPatch, sentence: Sentence) -> None:
    monkeypatch.chdir(toy.parent.parent)
    text = sentence(f"{toy.parent.name}/toyy")
    assert text.endswith(f"there is no folder '{toy.parent.name}/toyy' either: did you mean {toy.parent.name}/toy?")


@pytest.mark.parametrize("kind", ["dataset", "space"])
def test_one_of_another_kind(hub: LoopbackHub, kind: str, sentence: Sentence) -> None:
    hub.add(REPO, {"README.md": b""}, kind=f"{kind}s")
    assert sentence() == f"{REPO} is a {kind} on the Hub, not a model; give a model's id"


def test_a_missing_revision(hub: LoopbackHub, toy_files: Files, sentence: Sentence) -> None:
    refs = dict.fromkeys(("main", *(f"v{number}" for number in range(9))), "1" * 40)
    hub.add(REPO, toy_files, refs=refs)
    listed = "it has main, v0, v1, v2, v3, v4, v5, v6 and 2 more"
    assert sentence(REPO, "v77") == f"{REPO} has no revision 'v77'; {listed}"
    assert sentence(REPO, "2" * 40) == f"{REPO} has no revision '{'2' * 40}'; {listed}"


@pytest.mark.parametrize("revision", ["..", ".", "../x", "./main", "main/.", "a//b", "/main"])
def test_a_revision_that_an_address_would_swallow(hub: LoopbackHub, sentence: Sentence, revision: str) -> None:
    told = f"revision {revision!r} can be none of {REPO}; give a branch, a tag or a commit"
    assert sentence(REPO, revision) == told
    assert sentence(f"{hub.url}/{REPO}/tree/{quote(revision, safe='')}") == told
    assert hub.requests == []


def test_one_for_members_only(
    hub: LoopbackHub, toy_files: Files, monkeypatch: pytest.MonkeyPatch, sentence: Sentence
) -> None:
    hub.add(REPO, toy_files)
    hub.faults.append(Fault("/api/", 401))
    assert sentence().startswith(f"{hub.url} shows {REPO} only to those it knows; log in with 'hf auth login'")
    monkeypatch.setenv("HF_TOKEN", "hf_old")
    assert "does not accept your token" in sentence()


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
def test_what_is_no_model_with_safetensors(hub: LoopbackHub, files: Files, says: str, sentence: Sentence) -> None:
    hub.add(REPO, files)
    assert sentence().startswith(says)
    assert hub.sent == {}


ANEW = "log in with 'hf auth login' (or set HF_TOKEN) anew"
REFUSED = f"the Hub does not accept your token for {REPO}; {ANEW}, or unset HF_TOKEN"
IS_NONE = f"cannot read {REPO} from the Hub: HF_TOKEN holds what no token can; {ANEW}"


@pytest.mark.parametrize(
    ("token", "says"),
    [("hf_secret-of-another", REFUSED), ("hf_secret\x01\x02", REFUSED), ("hf_secret\N{SNOWMAN}", IS_NONE)],
)
def test_a_token_that_is_not_accepted_is_never_shown(
    hub: LoopbackHub, toy_files: Files, monkeypatch: pytest.MonkeyPatch, token: str, says: str
) -> None:
    hub.add(REPO, toy_files)
    monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(REPO)
    assert str(caught.value) == says
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
