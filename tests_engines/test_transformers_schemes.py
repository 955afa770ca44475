"""transformers decodes the experts of every built-in scheme that it takes as we do, and says which it does not take."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests_engines.schemes import NAMES, SchemeCase, SchemeOutput, write_plain
from tests_engines.table import Table
from tests_engines.transformers_run import run_transformers

Outputs = dict[SchemeCase, SchemeOutput]


@pytest.fixture(scope="module")
def seen() -> dict[str, str]:
    """Schemes by what they declare and hold negative scales: of several that are alike to a reader one is loaded."""
    return {}


@pytest.mark.parametrize("name", NAMES)
def test_experts_are_the_ones_we_decode(
    name: str, scheme_outputs: Outputs, seen: dict[str, str], tmp_path: Path, table: Table
) -> None:
    import torch

    output = scheme_outputs[SchemeCase(name, "fused")]
    if notes := [note for note in output.plan.notes if "transformers" in note]:
        table.scheme(name, "transformers", notes[0].partition("transformers 5.17 ")[2])
        pytest.skip(notes[0])
    signed = any(format.weights.observer == "signed_mse" for format in output.plan.formats_used.values())
    alike = seen.setdefault(json.dumps([output.block, signed]), name)
    if alike != name:
        table.scheme(name, "transformers", f"as {alike}")
        pytest.skip(f"a reader sees {alike}")
    ours, plain = run_transformers(output.folder), run_transformers(write_plain(output, tmp_path / "plain", fused=True))
    assert (ours.missing, ours.unexpected) == ([], [])
    assert ours.experts.keys() == plain.experts.keys()
    assert [key for key, found in ours.experts.items() if not torch.equal(found, plain.experts[key])] == []
    quantized = any(format.input_activations for format in output.plan.formats_used.values())
    if not quantized:
        assert torch.equal(ours.logits, plain.logits)
    table.scheme(name, "transformers", "experts equal ours decoded" + ("" if quantized else ", logits too"))


@pytest.mark.parametrize("name", ["fp8-block", "mxfp8", "nvfp4a16-experts", "w4a16-g128-asym"])
def test_what_is_noted_is_so(name: str, scheme_outputs: Outputs) -> None:
    """It raises, or has no use for a tensor without which nothing can be decoded."""
    folder = scheme_outputs[SchemeCase(name, "fused")].folder
    if name == "nvfp4a16-experts":
        assert run_transformers(folder).unexpected
    else:
        with pytest.raises(RuntimeError, match="conversion"):
            run_transformers(folder)
