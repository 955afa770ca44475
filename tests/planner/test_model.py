"""What a plan says of itself: the formats it uses, the modules and pieces of its outputs."""

from __future__ import annotations

from pathlib import Path

import schemegen
from schemegen.planner import Action


def test_formats_used_are_those_of_quantized_tensors(sample_folder: Path) -> None:
    kimi = schemegen.plan("kimi-k2-int4", sample_folder).scheme
    formats = {"unused": {"num_bits": 8, "strategy": "channel"}, **kimi.model_dump(mode="json")["formats"]}
    changes = {"formats": formats, "policy": [{"role": "routed_expert", "use": "int4"}]}
    scheme = schemegen.Scheme.model_validate(kimi.model_dump(mode="json") | changes)
    plan = schemegen.plan(scheme, sample_folder)
    assert dict(plan.formats_used) == {"int4": plan.scheme.formats["int4"]}


def test_every_output_is_a_piece_of_a_module(sample_folder: Path) -> None:
    for tensor in schemegen.plan("kimi-k2-int4", sample_folder).tensors:
        if tensor.action is Action.QUANTIZE:
            assert len(set(tensor.modules)) == len(tensor.modules) == tensor.matrices
            assert [piece.suffix for piece in tensor.pieces] == ["weight_packed", "weight_scale", "weight_shape"]
            assert {output.name for output in tensor.outputs} == {
                f"{module}.{piece.suffix}" for module in tensor.modules for piece in tensor.pieces
            }
