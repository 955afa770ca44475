"""Speeds by format: every case is a scheme that plans, and is what llm-compressor is told of."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import schemegen
from bench.formats import CASES, NO_LIKE, _written
from bench.process import ROOT
from schemegen import load_scheme
from schemegen.checkpoint.sample import write_sample
from schemegen.formats import storage_of
from schemegen.peer import rounding_difference, scheme_words
from schemegen.scheme import Format

STORAGES = {
    "pack-quantized",
    "int-quantized",
    "float-quantized",
    "nvfp4-pack-quantized",
    "mxfp4-pack-quantized",
    "mxfp8-quantized",
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("formats") / "model"
    write_sample("qwen3.6-moe", folder)
    return folder


@pytest.mark.parametrize("name", CASES)
def test_a_case_is_a_scheme_file_of_one_format(name: str, tmp_path: Path, source: Path) -> None:
    path = _written(tmp_path / "scheme", name, CASES[name])
    (format,) = load_scheme(path).formats.values()
    assert format == Format.model_validate(CASES[name].fields)
    told = Format.model_validate(CASES[name].peer or CASES[name].fields)
    assert rounding_difference(told) is None
    assert json.loads(json.dumps(scheme_words(told)))["format"] == storage_of(format)


def test_one_that_its_side_has_not_is_told_as_another() -> None:
    assert {name for name, case in CASES.items() if case.peer} == {
        name for name, case in CASES.items() if case.bits == NO_LIKE
    }


def test_every_storage_is_measured() -> None:
    assert {storage_of(Format.model_validate(case.fields)) for case in CASES.values()} == STORAGES


def test_the_other_side_takes_no_module_that_experts_only_keeps(source: Path) -> None:
    """Its one pattern picks what the policy does."""
    from schemegen.engines import matches

    (pattern,) = [line for line in (ROOT / "bench" / "peer_format.py").read_text().splitlines() if "re:" in line]
    targets = [pattern.partition('r"')[2].partition('"')[0]]
    plan = schemegen.plan("kimi-k2-int4", source)
    for tensor in plan.tensors:
        names = tensor.modules if tensor.format else [tensor.name.removesuffix(".weight")]
        assert all(matches(name, targets) == (tensor.format is not None) for name in names), tensor.name
