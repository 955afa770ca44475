"""What the Hub's validator would refuse is mended or dropped; what it takes stays."""

from __future__ import annotations

from typing import Any

import pytest

from schemegen.seal.hub_rules import LICENSES, taken


@pytest.mark.parametrize(
    ("inherited", "expected"),
    [
        ({"license": "apache-2.0"}, {"license": "apache-2.0"}),
        ({"license": "Apache-2.0"}, {"license": "apache-2.0"}),
        ({"license": ["mit", "apache-2.0"]}, {"license": ["mit", "apache-2.0"]}),
        ({"license": ["mit"]}, {"license": "mit"}),
        ({"license": "other"}, {"license": "other"}),
        ({"license": "agpl-3.0-or-later"}, {"license": "other", "license_name": "agpl-3.0-or-later"}),
        ({"license": "modified-mit"}, {"license": "other", "license_name": "modified-mit"}),
        ({"license": ["mit", "my own"]}, {"license": "other", "license_name": "mit-and-my-own"}),
        ({"license_name": "qwen"}, {"license": "other", "license_name": "qwen"}),
        (
            {"license": "other", "license_name": "NVIDIA Open Model License"},
            {"license": "other", "license_name": "nvidia-open-model-license"},
        ),
        ({"license": "\ufffd"}, {}),
        ({}, {}),
    ],
)
def test_a_license_is_one_that_the_hub_lists(inherited: dict[str, Any], expected: dict[str, Any]) -> None:
    assert taken(inherited, [], None) == expected


@pytest.mark.parametrize(
    ("link", "base", "expected"),
    [
        ("https://x.y/license", None, "https://x.y/license"),
        ("LICENSE", None, "LICENSE"),
        ("LICENSE", "a/b", "LICENSE"),
        ("LICENSE.md", "a/b", "https://huggingface.co/a/b/blob/main/LICENSE.md"),
        ("LICENSE.txt", "a/b", "https://huggingface.co/a/b/blob/main/LICENSE.txt"),
        ("LICENSE.txt", None, None),
        ("../../etc/passwd", "a/b", None),
        ("javascript:alert(1)", "a/b", None),
        ("https://x.y/ <b>", "a/b", None),
    ],
)
def test_a_license_link_leads_somewhere(link: str, base: str | None, expected: str | None) -> None:
    assert taken({"license": "mit", "license_link": link}, ["LICENSE"], base).get("license_link") == expected


def test_a_license_of_its_own_is_linked_to_the_file_that_travels() -> None:
    assert taken({"license": "my-own"}, ["LICENSE"], None)["license_link"] == "LICENSE"


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ("en", ["en"]),
        (["en", "zho", "multilingual", "code"], ["en", "zho", "multilingual", "code"]),
        (["EN", "zh-Hans", "pt_BR", "en"], ["en", "zh", "pt"]),
        (["english", "e", "", "1"], None),
    ],
)
def test_languages_are_iso_codes(found: str | list[str], expected: list[str] | None) -> None:
    assert taken({"language": found}, [], None).get("language") == expected


@pytest.mark.parametrize(
    ("field", "value", "is_taken"),
    [
        ("pipeline_tag", "image-text-to-text", True),
        ("pipeline_tag", "Text Generation", False),
        ("library_name", "transformers", True),
        ("library_name", "a library", False),
        ("library_name", "<b>", False),
    ],
)
def test_words_are_words(field: str, value: str, is_taken: bool) -> None:
    assert taken({field: value}, [], None) == ({field: value} if is_taken else {})


def test_tags_are_short_lines_each_once() -> None:
    tags = ["moe", "", "moe", "two\nlines", "x" * 101, "not-for-all-audiences"]
    assert taken({"tags": tags}, [], None) == {"tags": ["moe", "two lines", "not-for-all-audiences"]}
    assert taken({"tags": "moe"}, [], None) == {"tags": ["moe"]}


def test_well_known_licenses_are_listed_and_all_in_lower_case() -> None:
    assert {"apache-2.0", "mit", "llama3.1", "gemma", "openrail++", "other", "unknown"} <= LICENSES
    assert all(name == name.lower() for name in LICENSES)
