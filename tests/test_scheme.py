"""Schemes and formats: what may be written, what is refused, and that field names are compressed-tensors' own."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from schemegen.scheme import Format, Quantization, Scheme

INT4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": True}


def scheme(**changes: Any) -> Scheme:
    base = {"schema_version": 1, "name": "mine", "summary": "s", "formats": {"int4": INT4}, "policy": "experts-only"}
    return Scheme.model_validate(base | changes)


def test_a_mapping_with_num_bits_is_short_for_weights() -> None:
    assert Format.model_validate(INT4) == Format.model_validate({"weights": INT4})
    assert Format.model_validate({**INT4, "storage": "pack-quantized"}).storage == "pack-quantized"


def test_short_and_long_form_do_not_mix() -> None:
    with pytest.raises(ValidationError, match="not both"):
        Format.model_validate({**INT4, "weights": INT4})


@pytest.mark.parametrize(
    ("given", "strategy"),
    [({"group_size": 32}, "group"), ({"block_structure": [128, 128]}, "block"), ({}, "tensor")],
)
def test_the_strategy_is_inferred_from_what_is_given(given: dict[str, Any], strategy: str) -> None:
    assert Quantization.model_validate({"num_bits": 8, **given}).strategy == strategy


@pytest.mark.parametrize(
    "given",
    [
        {"strategy": "group"},
        {"strategy": "channel", "group_size": 32},
        {"strategy": "block"},
        {"strategy": "group", "group_size": 0},
        {"num_bits": "4", "strategy": "tensor"},
        {"num_bits": True, "strategy": "tensor"},
        {"strategy": "tensor", "bits": 4},
    ],
)
def test_contradictions_and_loose_types_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Quantization.model_validate(given)


def test_field_names_and_values_are_those_of_compressed_tensors() -> None:
    theirs = pytest.importorskip("compressed_tensors.quantization").QuantizationArgs
    ours = set(Quantization.model_fields)
    assert ours - set(theirs.model_fields) == {"narrow_range"}
    assert set(theirs.model_fields) - ours == set()
    written = Format.model_validate(INT4).weights.model_dump(mode="json", exclude={"narrow_range"})
    read = theirs.model_validate(written).model_dump(mode="json")
    assert {name: read[name] for name in written} == written


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema_version": 2}, "schema_version"),
        ({"name": "Not A Name"}, "name"),
        ({"formats": {}}, "formats"),
        ({"formats": {"Int 4": INT4}}, "formats"),
        ({"formats": {"int4\n": INT4}}, "formats"),
        ({"summary": "a\nb"}, "one line without control characters"),
        ({"reference": "https://x\x1b"}, "one line without control characters"),
        ({"reference": ""}, "reference"),
        ({"formats": {"keep": INT4}}, "keep and default are taken"),
        ({"policy": [{"role": "routed_expert", "use": "int8"}]}, "int8 names no format"),
        ({"policy": [{"role": "expert", "use": "int4"}]}, "'expert' is no role"),
        ({"formats": {"a": INT4, "b": INT4}, "policy": [{"role": "*", "use": "default"}]}, "one format"),
        ({"method": "gptq"}, "method"),
        ({"code": "import os"}, "code"),
    ],
)
def test_a_faulty_scheme_says_what_is_wrong(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        scheme(**changes)


def test_a_scheme_survives_json_and_its_digest_follows_content() -> None:
    first = scheme(policy=["keep-mtp", {"role": ["routed_expert"], "layers": "0-2,-1", "use": "int4"}])
    again = Scheme.model_validate(first.model_dump(mode="json"))
    assert again == first
    assert again.digest == first.digest
    assert scheme(summary="t").digest != scheme().digest


def test_schemes_are_frozen() -> None:
    with pytest.raises(ValidationError):
        scheme().name = "other"  # type: ignore[misc]
