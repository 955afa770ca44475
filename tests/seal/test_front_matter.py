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
from schemegen.seal.front_matter import front_matter_of, rendered

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


def test_license_language_library_and_tags_are_inherited_as_text(with_readme: WithReadme) -> None:
    text = (
        "---\nlibrary_name: transformers\nlicense: other\nlicense_name: a-license\nlicense_link: LICENSE\n"
        "language: [en, no]\npipeline_tag: image-text-to-text\ntags:\n- moe\n- 2024\ndate: 2024-01-01\n---\n\n# Title\n"
    )
    assert front_matter_of(with_readme(text)) == {
        "license": "other",
        "license_name": "a-license",
        "license_link": "LICENSE",
        "language": ["en", "no"],
        "library_name": "transformers",
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
        "---\nlicense: null\ntags: ~\nlanguage:\n---\n",
        "---\ntags: &a [x, x]\nlicense: [*a, *a, *a, *a]\n---\n".replace("tags", "other"),
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


@pytest.mark.parametrize(
    "text",
    [
        "---\r\nlicense: mit\r\n---\r\ntext",
        "---\rlicense: mit\r---\rtext",
        "\ufeff---\nlicense: mit\n---\n",
        "\n \n---  \nlicense: mit\n---\t\n",
        "---\nlicense: mit\n---",
    ],
)
def test_it_is_found_where_the_hub_finds_it(with_readme: WithReadme, text: str) -> None:
    assert front_matter_of(with_readme(text)) == {"license": "mit"}


def test_entries_that_say_nothing_are_left_out(with_readme: WithReadme) -> None:
    assert front_matter_of(with_readme("---\ntags: [a, null, '', ~]\n---\n")) == {"tags": ["a"]}


@pytest.mark.parametrize(
    ("fields", "base", "tags", "expected"),
    [
        ({}, "a/b", (), {"base_model": "a/b", "base_model_relation": "quantized"}),
        ({"language": ["no"]}, None, (), {"language": ["no"]}),
        ({"license": "mit"}, "a/b", (), {"base_model": "a/b", "base_model_relation": "quantized", "license": "mit"}),
        ({"tags": ["moe", "int4"]}, None, ("int4", "vllm"), {"tags": ["moe", "int4", "vllm"]}),
        ({"tags": ["---", "2024", "no", "x: y", "é"]}, None, (), {"tags": ["---", "2024", "no", "x: y", "é"]}),
    ],
)
def test_it_comes_out_as_yaml_between_fences(
    fields: dict[str, Any], base: str | None, tags: tuple[str, ...], expected: dict[str, Any]
) -> None:
    text = rendered(fields, base, tags)
    assert text.startswith("---\n")
    assert text.endswith("---\n\n")
    assert yaml.safe_load(text.removesuffix("---\n\n")) == expected
    assert list(expected) == list(yaml.safe_load(text.removesuffix("---\n\n")))
    assert text.count("\n---") == 1


def test_nothing_to_say_is_no_front_matter() -> None:
    assert rendered({}, None) == ""


def test_the_hubs_client_reads_it_back() -> None:
    hub = pytest.importorskip("huggingface_hub")
    fields = {"license": "other", "license_name": "x", "language": ["no", "en"], "tags": ["on", "1.0", "é: è"]}
    card = hub.ModelCard(rendered(fields, "a/b", ["int4"]) + "# Title\n")
    assert card.data.to_dict() == {
        "base_model": "a/b",
        "base_model_relation": "quantized",
        **fields,
        "tags": ["on", "1.0", "é: è", "int4"],
    }
    assert card.text.strip() == "# Title"
