"""What names a model on the Hub."""

from __future__ import annotations

import pytest

from schemegen.checkpoint.hub.names import HubName, hub_name, is_commit
from schemegen.errors import CheckpointError

REPO = "Qwen/Qwen3.6-35B-A3B"


@pytest.mark.parametrize(
    "model",
    [
        REPO,
        f"{REPO}/",
        f"https://huggingface.co/{REPO}",
        f"http://huggingface.co/{REPO}/",
        f"huggingface.co/{REPO}",
        f"https://hf.co/{REPO}?library=transformers",
        f"https://www.huggingface.co/{REPO}#usage",
    ],
)
def test_an_id_and_an_address_name_the_model(model: str) -> None:
    assert hub_name(model) == HubName(REPO)


def test_an_address_may_name_the_revision() -> None:
    assert hub_name(f"https://huggingface.co/{REPO}/tree/v1") == HubName(REPO, "v1")
    assert hub_name(f"https://huggingface.co/{REPO}/tree/refs%2Fpr%2F1") == HubName(REPO, "refs/pr/1")


def test_the_endpoint_is_a_hub_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "https://mirror.example:8080/")
    assert hub_name(f"https://mirror.example:8080/{REPO}") == HubName(REPO)
    monkeypatch.setenv("HF_ENDPOINT", "https://[mirror")
    assert hub_name(REPO) == HubName(REPO)


@pytest.mark.parametrize(
    "model",
    ["", "Qwen3.6", "./a/b", "../x", "../x/y", "/no/such", "a\0b/c", "x" * 5000 + "/y", "a/b/c", "~/x", "a\\b/c"],
)
def test_a_path_is_no_hub_id(model: str) -> None:
    assert hub_name(model) is None


@pytest.mark.parametrize(
    "model", ["Qwen/Qwen3.6 35B", "a/b--c", "a/b..c", "a/b.git", "-a/b", "a/b-", "a/" + "b" * 97, "ä/b"]
)
def test_an_id_that_cannot_be_one_is_told_how_one_is_spelled(model: str) -> None:
    with pytest.raises(CheckpointError, match=r"there is no folder .*, and no Hub id is spelled so: .*ORG/NAME"):
        hub_name(model)


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ("datasets/a/b", r"'datasets/a/b' is a dataset, not a model"),
        ("https://huggingface.co/datasets/a/b", r"'datasets/a/b' is a dataset, not a model"),
        ("https://hf.co/spaces/a/b/tree/main", r"'spaces/a/b' is a space, not a model"),
        ("https://huggingface.co/Qwen", r"is not the address of a model's page"),
        (
            "https://huggingface.co/a/b/blob/v1/config.json",
            r"address of a file or a commit, .*'a/b' with --revision 'v1'",
        ),
        ("https://huggingface.co/a/b/commit/" + "1" * 40, r"give 'a/b' with --revision '1{40}'"),
        ("hf://a/b", r"is an address of the Hub's file system; a Hub id is ORG/NAME"),
        ("https://huggingface.co/a/b/tree", r"is not the address of a model's page"),
        ("https://example.com/a/b", r"is no address on the Hub"),
        ("https://huggingface.co/../b", r"no Hub id is spelled so"),
    ],
)
def test_other_addresses_are_told_what_they_are(model: str, says: str) -> None:
    with pytest.raises(CheckpointError, match=says):
        hub_name(model)


def test_a_commit_is_forty_digits() -> None:
    assert is_commit("0123456789abcdef" * 2 + "01234567")
    assert not is_commit("0123456789ABCDEF" * 2 + "01234567")
    assert not is_commit("main")
