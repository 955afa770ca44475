"""config.json keeps every byte and gets one member more; the index is the Hub's."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemegen.errors import OutputError
from schemegen.seal.texts import index_text, spliced_config
from schemegen.verifier.texts import without_block

BLOCK = {"format": "pack-quantized", "ignore": ["re:.*a\\..*"], "groups": {"n": 1, "none": None}}


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        ('{\n  "a": 1,\n  "b": {\n    "c": []\n  }\n}\n', '{\n  "a": 1,\n  "b": {\n    "c": []\n  }', "\n}\n"),
        ('{\n    "a": 1e-06,\n    "b": 10000000.0\n}', '{\n    "a": 1e-06,\n    "b": 10000000.0', "\n}"),
        ('{\n\t"a": "é\\u00e9"\n}\n\n', '{\n\t"a": "é\\u00e9"', "\n}\n\n"),
        ('{\r\n  "a": -0.0\r\n}\r\n', '{\r\n  "a": -0.0', "\r\n}\r\n"),
        (' {"a": NaN, "b": "}"} ', ' {"a": NaN, "b": "}"', "} "),
        ('{\n\n  "a" :{"quantization_config": 1} }', '{\n\n  "a" :{"quantization_config": 1}', " }"),
    ],
)
def test_every_byte_of_the_source_stays(text: str, before: str, after: str) -> None:
    spliced = spliced_config(text, BLOCK)
    assert spliced.startswith(before + ",")
    assert spliced.endswith(after)
    inserted = spliced[len(before) : -len(after)]
    assert json.loads("{" + inserted[1:] + "}") == {"quantization_config": BLOCK}
    assert list(json.loads(spliced))[-1] == "quantization_config"


def test_nesting_that_a_source_may_have_is_taken_and_more_is_told() -> None:
    text = '{"a": ' + "[" * 120 + "]" * 120 + ', "b": ' + '{"c":' * 120 + "1" + "}" * 121
    assert spliced_config(text, BLOCK).startswith(text[:-1])
    with pytest.raises(OutputError, match="nested too deeply"):
        spliced_config('{"a": ' + "[" * 200_000 + "]" * 200_000 + "}", BLOCK)


@pytest.mark.parametrize("indent", ["  ", "    ", "\t"])
def test_the_block_is_indented_as_the_rest(indent: str) -> None:
    config = {"a": [1, {"b": 2}], "c": 1.5}
    text = json.dumps(config, indent=indent)
    assert spliced_config(text, BLOCK) == json.dumps(config | {"quantization_config": BLOCK}, indent=indent)


def test_line_ends_are_the_sources() -> None:
    spliced = spliced_config('{\r\n  "a": 1\r\n}\r\n', BLOCK)
    assert spliced.count("\n") == spliced.count("\r\n") > 5


@pytest.mark.parametrize("empty", ["null", "{}", "[ ]", '""'])
def test_a_block_that_says_nothing_gives_way_in_its_place(empty: str) -> None:
    text = f'{{\n  "a": 1,\n  "quantization_config" : {empty},\n  "b": 2\n}}\n'
    spliced = spliced_config(text, BLOCK)
    assert list(json.loads(spliced).items()) == [("a", 1), ("quantization_config", BLOCK), ("b", 2)]
    assert spliced.startswith('{\n  "a": 1,\n  "quantization_config" : {\n')
    assert spliced.endswith(',\n  "b": 2\n}\n')


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(st.text().filter(lambda key: key != "quantization_config"), VALUES, min_size=1, max_size=4),
    st.sampled_from([None, 0, 2, 4, "\t"]),
    st.sampled_from([(",", ":"), (", ", ": "), (" ,", " : ")]),
    st.booleans(),
)
def test_any_config_stays_as_it_was(
    config: dict[str, Any], indent: int | str | None, separators: tuple[str, str], ascii_only: bool
) -> None:
    text = json.dumps(config, indent=indent, separators=separators, ensure_ascii=ascii_only)
    spliced = spliced_config(text, BLOCK)
    found = json.loads(spliced)
    assert list(found.items()) == [*json.loads(text).items(), ("quantization_config", BLOCK)]
    end = len(text[:-1].rstrip(" \t\r\n"))
    assert spliced.startswith(text[:end])
    assert spliced.endswith(text[end:])


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        ('{"a": 1, "b": [], "quantization_config": 5}', True),
        ('{"b": [], "a": 1}', False),
        ('{"a": 1.0, "b": []}', False),
        ('{"a": "1", "b": []}', False),
        ('{"a": 1, "b": {}}', False),
        ('{"a": 1, "b": [], "c": null}', False),
        ('{"a": 1}', False),
    ],
)
def test_order_kind_and_spelling_count(changed: str, same: bool) -> None:
    assert (without_block(changed) == without_block('{"a": 1, "b": []}')) is same


def test_the_index_is_written_as_the_hub_writes_it() -> None:
    weight_map = {"b.weight": "2.safetensors", "a.weight": "1.safetensors"}
    metadata = {"first": "kept", "total_size": 12.0, "total_parameters": 3}
    text = index_text(weight_map, 24, metadata)
    expected = {"metadata": metadata | {"total_size": 24}, "weight_map": dict(sorted(weight_map.items()))}
    assert text == json.dumps(expected, indent=2) + "\n"
    assert '"total_size": 24,' in text


def test_an_index_without_metadata_gets_its_total() -> None:
    assert json.loads(index_text({"a": "b"}, 7, {})) == {"metadata": {"total_size": 7}, "weight_map": {"a": "b"}}
