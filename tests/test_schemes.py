"""Every scheme that ships: what becomes of each kind of tensor (tests/cases), and the whole plan (tests/golden).

A case file is written by hand: it says what the scheme means. A golden file is what the planner made of it on a small
checkpoint's layout; after a change that is meant, `SCHEMEGEN_GOLDEN=write pytest tests/test_schemes.py` writes them
again, and the difference is what to look at.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bench.checkpoints import SMALL
from bench.schemes import RECKONED, headers_of, plan_of, schemes
from schemegen.catalog import load_catalog
from schemegen.data import schemes_folder
from schemegen.formats import rounding_fault
from schemegen.formats.words import in_short
from schemegen.planner import Plan, PlannedTensor
from schemegen.rule import Rule
from schemegen.scheme import Scheme
from schemegen.testing import check_case

TESTS = Path(__file__).parent
FUSED = headers_of(SMALL)
ALONE = headers_of(replace(SMALL, fused_trunk=False, fused_mtp=False))
CATALOG = load_catalog()
SCHEMES = schemes()
NAMES = [scheme.name for scheme in SCHEMES]
KIMI = ("kimi-k2-int4", "kimi-k2-int4-exact")
NUMBER = re.compile(r"\.\d+(?=\.)")

each_scheme = pytest.mark.parametrize("scheme", SCHEMES, ids=NAMES)


def plan(scheme: Scheme) -> Plan:
    return plan_of(scheme, FUSED, CATALOG)


def test_every_file_is_a_scheme_with_a_case_and_a_golden_plan() -> None:
    files = {path.stem for path in schemes_folder().glob("*.yaml")}
    assert set(NAMES) == files == set(RECKONED)
    assert {path.stem for path in (TESTS / "cases").glob("*.yaml")} == files
    assert {path.stem for path in (TESTS / "golden").glob("*.txt")} == files


@each_scheme
def test_each_kind_of_tensor_has_the_role_and_the_format_of_the_case(scheme: Scheme) -> None:
    check_case(TESTS / "cases" / f"{scheme.name}.yaml", scheme)


@each_scheme
def test_the_whole_plan_is_the_golden_one(scheme: Scheme) -> None:
    path = TESTS / "golden" / f"{scheme.name}.txt"
    text = "\n".join(golden(plan(scheme))) + "\n"
    if os.environ.get("SCHEMEGEN_GOLDEN") == "write":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def golden(plan: Plan) -> Iterator[str]:
    """A plan in lines: formats, rules, a row for each part, role and format, a line a kind of quantized tensor."""
    rows = json.loads(plan.to_json())["tensors"]
    digest = hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()
    yield from (f"format {name}: {in_short(found)}" for name, found in plan.formats_used.items())
    yield from (f"rule {rule.label}: {rule.format or 'keep'}" for rule in plan.rules)
    totals = plan.totals
    yield f"tensors {totals.tensors_in} to {totals.tensors_out}, bytes {totals.bytes_in} to {totals.bytes_out}"
    for row in totals.by_role:
        counts = f"{row.tensors_in} to {row.tensors_out}, bytes {row.bytes_in} to {row.bytes_out}"
        yield f"{row.part} {row.role} {row.format or 'kept'}: tensors {counts}"
    yield from dict.fromkeys(_kind(tensor) for tensor in plan.tensors if tensor.format is not None)
    yield f"sha256 of all tensors, their outputs and places: {digest}"


def _kind(tensor: PlannedTensor) -> str:
    pieces = ", ".join(f"{piece.suffix} {piece.dtype} {list(piece.shape)}" for piece in tensor.pieces)
    source = f"{tensor.source.dtype} {list(tensor.source.shape)}"
    return f"{NUMBER.sub('.*', tensor.name)} {source} as {tensor.format}, {tensor.matrices} times {pieces}"


@each_scheme
def test_experts_stored_one_by_one_become_the_same_tensors(scheme: Scheme) -> None:
    def stored(plan: Plan) -> set[tuple[str, str, tuple[int, ...]]]:
        quantized = (tensor for tensor in plan.tensors if tensor.format is not None)
        return {(output.name, output.dtype, output.shape) for tensor in quantized for output in tensor.outputs}

    assert stored(plan_of(scheme, ALONE, CATALOG)) == stored(plan(scheme))


@each_scheme
def test_only_kimis_schemes_touch_the_mtp_block(scheme: Scheme) -> None:
    touched = {tensor.role for tensor in plan(scheme).tensors if tensor.format is not None and tensor.part == "mtp"}
    assert touched == ({"routed_expert"} if scheme.name in KIMI else set())
    assert scheme.name in KIMI or scheme.policy[0] == "keep-mtp"


@each_scheme
def test_every_rule_decides_something_and_every_format_is_handed_out(scheme: Scheme) -> None:
    made = plan(scheme)
    assert made.notes == ()
    assert set(made.formats_used) == set(scheme.formats)


@each_scheme
def test_it_is_data_free_and_says_where_it_comes_from_and_who_serves_it(scheme: Scheme) -> None:
    assert [rounding_fault(found) for found in scheme.formats.values() if rounding_fault(found)] == []
    assert scheme.reference is not None
    assert scheme.reference.startswith("https://")
    assert "vllm" in scheme.served_by
    assert scheme.method.name == "rtn"
    assert not any(isinstance(entry, Rule) and entry.name for entry in scheme.policy)


def test_the_digest_of_a_published_scheme_stays() -> None:
    """It is in manifests and journals: another one would make finished outputs stale."""
    digest = CATALOG.schemes.get("kimi-k2-int4").digest
    assert digest == "1fae33b078d9831281ff0437949e87b0f10fd8c590aec67e5671d88e977a47a3"
