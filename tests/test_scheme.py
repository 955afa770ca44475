"""Schemes and formats: what may be written, what is refused, and that field names are compressed-tensors' own."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from schemegen.data import schemes_folder
from schemegen.loader import load_scheme
from schemegen.scheme import DtypeName, Format, Quantization, Scheme

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
        ({"method": "no method"}, "method"),
        ({"method": {"dampening": 0.1}}, "name"),
        ({"method": 3}, "method"),
        ({"calibration": {"dataset": "d", "samples": 3}}, "samples"),
        ({"calibration": {"num_samples": 3}}, "dataset"),
        ({"calibration": {"dataset": "d", "num_samples": 0}}, "num_samples"),
        ({"kv_cache": {"num_bits": 8, "kind": "float"}}, "kind"),
        ({"served_by": {"vllm": "a\nb"}}, "one line without control characters"),
        ({"served_by": {"v LLM": "a"}}, "served_by"),
        ({"code": "import os"}, "code"),
    ],
)
def test_a_faulty_scheme_says_what_is_wrong(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        scheme(**changes)


def test_all_faults_of_a_policy_are_told_at_once_with_their_places() -> None:
    rules: list[Any] = [
        {"role": "mlp", "use": "int8"},
        {"role": "attention", "use": "int4"},
        "keep-mtp",
        {"role": "attention", "use": "keep"},
        {"part": "text", "use": "default"},
    ]
    with pytest.raises(ValidationError) as caught:
        scheme(formats={"int4": INT4, "keep": INT4}, policy=rules)
    assert [(fault["loc"], fault["msg"]) for fault in caught.value.errors()] == [
        (("formats", "keep"), "the names keep and default are taken; choose another"),
        (("policy", 0, "rule", "use"), "int8 names no format of this scheme; it has int4, keep, and keep"),
        (("policy", 4, "rule", "use"), "default needs a scheme with one format; this one has int4, keep"),
    ]


@pytest.mark.parametrize(("use", "name"), [("keep", None), ("default", "int4"), ("int4", "int4")])
def test_the_format_that_a_rule_uses(use: str, name: str | None) -> None:
    assert scheme().format_name(use, "x[0]") == name
    with pytest.raises(ValueError, match=r"^x\[0\]: use: int8 names no format of this scheme; it has int4, and keep$"):
        scheme().format_name("int8", "x[0]")


def test_a_scheme_survives_json_and_its_digest_follows_content() -> None:
    first = scheme(policy=["keep-mtp", {"role": ["routed_expert"], "layers": "0-2,-1", "use": "int4"}])
    again = Scheme.model_validate(first.model_dump(mode="json"))
    assert again == first
    assert again.digest == first.digest
    assert scheme(summary="t").digest != scheme().digest


def test_remarks_on_engines_are_no_part_of_the_digest() -> None:
    told = scheme(served_by={"vllm": "Marlin"})
    assert told.digest == scheme().digest
    assert told.model_dump(mode="json")["served_by"] == {"vllm": "Marlin"}


@pytest.mark.parametrize(
    ("given", "name", "options", "written"),
    [
        ("rtn", "rtn", {}, "rtn"),
        ({"name": "rtn"}, "rtn", {}, "rtn"),
        ({"name": "gptq", "dampening": 0.1}, "gptq", {"dampening": 0.1}, {"name": "gptq", "dampening": 0.1}),
    ],
)
def test_a_method_is_a_name_or_a_mapping_with_options(given: Any, name: str, options: Any, written: Any) -> None:
    found = scheme(method=given)
    assert (found.method.name, found.method.options) == (name, options)
    assert found.model_dump(mode="json")["method"] == written
    assert Scheme.model_validate(found.model_dump(mode="json")) == found
    assert (found.digest == scheme().digest) == (written == "rtn")


def test_calibration_and_kv_cache_are_read() -> None:
    cache = {"num_bits": 8, "type": "float", "strategy": "tensor"}
    found = scheme(calibration={"dataset": "org/texts", "num_samples": 256}, kv_cache=cache)
    assert found.calibration is not None
    assert (found.calibration.dataset, found.calibration.num_samples) == ("org/texts", 256)
    assert found.kv_cache == Quantization.model_validate(cache)
    assert found.digest != scheme().digest
    assert Scheme.model_validate(found.model_dump(mode="json")) == found


def test_dtypes_are_torchs_names_with_or_without_the_module() -> None:
    plain = {"num_bits": 4, "type": "float", "group_size": 32, "scale_dtype": "uint8"}
    assert Quantization.model_validate(plain) == Quantization.model_validate({**plain, "scale_dtype": "torch.uint8"})
    with pytest.raises(ValidationError, match="float8_e4m3fn"):
        Quantization.model_validate({**plain, "scale_dtype": "e8m0"})


def test_every_dtype_is_one_that_compressed_tensors_reads() -> None:
    theirs = pytest.importorskip("compressed_tensors.quantization").QuantizationArgs
    for name in get_args(get_args(DtypeName)[0]):
        read = theirs.model_validate({"num_bits": 8, "type": "float", "strategy": "tensor", "scale_dtype": name})
        assert str(read.scale_dtype) == f"torch.{name}"


@pytest.mark.parametrize("path", sorted(schemes_folder().glob("*.yaml")), ids=lambda path: path.stem)
def test_compressed_tensors_reads_every_shipped_format_as_written(path: Path) -> None:
    theirs = pytest.importorskip("compressed_tensors.quantization").QuantizationArgs
    for found in load_scheme(path).formats.values():
        for values in filter(None, (found.weights, found.input_activations)):
            written = values.model_dump(mode="json", exclude={"narrow_range"}, exclude_unset=True)
            # A name of ours: to compressed-tensors it is any observer.
            read = theirs.model_validate(written).model_dump(mode="json")
            told = {name: str(read[name]).removeprefix("torch.") for name in written}
            assert told == {name: str(value).removeprefix("torch.") for name, value in written.items()}


def test_schemes_are_frozen() -> None:
    with pytest.raises(ValidationError):
        scheme().name = "other"  # type: ignore[misc]
