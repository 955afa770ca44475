"""What a scheme asks for is held to what backends offer, before anything starts, in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest
from pydantic import BaseModel, Field

from schemegen import Plan, Scheme, WeightBackend, api
from schemegen.backends.base import Buffers, Weights
from schemegen.backends.guard import GuardedBackend
from schemegen.backends.native_rtn import NativeRtn
from schemegen.backends.offers import check_offers
from schemegen.errors import PluginError, SchemegenError, UnknownNameError, UnsupportedError
from schemegen.loader import load_scheme
from schemegen.scheme import Format

INT4 = {"num_bits": 4, "group_size": 32}


class Options(BaseModel):
    """What a method with options may be told."""

    dampening: float = Field(0.01, gt=0)
    order: Literal["rows", "columns"] = "rows"


class Gptq(WeightBackend):
    """A backend of another method, which takes 4-bit weights."""

    name: ClassVar[str] = "acme-gptq"
    method: ClassVar[str] = "gptq"
    options: ClassVar[type[BaseModel] | None] = Options

    def refuses(self, format: Format) -> str | None:
        return None if format.weights.num_bits == 4 else "offers 4 bits only"

    def quantize(self, weights: Weights, format: Format, out: Buffers) -> None:
        raise NotImplementedError


class Broken(NativeRtn):
    """A guest whose class says a method that is no text."""

    name: ClassVar[str] = "broken"
    method: ClassVar[str] = 3  # type: ignore[assignment]


class BadOptions(Gptq):
    """A guest whose options are no model."""

    name: ClassVar[str] = "bad-options"
    options: ClassVar[type[BaseModel] | None] = {"dampening": float}  # type: ignore[assignment]


NATIVE, GPTQ = GuardedBackend(NativeRtn(), "schemegen"), GuardedBackend(Gptq(), "acme 1.0")
BROKEN, BAD_OPTIONS = GuardedBackend(Broken(), "bad 0.1"), GuardedBackend(BadOptions(), "bad 0.1")
ALL = (GPTQ, BROKEN, NATIVE)


@pytest.fixture(scope="module")
def base(sample_folder: Path) -> Plan:
    return api.plan("kimi-k2-int4", sample_folder)


def planned(base: Plan, **changes: Any) -> Plan:
    return replace(base, scheme=Scheme.model_validate(base.scheme.model_dump(mode="json") | changes))


def refusal(plan: Plan, backends: Sequence[GuardedBackend] = ALL, chosen: GuardedBackend | None = None) -> str:
    with pytest.raises(SchemegenError) as caught:
        check_offers(plan, backends, chosen)
    assert isinstance(caught.value, UnsupportedError | UnknownNameError)
    return str(caught.value)


def test_what_is_offered_passes(base: Plan) -> None:
    check_offers(base, ALL)
    check_offers(base, ALL, NATIVE)
    check_offers(planned(base, method={"name": "gptq", "dampening": 0.1}), ALL, GPTQ)
    check_offers(planned(base, method="gptq"), ALL)


def test_a_method_that_nobody_has_is_an_unknown_name(base: Plan) -> None:
    told = refusal(planned(base, method="gtpq"))
    assert told == "unknown method of scheme kimi-k2-int4: 'gtpq': did you mean gptq?"


def test_a_chosen_backend_without_the_method_is_told_who_has_it(base: Plan) -> None:
    told = refusal(planned(base, method="gptq"), chosen=NATIVE)
    assert told.startswith("backend native-rtn has no method gptq, which scheme kimi-k2-int4 asks for; ")
    assert told.endswith("choose one that has it: acme-gptq")


@pytest.mark.parametrize("chosen", [None, NATIVE])
def test_a_method_without_options_refuses_each_by_name(base: Plan, chosen: GuardedBackend | None) -> None:
    told = refusal(planned(base, method={"name": "rtn", "seed": 3, "steps": 17}), chosen=chosen)
    assert told.startswith("scheme kimi-k2-int4, method rtn of backend native-rtn: method.seed: this method takes no ")
    assert "; method.steps: this method takes no options" in told


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"dampning": 0.1}, "method.dampning: unknown option; did you mean dampening?"),
        ({"zzz": 1}, "method.zzz: unknown option; known are dampening, order"),
        ({"dampening": 0}, "method.dampening: input should be greater than 0"),
        ({"order": "diagonal"}, "method.order: input should be 'rows' or 'columns'"),
    ],
)
def test_faulty_options_name_scheme_method_and_field(base: Plan, options: dict[str, Any], told: str) -> None:
    for chosen in (None, GPTQ):
        said = refusal(planned(base, method={"name": "gptq", **options}), chosen=chosen)
        assert said == f"scheme kimi-k2-int4, method gptq of backend acme-gptq: {told}"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"calibration": {"dataset": "org/texts"}}, "says calibration, but no backend looks at data"),
        ({"kv_cache": {"type": "float", "strategy": "tensor"}}, "says kv_cache, but no backend makes scales"),
    ],
)
def test_what_is_read_and_not_taken_yet_is_refused(base: Plan, changes: dict[str, Any], told: str) -> None:
    assert f"scheme kimi-k2-int4 {told}" in refusal(planned(base, **changes))


def test_a_format_is_refused_with_all_reasons_or_with_who_takes_it(base: Plan) -> None:
    odd = planned(base, formats={"int4": {**INT4, "observer": "histogram"}})
    assert refusal(odd).startswith("no backend takes format 'int4' of scheme kimi-k2-int4: native-rtn does not offer ")
    twin = GuardedBackend(type("Twin", (Gptq,), {"name": "twin", "method": "rtn", "options": None})(), "acme 1.0")
    told = refusal(odd, (NATIVE, twin), NATIVE)
    assert told.startswith("backend native-rtn refuses format 'int4': it does not offer the observer histogram")
    assert told.endswith("; choose one that takes it: twin")


def test_a_broken_backend_is_blamed_where_it_is_chosen_and_passed_over_elsewhere(base: Plan) -> None:
    with pytest.raises(PluginError, match=r"backend broken.*method returned int, not str"):
        check_offers(base, ALL, BROKEN)
    gptq = planned(base, method={"name": "gptq", "dampening": 0.1})
    check_offers(gptq, (BAD_OPTIONS, GPTQ))
    with pytest.raises(PluginError, match=r"backend bad-options.*options returned dict, not type"):
        check_offers(gptq, (BAD_OPTIONS, GPTQ), BAD_OPTIONS)


def test_plan_and_apply_refuse_before_anything_starts(sample_folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    text = "schema_version: 1\nname: mine\nsummary: s\nformats: {int4: {num_bits: 4, group_size: 32}}\n"
    path.write_text(text + "policy: experts-only\nmethod: {name: rtn, seed: 1}\n")
    assert load_scheme(path).method.options == {"seed": 1}
    for call in (lambda: api.plan(path, sample_folder), lambda: api.apply(path, sample_folder, tmp_path / "out")):
        with pytest.raises(UnsupportedError, match=r"scheme mine, method rtn of backend [a-z0-9-]+: method\.seed: "):
            call()
    assert [found.name for found in tmp_path.iterdir()] == ["mine.yaml"]
