"""Names of formats and schemes, patterns of module names, spans of layers."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemegen.described.naming import format_names, pattern_of, scheme_name, shown
from schemegen.layers import layer_spans, spans_of
from schemegen.scheme import Format, Quantization


def ints(**fields: object) -> Format:
    """A format of integers."""
    return Format.model_validate({"weights": {"num_bits": 4, **fields}})


def test_formats_are_called_by_their_kind_and_only_then_by_what_sets_them_apart() -> None:
    token = {"num_bits": 8, "strategy": "token", "dynamic": True}
    formats = [
        ints(group_size=32),
        ints(num_bits=8, strategy="channel"),
        ints(group_size=128),
        ints(group_size=32),
        ints(group_size=128, symmetric=False),
        ints(group_size=128, symmetric=False, actorder="static"),
        Format.model_validate({"weights": {"strategy": "channel"}, "input_activations": token}),
        Format(weights=Quantization(num_bits=4, type="float", strategy="group", group_size=32)),
        Format(weights=Quantization(num_bits=4, type="float", strategy="tensor_group", group_size=16)),
    ]
    assert format_names(formats) == [
        "int4",
        "int8",
        "int4_g128",
        "int4",
        "int4_g128_a16",
        "int4_2",
        "int8_channel",
        "mxfp4",
        "nvfp4",
    ]


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("RedHatAI/Qwen3.6-35B-A3B-FP8", "qwen3.6-35b-a3b-fp8-described"),
        ("out", "out-described"),
        ("..ünï çode__", "n-ode-described"),
        ("日本", "model-described"),
    ],
)
def test_a_scheme_is_called_after_its_model(model: str, name: str) -> None:
    assert scheme_name(model) == name


def test_patterns_stand_for_products_of_numbers_and_fold_what_they_share() -> None:
    names = [f"a.layers.{n}.x.{e}.{p}.weight" for n in (3, 12) for e in (0, 7) for p in ("gate", "up")]
    assert pattern_of(names) == r"re:a\.layers\.(3|12)\.x\.(0|7)\.(gate|up)\.weight$"


NAMES = st.sets(
    st.tuples(
        st.sampled_from(["a.layers.", "a.b.layers.", "mtp."]),
        st.integers(0, 12),
        st.sampled_from([".q", ".q.r", ".experts"]),
        st.integers(0, 3),
        st.sampled_from([".weight", ".x.weight", ".weight.weight"]),
    ).map(lambda parts: "".join(map(str, parts))),
    min_size=1,
    max_size=12,
)


@given(names=NAMES, others=NAMES)
def test_a_pattern_hits_its_names_and_no_others(names: set[str], others: set[str]) -> None:
    pattern = pattern_of(sorted(names))
    assert pattern.startswith("re:")
    assert {name for name in names | others if re.match(pattern[3:], name)} == names


@given(known=st.sets(st.integers(0, 30), min_size=1), data=st.data())
def test_spans_hold_the_chosen_layers_and_none_of_the_other_known_ones(known: set[int], data: st.DataObject) -> None:
    chosen = data.draw(st.sets(st.sampled_from(sorted(known)), min_size=1))
    spans = layer_spans(spans_of(chosen, known), 31)
    assert {n for n in known if any(first <= n <= last for first, last in spans)} == chosen


def test_spans_go_over_layers_that_do_not_count() -> None:
    assert spans_of([3, 7, 11], [3, 7, 11, 15]) == "3-11"


def test_names_from_anywhere_are_one_line() -> None:
    assert shown("a\nb\x1b") == r"a\nb\x1b"
    assert len(shown("x" * 500)) < 120


def test_an_empty_name_is_shown_in_quotes() -> None:
    assert (shown(""), shown("a")) == ('""', "a")
