"""vLLM's own loader puts trunk and MTP block where they belong: every expert ours decoded, no parameter left out."""

from __future__ import annotations

import numpy as np

from tests_engines.cases import Bits, Output, bits, decoded_tensors, stacked, stored_tensors
from tests_engines.conftest import RunOf
from tests_engines.running import VllmRun
from tests_engines.table import Table


def our_experts(output: Output, run: VllmRun) -> dict[str, Bits]:
    """Our own decoding of every expert in vLLM's arrangement, by vLLM's name of the layer's experts."""
    stored = stored_tensors(output.folder)
    found = {}
    for name, tensor in stacked(decoded_tensors(stored)).items():
        module, _, last = name.rpartition(".")
        if module.endswith(".experts"):
            prefix = next(new for old, new in run.renamed.items() if old.startswith(f"{module}."))
            key = {"gate_up_proj": "w13", "down_proj": "w2"}[last]
            found[f"{prefix[: prefix.index('.experts.')]}.experts.{key}"] = bits(tensor)
    return found


def test_every_expert_is_the_one_we_decode(output: Output, vllm_run: RunOf, table: Table) -> None:
    run = vllm_run(output.folder)
    ours = our_experts(output, run)
    assert run.experts.keys() == ours.keys()
    differing = [name for name, found in run.experts.items() if not np.array_equal(found, ours[name])]
    assert differing == []
    layers = sorted({name.removesuffix(".experts.w13") for name in ours if name.endswith(".w13")})
    assert any(name.startswith("mtp.") for name in layers)
    experts = sum(len(found) for name, found in ours.items() if name.endswith(".w13"))
    compared = f"{experts} experts of {len(layers)} layers, MTP's too, as its loader left them"
    table.add("vLLM", output.case, compared, "bits equal ours decoded")


def test_no_parameter_of_trunk_or_drafter_is_left_out(output: Output, vllm_run: RunOf, table: Table) -> None:
    assert vllm_run(output.folder).missing == []
    table.add("vLLM", output.case, "parameters, NaN before loading, that still held one after", "none")
