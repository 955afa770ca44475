"""The page on formats: each line of its table is a format of that storage, and no storage is missing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from schemegen.formats import rounding_fault, storage_of
from schemegen.scheme import Format

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "formats.md"
TOKEN = {"num_bits": 8, "type": "int", "strategy": "token", "symmetric": True, "dynamic": True}
LINE = re.compile(r"^\| `([a-z0-9-]+)` \| `(\{num_bits.*?\})`( and `input_activations`)? \|", re.MULTILINE)
FORMATS = LINE.findall(PAGE.read_text(encoding="utf-8"))


def test_every_storage_is_told() -> None:
    assert [storage for storage, _, _ in FORMATS] == [
        "pack-quantized",
        "int-quantized",
        "float-quantized",
        "nvfp4-pack-quantized",
        "mxfp4-pack-quantized",
        "mxfp8-quantized",
    ]


@pytest.mark.parametrize(("storage", "weights", "activations"), FORMATS)
def test_each_line_is_a_format_of_that_storage(storage: str, weights: str, activations: str) -> None:
    told = {"weights": yaml.safe_load(weights)} | ({"input_activations": TOKEN} if activations else {})
    format = Format.model_validate(told)
    assert (storage_of(format), rounding_fault(format)) == (storage, None)
