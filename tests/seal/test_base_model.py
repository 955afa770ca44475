"""A base model is a Hub id as the Hub's own client takes it; a path, a sample or another address is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import schemegen
from schemegen.errors import UnsupportedError
from schemegen.manifest import read_manifest
from schemegen.seal import base_model_id, base_of, hub_id

SAMPLE = "sample:qwen3.6-moe"


@pytest.mark.parametrize(
    ("model_id", "expected"),
    [
        ("Qwen/Qwen3.6-35B-A3B", "Qwen/Qwen3.6-35B-A3B"),
        ("sample:qwen3.6-moe", None),
        ("sample:a/b", None),
        ("folder", None),
        ("/a/path", None),
        ("a/b/c", None),
        ("../up", None),
        ("a--b/c", None),
        ("a/b.git", None),
        ("a/b\n", None),
        # Old clients take these; the Hub has none.
        ("größe/b", None),
        ("0/ª", None),
    ],
)
def test_only_org_and_name_are_a_hub_id(model_id: str, expected: str | None) -> None:
    assert hub_id(model_id) == expected


@settings(deadline=None)  # the first example waits for the client's import
@given(st.from_regex(r"[A-Za-z0-9_.\-/ ]{0,12}/[A-Za-z0-9_.\-/ ]{0,12}", fullmatch=True))
def test_it_is_the_hubs_own_rule(text: str) -> None:
    validators = pytest.importorskip("huggingface_hub.utils")
    try:
        validators.validate_repo_id(text)
    except validators.HFValidationError:
        assert hub_id(text) is None
    else:
        assert hub_id(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "Qwen/Qwen3.6-35B-A3B",
        "https://huggingface.co/Qwen/Qwen3.6-35B-A3B",
        "http://hf.co/Qwen/Qwen3.6-35B-A3B/",
        "https://www.huggingface.co/Qwen/Qwen3.6-35B-A3B?library=transformers#usage",
    ],
)
def test_an_id_or_the_address_of_its_page_is_taken(text: str) -> None:
    assert base_model_id(text) == "Qwen/Qwen3.6-35B-A3B"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Qwen3.6-35B-A3B",
        "./Qwen/Qwen3.6",
        "/models/Qwen3.6",
        "~/models/Qwen3.6",
        "models/Qwen/Qwen3.6",
        SAMPLE,
        "https://example.com/Qwen/Qwen3.6",
        "https://huggingface.co/datasets/a",
        "https://huggingface.co/datasets/a/b",
        "datasets/a",
        "https://huggingface.co/Qwen",
        "Qwen/Qwen 3.6",
        "Qwen/Qwen3.6\n---",
        "a" * 200 + "/b",
        5,
        b"a/b",
        Path("a/b"),
        ["a/b"],
    ],
)
def test_anything_else_is_one_clear_error(text: object) -> None:
    with pytest.raises(UnsupportedError, match=r"^base model .* write ORG/NAME"):
        base_model_id(text)


@pytest.mark.parametrize("revision", ["dev", "main", "main/sub"])
def test_a_revision_that_a_card_cannot_hold_is_refused(revision: str) -> None:
    with pytest.raises(UnsupportedError, match=r"^base model .* names a revision, .*; write ORG/NAME$"):
        base_model_id(f"https://huggingface.co/ORG/NAME/tree/{revision}")


def test_who_names_it_knows_better() -> None:
    assert base_of("a/b", "mirror/b") == "a/b"
    assert base_of(None, "mirror/b") == "mirror/b"
    assert base_of(None, "folder") is None


def test_a_wrong_one_stops_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"'\.\./b'"):
        schemegen.apply("kimi-k2-int4", tmp_path / "missing", tmp_path / "out", base_model="../b")
    assert list(tmp_path.iterdir()) == []


def test_card_and_manifest_name_it_and_so_does_the_command(tmp_path: Path) -> None:
    out = tmp_path / "out"
    schemegen.apply("kimi-k2-int4", SAMPLE, out, base_model="https://huggingface.co/Qwen/Qwen3.6-35B-A3B")
    text = (out / "README.md").read_text()
    assert "\nbase_model: Qwen/Qwen3.6-35B-A3B\nbase_model_relation: quantized\n" in text
    assert f"\nschemegen apply kimi-k2-int4 {SAMPLE} --base-model Qwen/Qwen3.6-35B-A3B\n" in text
    assert read_manifest(out).base_model == "Qwen/Qwen3.6-35B-A3B"


def test_another_base_model_is_another_result(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert schemegen.apply("kimi-k2-int4", SAMPLE, out, base_model="a/b").status == "written"
    assert schemegen.apply("kimi-k2-int4", SAMPLE, out, base_model="a/b").status == "unchanged"
    with pytest.raises(schemegen.OutputError, match="base_model: there a/b, now c/d"):
        schemegen.apply("kimi-k2-int4", SAMPLE, out, base_model="c/d")
