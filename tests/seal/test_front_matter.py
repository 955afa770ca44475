"""What the card inherits, from front matter that anybody may have written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from schemegen.checkpoint.local import open_local
from schemegen.checkpoint.model import Checkpoint, SideFile
from schemegen.seal.front_matter import front_matter_of, hub_id, rendered

WithReadme = Callable[[bytes | str | None], Checkpoint]


@pytest.fixture
def with_readme(sample_folder: Path, tmp_path: Path) -> WithReadme:
    """A factory: the text of README.md, or None for no such file → a checkpoint with it."""
    checkpoint = replace(open_local(sample_folder), root=tmp_path, side_files=())

    def make(text: bytes | str | None) -> Checkpoint:
        if text is None:
            return checkpoint
        raw = text.encode() if isinstance(text, str) else text
        (tmp_path / "README.md").write_bytes(raw)
        return replace(checkpoint, side_files=(SideFile("README.md", len(raw)),))

    return make


def test_license_language_and_tags_are_inherited_as_text(with_readme: WithReadme) -> None:
    text = (
        "---\nlibrary_name: transformers\nlicense: other\nlicense_name: a-license\nlicense_link: LICENSE\n"
        "language: [en, no]\npipeline_tag: image-text-to-text\ntags:\n- moe\n- 2024\ndate: 2024-01-01\n---\n\n# Title\n"
    )
    assert front_matter_of(with_readme(text)) == {
        "license": "other",
        "license_name": "a-license",
        "license_link": "LICENSE",
        "language": ["en", "no"],
        "pipeline_tag": "image-text-to-text",
        "tags": ["moe", "2024"],
    }


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "# No front matter\n---\nlicense: mit\n---\n",
        "---\nlicense: mit\n",
        "---\n- a list\n---\n",
        "---\nlicense: [mit\n---\n",
        "---\nlicense: {a: b}\ntags: {a: b}\nlanguage: [[en]]\n---\n",
        "---\nlicense: *a\n---\n",
        "---\n" + "[" * 100_000 + "\n---\n",
        "---\ntags: " + "[" * 8000 + "\n---\n",
        "---\ntags:\n" + "- " * 4000 + "\n---\n",
        "---\ntags:\n" + "- a\n" * 4000 + "\n---\n",
        b"---\nlicense: \xff\xfe\x00\n---\n",
    ],
)
def test_what_is_not_plain_is_left_alone(with_readme: WithReadme, text: bytes | str | None) -> None:
    assert front_matter_of(with_readme(text)) == {}


def test_a_long_table_beside_them_does_no_harm(with_readme: WithReadme) -> None:
    table = "model-index:\n- name: x\n" + "  - {type: text, value: 1}\n" * 20_000
    text = f"---\n{table}license: mit\ntags:\n- a # why\n\n# on its own\n- b\n{table}---\n"
    assert front_matter_of(with_readme(text)) == {"license": "mit", "tags": ["a", "b"]}


def test_windows_line_ends_are_fine(with_readme: WithReadme) -> None:
    assert front_matter_of(with_readme("---\r\nlicense: mit\r\n---\r\ntext")) == {"license": "mit"}


@pytest.mark.parametrize(
    ("model_id", "expected"),
    [
        ("Qwen/Qwen3.6-35B-A3B", "Qwen/Qwen3.6-35B-A3B"),
        ("sample:qwen3.6-moe", None),
        ("folder", None),
        ("/a/path", None),
        ("a/b/c", None),
        ("../up", None),
    ],
)
def test_a_base_model_is_a_hub_id_and_never_a_path(model_id: str, expected: str | None) -> None:
    assert hub_id(model_id) == expected


@pytest.mark.parametrize(
    ("inherited", "base", "expected"),
    [
        ({}, "a/b", {"base_model": "a/b", "base_model_relation": "quantized"}),
        ({"language": ["no"]}, None, {"language": ["no"]}),
        ({"license": "mit"}, "a/b", {"license": "mit", "base_model": "a/b", "base_model_relation": "quantized"}),
    ],
)
def test_it_comes_out_as_yaml_between_fences(inherited: dict[str, Any], base: str | None, expected: object) -> None:
    text = rendered(inherited, base)
    assert text.startswith("---\n")
    assert text.endswith("---\n\n")
    assert yaml.safe_load(text.split("---\n")[1]) == expected


def test_nothing_to_say_is_no_front_matter() -> None:
    assert rendered({}, None) == ""
