"""Shadowed rules: what is said to decide nothing decides nothing, whatever the model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from time import perf_counter
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from schemegen.architectures.base import ExpertLayout, Part, Role, TensorInfo
from schemegen.policy import Policy
from schemegen.rule import Rule
from schemegen.scheme import Scheme
from schemegen.shadows import Shadow, find_shadows, listed, own_shadow_faults

ALL = {"use": "a"}
DENSE = ["routed_expert", "shared_expert", "mlp", "attention", "linear_attention", "indexer"]
Fields = dict[str, Any]


def rules(*written: Fields) -> list[Rule]:
    return [Rule.model_validate({"use": "keep"} | fields) for fields in written]


def found(*written: Fields) -> list[tuple[int, tuple[int, ...], bool]]:
    return [(shadow.position, shadow.takers, shadow.late) for shadow in find_shadows(rules(*written))]


@pytest.mark.parametrize(
    ("written", "takers"),
    [
        ([ALL, ALL], (0,)),
        ([ALL, {"use": "b", "part": "text"}], (0,)),
        ([ALL, {"use": "b", "layers": "3"}], (0,)),
        ([ALL, {"use": "b", "projection": ["q", "k"], "name": "re:a"}], (0,)),
        ([{}, {"use": "a", "role": "router"}], (0,)),
        ([{"part": "mtp"}, {"use": "a", "part": "mtp"}], (0,)),
        ([{"part": "vision"}, {"use": "a", "role": "attention", "part": "vision"}], (0,)),
        ([ALL, {"role": "attention", "part": "text"}], (0,)),
        ([{"role": "attention"}, {"role": "mlp"}, {"use": "a", "role": ["mlp", "attention"]}], (0, 1)),
        ([{"role": DENSE}, {"use": "a"}], (0,)),
        ([{"part": "text"}, {"part": "mtp"}, {"role": "norm"}, {"use": "a"}], (0, 1)),
        ([{"part": part} for part in Part] + [{"use": "a", "role": "lm_head"}], (0, 1, 2, 3)),
        ([{"projection": "q"}, {"projection": ["k", "v"]}, {"use": "a", "projection": ["q", "v"]}], (0, 1)),
        ([{"use": "a", "role": "mlp", "projection": projection} for projection in ("q", "k", ["q", "k"])], (0, 1)),
        ([{"use": "a", "projection": ["q", "k"]}, {"use": "b", "projection": "q"}], (0,)),
        ([{"layers": "0-3"}, {"layers": "4-9"}, {"use": "a", "layers": "2-5"}], (0, 1)),
        ([{"layers": "-4--1"}, {"use": "a", "layers": "-1"}], (0,)),
        ([{"layers": "0--1"}, {"use": "a", "layers": "3,-2"}], (0,)),
        ([{"layers": "2--1"}, {"use": "a", "layers": "3-5,7--3"}], (0,)),
        ([{"layers": "0-4"}, {"layers": "5--1"}, {"use": "a", "layers": "0--1"}], (0, 1)),
        ([{"layers": "0--3"}, {"layers": "-2,-1"}, {"use": "a", "layers": "8"}], (0, 1)),
        ([{"layers": "0"}, {"use": "a", "part": "text", "layers": "0"}], (0,)),
        ([{"name": "re:x"}, {"use": "a", "name": "re:x", "role": "mlp"}], (0,)),
        ([{"role": "mlp"}, {"name": "re:x"}, {"part": "text"}, {"use": "a", "layers": "1"}], (2,)),
    ],
)
def test_shadowed(written: Sequence[Fields], takers: tuple[int, ...]) -> None:
    assert found(*written) == [(len(written) - 1, takers, False)]


@pytest.mark.parametrize(
    "written",
    [
        [ALL, {"use": "b", "role": "attention"}],
        [ALL, {"use": "b", "role": "lm_head", "part": "text"}],
        [ALL, {"part": "vision"}],
        [ALL, {"role": "router"}],
        [ALL, {}],
        [{"part": "mtp"}, ALL],
        [{"layers": "0"}, {"use": "a", "part": "mtp", "layers": "0"}],
        [{"layers": "0--1"}, {"use": "a", "part": "text"}],
        [{"layers": "0-8"}, {"use": "a", "layers": "0-9"}],
        [{"layers": "0-9"}, {"use": "a", "layers": "-1"}],
        [{"layers": "-9--1"}, {"use": "a", "layers": "0"}],
        [{"layers": "0--2"}, {"use": "a", "layers": "0-3"}],
        [{"layers": "0-4"}, {"layers": "-5--1"}, {"use": "a", "layers": "0--1"}],
        [{"layers": "0-3"}, {"layers": "5-9"}, {"use": "a", "layers": "2-6"}],
        [{"projection": "q"}, {"use": "a", "projection": ["q", "k"]}],
        [{"projection": ["q", "k", "v", "o", "gate", "up", "down"]}, ALL],
        [{"use": "a", "projection": projection} for projection in ("q", "k", ["q", "k"])],
        [{"use": "a", "role": "routed_expert", "projection": "q"}, {"role": "routed_expert", "projection": "q"}],
        [{"name": "re:.*"}, ALL],
        [{"name": "re:.*"}, {"use": "a", "name": "re:x"}],
        [{"role": DENSE, "part": "text"}, ALL],
        [{"role": "routed_expert", "use": "a"}, {"part": "mtp"}, {"use": "b"}],
        [{"role": "routed_expert", "use": "a"}, {"part": "mtp"}],
        [ALL, {"part": "mtp"}, {"role": "lm_head", "use": "b"}],
        [{"role": DENSE, "part": "mtp"}, {"part": "mtp"}, ALL],
    ],
)
def test_not_shadowed(written: Sequence[Fields]) -> None:
    assert found(*written) == []


@pytest.mark.parametrize(
    "late",
    [
        {"part": "mtp"},
        {"layers": "0,-1"},
        {"role": "attention"},
        {"role": ["mlp", "norm"]},
        {"projection": "q"},
        {"name": "re:x"},
    ],
)
def test_what_keeps_after_all_was_quantized_keeps_too_late(late: Fields) -> None:
    assert found(ALL, late) == [(1, (0,), True)]
    assert found(late, ALL) == []


def test_a_rule_that_protected_tensors_need_is_not_too_late() -> None:
    head = {"role": "lm_head", "use": "b", "part": "text"}
    assert found(ALL, {"part": "mtp"}, head) == [(1, (0,), True)]
    assert found(ALL, {"part": "text"}, head) == [(2, (1,), False)]
    assert found(ALL, {"part": "text"}, {"role": "lm_head", "use": "b"}) == []


@pytest.mark.parametrize(
    ("shadow", "told"),
    [
        (Shadow(2, (0,)), "never decides: a takes all that it selects; move it up or take it out"),
        (Shadow(2, (0, 1)), "never decides: a and b take all that it selects; move it up or take it out"),
        (
            Shadow(2, (1,), late=True),
            "keeps nothing: b takes first what it should keep; move it up or take it out",
        ),
    ],
)
def test_a_shadow_names_the_rules(shadow: Shadow, told: str) -> None:
    assert shadow.told(["a", "b", "c"]) == told


def test_names_in_a_sentence() -> None:
    assert [listed(names) for names in (["a"], ["a", "b"], ["a", "b", "c"])] == ["a", "a and b", "a, b and c"]


def test_layers_in_any_number_take_no_time() -> None:
    some = ",".join(map(str, range(0, 4000, 2))) + "," + ",".join(f"-{number}" for number in range(1, 4000, 2))
    start = perf_counter()
    assert found({"layers": some}, {"use": "a", "layers": some + ",1"}) == []
    assert perf_counter() - start < 5


SPANS = st.lists(
    st.tuples(st.integers(-5, 5), st.none() | st.integers(-5, 5)).map(
        lambda ends: f"{ends[0]}" if ends[1] is None else f"{ends[0]}-{ends[1]}"
    ),
    min_size=1,
    max_size=3,
).map(",".join)
SOME_ROLES = ["attention", "lm_head", "norm", "routed_expert"]
STACK = ExpertLayout(("q", "k"), rows=len, columns=len, experts=len)
RULES = st.fixed_dictionaries(
    {"use": st.sampled_from(["keep", "a", "b"])},
    optional={
        "role": st.sampled_from([*SOME_ROLES, "*"]) | st.lists(st.sampled_from(SOME_ROLES), min_size=1, max_size=3),
        "part": st.sampled_from(list(map(str, Part))),
        "layers": SPANS,
        "projection": st.sampled_from(["q", "k", "qkv"])
        | st.lists(st.sampled_from(["q", "k", "v", "qkv"]), min_size=1, max_size=3),
        "name": st.sampled_from(["re:x", "re:.*y"]),
    },
)
DEPTHS = (1, 3, 9)


def matrices(depth: int) -> Iterator[TensorInfo]:
    """Every kind of matrix that the rules tell apart, in parts of `depth` layers."""
    layers = [*range(depth), None]
    for role, part, layer, name in product(map(Role, [*SOME_ROLES, "mlp"]), Part, layers, ["x", "y", "z"]):
        for projection in ("q", "k", "v", "qkv", "o", None):
            yield TensorInfo(name, role, part, layer, None, projection, None, None)
        if role is Role.ROUTED_EXPERT:
            yield TensorInfo(name, role, part, layer, None, None, STACK, None)


def fate(found: Sequence[Rule], info: TensorInfo, depth: int) -> tuple[int | None, str]:
    """The position of the rule that decides, and what it uses."""
    return next(((at, rule.use) for at, rule in enumerate(found) if rule.matches(info, depth)), (None, "keep"))


@settings(max_examples=100, deadline=None)
@given(st.lists(RULES, min_size=2, max_size=5))
@example([{"use": "a"}, {"use": "keep", "part": "mtp"}, {"use": "b", "role": "lm_head", "part": "text"}])
@example([{"use": "a", "projection": "q"}, {"use": "a", "projection": "k"}, {"use": "b", "projection": ["q", "k"]}])
@example([{"use": "a", "projection": "q"}, {"use": "keep", "projection": "q"}])
@example([{"use": "a", "layers": "0-5"}, {"use": "a", "layers": "-5--1"}, {"use": "a", "layers": "0--1"}])
def test_what_is_shadowed_changes_no_fate_of_any_matrix(written: list[Fields]) -> None:
    """It decides none; or, where it keeps too late, those that it decides are kept without it."""
    every = rules(*written)
    for shadow in find_shadows(every):
        rest = every[: shadow.position] + every[shadow.position + 1 :]
        for depth in DEPTHS:
            decided = [info for info in matrices(depth) if fate(every, info, depth)[0] == shadow.position]
            assert shadow.late or not decided
            assert {fate(rest, info, depth)[1] for info in decided} <= {"keep"}


@settings(max_examples=300, deadline=None)
@given(SPANS, SPANS, SPANS)
def test_layers_are_compared_exactly(first: str, second: str, wanted: str) -> None:
    """Whoever is not shadowed decides a layer at some depth: ends of five and less meet well below this many."""
    every = rules({"layers": first}, {"layers": second}, {"layers": wanted, "use": "a", "role": "mlp"})
    decided = any(
        fate(every, TensorInfo("x", Role.MLP, Part.TEXT, layer, None, None, None, None), depth)[0] == 2
        for depth in range(1, 24)
        for layer in range(depth)
    )
    assert [shadow.position for shadow in find_shadows(every) if shadow.position == 2] == [2] * (not decided)


@pytest.mark.parametrize("fields", [{"use": "a", "part": "vision"}, {"use": "a", "part": "audio", "layers": "0"}])
def test_a_rule_that_reaches_nothing_by_itself_is_told_to_name_a_role(fields: Fields) -> None:
    for written in ([fields], [ALL, fields]):
        (shadow,) = find_shadows(rules(*written))
        assert "selects nothing" in shadow.told(["rules.0", "rules.1"])


def test_every_shadowed_rule_of_a_policy_is_told_with_its_place() -> None:
    written: list[Fields] = [
        {"role": ["attention", "mlp"], "use": "default"},
        {"role": "router", "use": "keep"},
        {"role": "attention", "part": "text", "use": "keep"},
        {"role": "*", "use": "default"},
        {"part": "mtp", "use": "keep"},
    ]
    policy = Policy.model_validate({"schema_version": 1, "name": "mine", "summary": "s", "rules": written})
    assert [*own_shadow_faults(policy)] == [
        (("rules", 2), "never decides: rules.0 takes all that it selects; move it up or take it out"),
        (("rules", 4), "keeps nothing: rules.3 takes first what it should keep; move it up or take it out"),
    ]


def scheme(*policy: str | Fields) -> Scheme:
    formats = {"a": {"num_bits": 8, "strategy": "channel"}}
    fields = {"schema_version": 1, "name": "mine", "summary": "s", "formats": formats, "policy": [*policy]}
    return Scheme.model_validate(fields)


@pytest.mark.parametrize(
    ("policy", "place", "message"),
    [
        ([ALL, "x", {"role": "mlp", "part": "text", "use": "a"}], 2, "never decides: policy.0 takes"),
        ([ALL, {"part": "mtp", "use": "keep"}], 1, "keeps nothing: policy.0 takes"),
        (
            [
                {"role": "mlp", "use": "keep"},
                {"role": "router", "use": "keep"},
                "x",
                {"role": ["mlp", "router"], "use": "keep"},
            ],
            3,
            "never decides: policy.0 and policy.1 take",
        ),
    ],
)
def test_a_rule_that_the_schemes_own_rules_shadow_is_told(policy: list[Any], place: int, message: str) -> None:
    ((where, told),) = own_shadow_faults(scheme(*policy))
    assert where == ("policy", place)
    assert told.startswith(message)


def test_what_named_policies_take_is_not_known_by_the_scheme_alone() -> None:
    assert [*own_shadow_faults(scheme("all-linear", {"role": "attention", "part": "text", "use": "keep"}))] == []


@pytest.mark.parametrize(
    ("written", "shadowed"),
    [
        ([{"use": "a", "projection": name} for name in "qkv"] + [{"use": "b", "projection": ["q", "k", "v"]}], []),
        ([{"use": "a", "projection": "qkv"}, {"use": "b", "projection": ["q", "k", "v"]}], []),
        ([{"use": "a", "projection": ["q", "k", "v"]}, {"use": "b", "projection": "qkv"}], [1]),
        ([{"projection": "q"}, {"use": "a", "projection": "qkv"}], [1]),
        ([{"use": "a", "projection": ["q", "k"]}, {"use": "b", "projection": "qkv"}], []),
    ],
)
def test_projections_that_are_fused_in_the_file(written: list[Fields], shadowed: list[int]) -> None:
    assert [position for position, _, _ in found(*({"role": "attention"} | fields for fields in written))] == shadowed


@pytest.mark.parametrize(
    ("layers", "span"),
    [("2-1", "2-1"), ("0,5-3,1", "5-3"), ("-1--3", "-1--3"), ("0--1", None), ("-1-0", None), ("3-3", None)],
)
def test_layers_that_run_backwards_name_none(layers: str, span: str | None) -> None:
    fields = {"role": "mlp", "layers": layers, "use": "a"}
    told = [f"layers {span} run backwards and name none; write the lower number first"] if span else []
    assert [fault for _, fault in own_shadow_faults(scheme(fields))] == told
