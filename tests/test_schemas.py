"""JSON schemas for editors: they take what the loader takes, and refuse what it refuses."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from schemegen.data import schemes_folder
from schemegen.errors import UnknownNameError
from schemegen.policy import Policy
from schemegen.rule import Rule
from schemegen.schemas import KINDS, json_schema
from schemegen.scheme import Calibration, Format, Method, Quantization, Scheme

jsonschema = pytest.importorskip("jsonschema")

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs" / "reference"
VALIDATORS = {kind: jsonschema.Draft202012Validator(json_schema(kind)) for kind in KINDS}
SHIPPED = {"scheme": schemes_folder(), "policy": schemes_folder() / "policies"}
INT4: dict[str, Any] = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": True}
FP8: dict[str, Any] = {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 128]}
TOKEN: dict[str, Any] = {"num_bits": 8, "strategy": "token", "dynamic": True}
HEAD: dict[str, Any] = {"schema_version": 1, "name": "mine", "summary": "s"}
RULE: dict[str, Any] = {"role": ["mlp", "attention"], "part": "text", "layers": "0-2,-1", "use": "fp8"}
FULL: dict[str, Any] = HEAD | {
    "reference": "https://example.org/recipe",
    "served_by": {"vllm": "Marlin"},
    "formats": {
        "int4": {**INT4, "scale_dtype": "torch.float16", "storage": "pack-quantized", "observer": "mse"},
        "fp8": {"weights": FP8, "input_activations": TOKEN},
    },
    "policy": [
        "keep-mtp",
        RULE,
        {"role": "lm_head", "projection": "o", "use": "int4"},
        {"name": "re:a", "use": "int4"},
    ],
    "method": {"name": "gptq", "damp": 0.1},
    "calibration": {"dataset": "org/texts", "split": "train", "num_samples": 3, "max_length": 4, "seed": 5},
    "kv_cache": {"num_bits": 8, "type": "float", "strategy": "tensor"},
}
RULES: dict[str, Any] = HEAD | {"rules": [RULE, {"role": "*", "projection": ["q", "k"], "use": "keep"}]}
#: What one place of a file says about another, and expressions of Python: faults beyond a schema.
BEYOND = re.compile(
    r"names no format|needs a scheme with one format|(never decides|keeps nothing): |not a regular expression"
)


def is_taken(kind: str, data: Any) -> bool:
    """Whether the schema takes the data."""
    return bool(VALIDATORS[kind].is_valid(data))


def is_loaded(kind: str, data: Any) -> bool:
    """Whether the loader takes the data, or refuses it for a reason that is beyond a schema alone."""
    try:
        KINDS[kind].model_validate(data)
    except ValidationError as error:
        return all(BEYOND.search(str(fault["msg"])) for fault in error.errors())
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_a_schema_of_its_draft(kind: str) -> None:
    schema = json_schema(kind)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"] == f"urn:schemegen:{kind}:1"
    assert schema["title"] == f"schemegen {kind} file"


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_the_published_one(kind: str) -> None:
    """`schemegen check --schema KIND > docs/reference/KIND.schema.json` writes it again."""
    published = (REFERENCE / f"{kind}.schema.json").read_text(encoding="utf-8")
    assert published == json.dumps(json_schema(kind), indent=2) + "\n"


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_is_described(kind: str) -> None:
    schema = json_schema(kind)
    models = {kind: schema, **{name: model for name, model in schema["$defs"].items() if name != "FormatInShort"}}
    fields = {f"{name}.{field}": told for name, model in models.items() for field, told in _fields(model)}
    assert len(fields) > 9
    assert [name for name, told in fields.items() if not told.get("description")] == []
    assert [name for name, model in models.items() if name != "Strategies" and not model.get("description")] == []


def _fields(model: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield from model.get("properties", {}).items()


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("Quantization", Quantization),
        ("FormatInFull", Format),
        ("Rule", Rule),
        ("Calibration", Calibration),
        ("MethodWithOptions", Method),
    ],
)
def test_it_has_every_field_of_the_models(name: str, model: Any) -> None:
    assert set(json_schema("scheme")["$defs"][name]["properties"]) == set(model.model_fields)


@pytest.mark.parametrize("kind", KINDS)
def test_it_takes_every_shipped_file(kind: str) -> None:
    paths = sorted(SHIPPED[kind].glob("*.yaml"))
    assert paths
    told = {path.name: [*VALIDATORS[kind].iter_errors(yaml.safe_load(path.read_text()))] for path in paths}
    assert {name: errors for name, errors in told.items() if errors} == {}


def test_it_takes_the_scheme_of_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    assert is_taken("scheme", yaml.safe_load(block))


SHORT: dict[str, dict[str, Any]] = {
    "a policy by name": {"policy": "experts-only"},
    "names and rules": {"policy": ["keep-mtp", {"role": "*", "use": "int4"}]},
    "no rule": {"policy": []},
    "a method by name": {"method": "rtn"},
    "a method with options": {"method": {"name": "rtn", "deep": {"er": [1, None]}}},
    "a strategy that group_size tells": {"formats": {"a": {"num_bits": 4, "group_size": 32}}, "policy": "x"},
    "a strategy that block_structure tells": {
        "formats": {"a": {"num_bits": 8, "block_structure": [1, 2]}},
        "policy": "x",
    },
    "no strategy": {"formats": {"a": {"num_bits": 8, "strategy": None}}, "policy": "x"},
    "activations in the short form": {"formats": {"a": {**TOKEN, "input_activations": TOKEN}}, "policy": "x"},
    "nothing said": {"reference": None, "calibration": None, "kv_cache": None},
    "roles as a list of one": {"policy": [{"role": ["mlp"], "use": "int4"}]},
}


@pytest.mark.parametrize("changes", SHORT.values(), ids=SHORT)
def test_short_forms_are_taken_by_both(changes: dict[str, Any]) -> None:
    assert (is_taken("scheme", FULL | changes), is_loaded("scheme", FULL | changes)) == (True, True)


def _format(**changes: Any) -> dict[str, Any]:
    return {"formats": {"a": INT4 | changes}, "policy": "x"}


FAULTY: dict[str, dict[str, Any]] = {
    "an unknown field": {"code": "import os"},
    "another version": {"schema_version": 2},
    "a file's name": {"name": "mine.yaml"},
    "a file's other name": {"name": "mine.v2.yml"},
    "text for a version": {"schema_version": "1"},
    "true for a version": {"schema_version": True},
    "no name": {"name": None},
    "a name with blanks": {"name": "My Scheme"},
    "two lines": {"summary": "a\nb"},
    "a control character": {"summary": "a\x1b[31m"},
    "an empty line": {"reference": ""},
    "a long line": {"summary": "x" * 301},
    "no formats": {"formats": {}},
    "a format named keep": {"formats": {"keep": INT4}},
    "a format with a bad name": {"formats": {"Int 4": INT4}},
    "a format that is no mapping": {"formats": {"a": "int4"}},
    "an unknown field of a format": _format(bits=4),
    "both forms of a format": _format(weights=INT4),
    "neither form of a format": {"formats": {"a": {"storage": "pack-quantized"}}},
    "bits as text": _format(num_bits="4"),
    "too many bits": _format(num_bits=17),
    "true for bits": _format(num_bits=True),
    "a group of none": _format(group_size=0),
    "an unknown strategy": _format(strategy="row"),
    "a strategy without its size": {"formats": {"a": {"num_bits": 4, "strategy": "group"}}},
    "a strategy with a size that it has not": _format(strategy="channel"),
    "a block without one": {"formats": {"a": {"num_bits": 8, "strategy": "block"}}},
    "both sizes": _format(block_structure=[128, 128]),
    "both sizes, no strategy": _format(strategy=None, block_structure=[128, 128]),
    "half a block": {"formats": {"a": FP8 | {"block_structure": [128]}}},
    "a block of three": {"formats": {"a": FP8 | {"block_structure": [1, 2, 3]}}},
    "null for symmetric": _format(symmetric=None),
    "an unknown type": _format(type="fp"),
    "an unknown dtype": _format(scale_dtype="e8m0"),
    "a dynamic of no kind": _format(dynamic="global"),
    "a rule without use": {"policy": [{"role": "mlp"}]},
    "an empty use": {"policy": [{"use": ""}]},
    "an unknown role": {"policy": [{"role": "expert", "use": "keep"}]},
    "an unknown role in a list": {"policy": [{"role": ["mlp", "expert"], "use": "keep"}]},
    "a star in a list": {"policy": [{"role": ["*"], "use": "keep"}]},
    "no role in a list": {"policy": [{"role": [], "use": "keep"}]},
    "null for a role": {"policy": [{"role": None, "use": "keep"}]},
    "no projection in a list": {"policy": [{"projection": [], "use": "keep"}]},
    "an unknown part": {"policy": [{"part": "head", "use": "keep"}]},
    "layers as a number": {"policy": [{"layers": 3, "use": "keep"}]},
    "layers as words": {"policy": [{"layers": "first", "use": "keep"}]},
    "a name without re:": {"policy": [{"name": "lm_head", "use": "keep"}]},
    "a rule with an unknown field": {"policy": [{"rol": "mlp", "use": "keep"}]},
    "a policy with a bad name": {"policy": "Keep It"},
    "a bad name in a list": {"policy": ["Keep It"]},
    "one rule, not in a list": {"policy": {"use": "keep"}},
    "a method without a name": {"method": {"damp": 0.1}},
    "a method with a bad name": {"method": "My Method"},
    "null for a method": {"method": None},
    "calibration without a dataset": {"calibration": {"num_samples": 3}},
    "calibration with an unknown field": {"calibration": {"dataset": "d", "samples": 3}},
    "calibration with no text": {"calibration": {"dataset": "d", "num_samples": 0}},
    "a cache with an unknown field": {"kv_cache": {"num_bits": 8, "kind": "float"}},
    "an engine with a bad name": {"served_by": {"v LLM": "a"}},
    "a list of engines": {"served_by": ["vllm"]},
}


@pytest.mark.parametrize("changes", FAULTY.values(), ids=FAULTY)
def test_faulty_schemes_are_refused_by_both(changes: dict[str, Any]) -> None:
    data = {key: value for key, value in (FULL | changes).items() if key != "name" or value is not None}
    assert (is_taken("scheme", data), is_loaded("scheme", data)) == (False, False)


@pytest.mark.parametrize("changes", [{"rules": []}, {"rules": "experts-only"}, {"rules": ["keep-mtp"]}, {"policy": []}])
def test_faulty_policies_are_refused_by_both(changes: dict[str, Any]) -> None:
    assert (is_taken("policy", RULES), is_loaded("policy", RULES)) == (True, True)
    assert (is_taken("policy", RULES | changes), is_loaded("policy", RULES | changes)) == (False, False)


WORDS = [
    "int4",
    "keep",
    "default",
    "group",
    "block",
    "mlp",
    "*",
    "text",
    "0-2",
    "re:x",
    "torch.int8",
    "local",
    "No Name",
]
VALUES: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(WORDS),
    st.sampled_from([None, True, False, 0, 1, 8, 32, -1, 0.5, "", "a\nb", [], {}, [32, 32], [1], ["mlp", "*"]]),
    st.sampled_from([INT4, FP8, TOKEN, RULE, {"weights": INT4}, "experts-only"]),
)
FIELDS = sorted(
    {name for model in (Scheme, Format, Quantization, Rule, Calibration, Policy) for name in model.model_fields}
)


def _places(node: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a file, from the top down."""
    yield place
    pairs = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in pairs:
        yield from _places(value, (*place, key))


def _changed(data: dict[str, Any], place: tuple[Any, ...], how: str, field: str, value: Any) -> dict[str, Any]:
    """A copy with one place taken out, set to a value, or given a field."""
    changed = copy.deepcopy(data)
    parent: Any = changed
    for key in place[:-1]:
        parent = parent[key]
    if how == "take out":
        del parent[place[-1]]
    elif how == "set":
        parent[place[-1]] = copy.deepcopy(value)
    elif isinstance(parent[place[-1]], dict):
        parent[place[-1]][field] = copy.deepcopy(value)
    return changed


@pytest.mark.parametrize(("kind", "start"), [("scheme", FULL), ("policy", RULES)])
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.data())
def test_schema_and_loader_agree_on_files_that_are_changed_at_random(
    kind: str, start: dict[str, Any], changes: st.DataObject
) -> None:
    data = start
    for _ in range(changes.draw(st.integers(1, 3))):
        places = [place for place in _places(data) if place]
        how = changes.draw(st.sampled_from(["take out", "set", "add"]))
        field, value = changes.draw(st.sampled_from(FIELDS)), changes.draw(VALUES)
        if places:
            data = _changed(data, changes.draw(st.sampled_from(places)), how, field, value)
    assert is_taken(kind, data) == is_loaded(kind, data)


def test_another_kind_is_an_unknown_name() -> None:
    with pytest.raises(UnknownNameError, match="unknown kind of file 'polycy': did you mean policy"):
        json_schema("polycy")
