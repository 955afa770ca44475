"""Uses in words: what the rules of engines compare, and what notes say."""

from __future__ import annotations

from typing import Any

import pytest

from schemegen.architectures.base import Part
from schemegen.engines.uses import UNQUANTIZED, Kind, Use
from schemegen.formats import storage_of
from schemegen.scheme import Format

INT4 = {"num_bits": 4, "strategy": "group", "group_size": 32}
BLOCK = {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [64, 128]}


def use_of(weights: Any, activations: Any = None, kind: Kind = Kind.LINEAR) -> Use:
    format = Format.model_validate({"weights": weights, "input_activations": activations})
    storage = storage_of(format)
    return Use(kind, format, storage, storage, frozenset(), frozenset(), frozenset({Part.TEXT}))


@pytest.mark.parametrize(
    ("activations", "told"),
    [
        (None, UNQUANTIZED),
        ({"num_bits": 8, "strategy": "token", "dynamic": True}, "INT8 by token"),
        ({"num_bits": 4, "strategy": "token", "symmetric": False, "dynamic": True}, "asymmetric INT4 by token"),
        ({"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": True}, "FP8 by tensor"),
        ({"num_bits": 8, "type": "float", "group_size": 32, "dynamic": True}, "FP8 by group of 32"),
        ({"num_bits": 8, "type": "float", "group_size": 128, "dynamic": True}, "FP8 by group, as wide as a block"),
    ],
)
def test_activations(activations: Any, told: str) -> None:
    assert use_of(BLOCK, activations).activations == told


def test_weights() -> None:
    assert use_of(BLOCK).words == "float-quantized weights by block"
    assert use_of(INT4, kind=Kind.EXPERTS).words == "pack-quantized experts by group"
    assert use_of(INT4).integers == "INT4 in groups of 32"
    assert use_of({"num_bits": 8, "strategy": "channel", "symmetric": False}).integers == "asymmetric INT8"
