"""What the card inherits, from front matter that anybody may have written."""

from __future__ import annotations

import time
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
        "---\ntags: " + "[" * 60_000 + "\n---\n",
        "---\nother: {a: b}\n  license: mit\n---\n",
        "---\ntags:\n" + "- " * 4000 + "\n---\n",
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


MANY = [f"a-tag-of-some-length-{number}" for number in range(2000)]
TABLE = "model-index:\n- name: x\n" + "  - {type: text, value: 1}\n" * 20_000


@pytest.mark.parametrize(
    "block",
    [
        '"license": "mit"',
        "'license': 'mit'",
        "license : mit",
        "  license: mit\n  other: x",
        "  # why\n\n  other:\n  - x\n  license: mit",
        "{license: mit}",
        '{"other": [x, {y: z}],\n"license": "mit"}',
        "license: &a mit",
        "license_of_base: &a mit\nlicense: *a",
        "defaults: &d {license: mit}\n<<: *d",
        "defaults: &d {license: gpl}\n<<: [*d, *d]\nlicense: mit",
        "? license\n: mit",
        "license: >-\n  mit",
        "license: !!str mit",
        "license: gpl\nlicense: mit",
        # No YAML as a whole.
        'other: "x\n"license": "mit"',
        "  license : mit\n  other: [x",
        "license: mit\nother: *nobody",
        "license: mit\nother: a: b",
        "license: mit\nother: \x07",
        "license: mit\n" + "[" * 100_000,
        # Too long to be read as a whole.
        TABLE + "license: mit\n" + TABLE,
        "\n".join(f"  {line}" for line in (TABLE + '"license" : mit').splitlines()),
        "license: gpl\n" * 50_000 + "license: mit",
    ],
)
def test_a_license_is_read_however_yaml_spells_it(with_readme: WithReadme, block: str) -> None:
    assert front_matter_of(with_readme(f"---\n{block}\n---\n"))["license"] == "mit"


def test_the_hubs_client_reads_the_same(with_readme: WithReadme) -> None:
    hub = pytest.importorskip("huggingface_hub")
    for block in (
        '"license": "mit"',
        "{license: mit, tags: [a, b]}",
        " tags: &t [a]\n license : mit",
        "tags: ['null']",
    ):
        text = f"---\n{block}\n---\n"
        assert front_matter_of(with_readme(text)) == hub.ModelCard(text).data.to_dict()


@pytest.mark.parametrize("table", ["", TABLE])
@pytest.mark.parametrize(
    "tags", ["\n- " + "\n- ".join(MANY), f" [{', '.join(MANY)}]", f" [\n  {f',{chr(10)}  '.join(MANY)}\n]"]
)
def test_many_tags_are_inherited(with_readme: WithReadme, tags: str, table: str) -> None:
    assert front_matter_of(with_readme(f"---\n{table}tags:{tags}\nlicense: mit\n---\n")) == {
        "license": "mit",
        "tags": MANY,
    }


def test_brackets_in_tags_are_text(with_readme: WithReadme) -> None:
    tags = [f"[{number}]" for number in range(20)]
    assert front_matter_of(with_readme(f"---\ntags: {tags}\n---\n")) == {"tags": tags}


def test_an_entry_that_is_no_text_does_not_take_the_others_with_it(with_readme: WithReadme) -> None:
    assert front_matter_of(with_readme("---\ntags: [a, {b: c}, [d], e]\n---\n")) == {"tags": ["a", "e"]}


@pytest.mark.parametrize(
    "block",
    [
        "tags: " + "[" * 15 + "a," * 32_000,
        "tags: [" + "[]," * 20_000,
        "a: &a [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}' if n else '*a'] * 9)}]\n" for n in range(200)),
        "a: &a {b: c}\n<<: [" + "*a, " * 10_000 + "]",
        "&a a: *a\n<<: &b [*b]",
        "license: [*a, &a [*a]]",
        "? " * 30_000,
        "tags:\n" + "- a\n" * 400_000,
        "tags: x\n" * 200_000,
    ],
)
def test_no_block_takes_long(with_readme: WithReadme, block: str) -> None:
    began = time.process_time()
    front_matter_of(with_readme(f"---\n{block}\n---\n"))
    assert time.process_time() - began < 20


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
