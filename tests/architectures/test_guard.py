"""A guest's architecture that breaks its promises is blamed by name; schemegen's own stays as it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import schemegen
from schemegen.architectures.base import Architecture, Part, Role, TensorRule
from schemegen.architectures.guard import guarded
from schemegen.architectures.qwen3_5_moe import QWEN3_5_MOE
from schemegen.catalog import load_catalog
from schemegen.errors import CheckpointError, PluginError

BLAME = r"plugin 'architecture qwen3_5_moe' of acme 2\.0: "
STACK = "model.language_model.layers.0.mlp.experts.gate_up_proj"


def broken(config: Any, *_: Any) -> Any:
    """What authors write who have seen one config."""
    return config["no_such_key"]


def refusing(config: Any, *_: Any) -> Any:
    raise CheckpointError("on purpose")


@pytest.mark.parametrize("name", ["depth", "experts", "required"])
def test_what_a_function_raises_names_it(name: str) -> None:
    functions: dict[str, Any] = {name: broken}
    toy = guarded(replace(QWEN3_5_MOE, **functions), "acme 2.0")
    args: tuple[Any, ...] = ({}, Part.TEXT) if name == "depth" else ({},)
    told = rf"{BLAME}{name} raised KeyError: 'no_such_key' \(test_guard\.py, line \d+\)"
    with pytest.raises(PluginError, match=told):
        getattr(toy, name)(*args)
    functions[name] = refusing
    with pytest.raises(CheckpointError, match="on purpose"):
        getattr(guarded(replace(QWEN3_5_MOE, **functions), "acme 2.0"), name)(*args)


@pytest.mark.parametrize("answer", ["3", 2.0, True, None, -1])
def test_numbers_are_whole(answer: Any) -> None:
    toy = guarded(replace(QWEN3_5_MOE, depth=lambda config, part: answer, experts=lambda config: answer), "acme 2.0")
    with pytest.raises(PluginError, match=rf"{BLAME}depth returned {answer!r}; return a whole number"):
        toy.depth({}, Part.TEXT)
    with pytest.raises(PluginError, match=rf"{BLAME}experts returned {answer!r}; return a whole number"):
        toy.experts({})


@pytest.mark.parametrize("answer", ["embed.weight", ["embed.weight"], (1,), None])
def test_names_are_a_tuple(answer: Any) -> None:
    toy = guarded(replace(QWEN3_5_MOE, required=lambda config: answer), "acme 2.0")
    with pytest.raises(PluginError, match=rf"{BLAME}required returned .*; return a tuple of tensor names"):
        toy.required({})


def _with_layout(**changes: Any) -> Architecture:
    def changed(rule: TensorRule) -> TensorRule:
        return rule if rule.experts is None else replace(rule, experts=replace(rule.experts, **changes))

    return guarded(replace(QWEN3_5_MOE, rules=tuple(map(changed, QWEN3_5_MOE.rules))), "acme 2.0")


@pytest.mark.parametrize("name", ["rows", "columns", "experts"])
def test_layouts_are_guarded_too(name: str) -> None:
    sound: dict[str, Any] = {"rows": lambda c: 2, "columns": lambda c: 3, "experts": lambda c: 4}
    layout = _with_layout(**sound).identify(STACK).experts
    assert layout is not None
    assert layout.shape({}) == (4, 4, 3)
    for function, told in ((broken, "raised KeyError"), (lambda c: "4", "returned '4'")):
        layout = _with_layout(**(sound | {name: function})).identify(STACK).experts
        assert layout is not None
        with pytest.raises(PluginError, match=f"{BLAME}{name} of an ExpertLayout {told}"):
            layout.shape({})


def test_a_registered_one_is_guarded_and_schemegens_own_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = load_catalog()
    config = {"model_type": "qwen3_5_moe"}
    assert catalog.architecture_of(config) is QWEN3_5_MOE
    rules = (TensorRule("x", Role.MLP),)
    toy = Architecture("toy", "s", ("toy",), rules, depth=broken, experts=broken, part_ignores={})
    catalog.architectures.add(toy, origin="acme 2.0")
    found = catalog.architecture_of({"model_type": "toy"})
    assert found.identify("x").role is Role.MLP
    with pytest.raises(PluginError, match=r"'architecture toy' of acme 2\.0: depth raised KeyError"):
        found.depth({}, Part.TEXT)


def test_rules_that_are_read_once_are_guarded_too() -> None:
    toy = guarded(replace(QWEN3_5_MOE, rules=iter(QWEN3_5_MOE.rules)), "acme 2.0")  # type: ignore[arg-type]
    assert len(toy.rules) == len(QWEN3_5_MOE.rules)
    assert toy.identify(STACK).role is Role.ROUTED_EXPERT


def test_a_bad_name_is_told_with_its_article() -> None:
    architectures = load_catalog().architectures
    with pytest.raises(PluginError, match="'Acme Toy' cannot name an architecture; use lower-case"):
        architectures.add(replace(QWEN3_5_MOE, name="Acme Toy"), origin="acme 2.0")
    with pytest.raises(PluginError, match=r"'toy\.yaml' cannot name an architecture; what ends in"):
        architectures.add(replace(QWEN3_5_MOE, name="toy.yaml"), origin="acme 2.0")
    with pytest.raises(PluginError, match="an architecture must be an Architecture, not int 7"):
        architectures.add(7, origin="acme 2.0")  # type: ignore[arg-type]


def test_plan_and_inspect_tell_whose_fault_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    toy = guarded(replace(QWEN3_5_MOE, depth=broken), "acme 2.0")
    monkeypatch.setattr("schemegen.catalog.Catalog.architecture_of", lambda self, config: toy)
    with pytest.raises(PluginError, match=f"{BLAME}depth raised KeyError"):
        schemegen.plan("kimi-k2-int4", "sample:qwen3.6-moe")
    nothing = guarded(replace(QWEN3_5_MOE, rules=()), "acme 2.0")
    monkeypatch.setattr("schemegen.catalog.Catalog.architecture_of", lambda self, config: nothing)
    with pytest.raises(schemegen.UnsupportedError, match=r"\d+ kinds of tensor are unknown to architecture"):
        schemegen.inspect("sample:qwen3.6-moe")
