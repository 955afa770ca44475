"""vLLM generates, drafting with the MTP block, what it generates from the same checkpoint with its experts decoded."""

from __future__ import annotations

from collections.abc import Callable

from tests_engines.cases import Case, Output
from tests_engines.conftest import RunOf
from tests_engines.running import PROMPTS, TOKENS, VllmRun
from tests_engines.table import Table

#: For kernels that round activations to 8 bits; where INT4 experts are decoded after loading nothing may differ.
KERNEL_TOLERANCE = 0.05


def largest_difference(one: VllmRun, other: VllmRun) -> float:
    """Of the log-probabilities that both runs give for the same token at the same place; all where all are equal."""
    pairs = [
        (dict(found), dict(wanted))
        for prompt, plain in zip(one.logprobs, other.logprobs, strict=True)
        for found, wanted in zip(prompt, plain, strict=True)
    ]
    assert all(found.keys() & wanted.keys() for found, wanted in pairs)
    return max(abs(found[token] - wanted[token]) for found, wanted in pairs for token in found.keys() & wanted.keys())


def test_tokens_and_log_probabilities_equal_the_decoded_checkpoints(
    output: Output, vllm_run: RunOf, table: Table
) -> None:
    ours, plain = vllm_run(output.folder), vllm_run(output.plain)
    assert [len(tokens) for tokens in ours.tokens] == [TOKENS] * len(PROMPTS)
    assert len(set(ours.tokens[0])) > 1
    assert ours.tokens == plain.tokens
    difference = largest_difference(ours, plain)
    if ours.emulated:
        assert ours.logprobs == plain.logprobs
        assert ours.drafts == plain.drafts
        assert (ours.drafted, ours.accepted) == (plain.drafted, plain.accepted)
    assert difference <= (0 if ours.emulated else KERNEL_TOLERANCE)
    assert ours.drafted
    assert len({token for step in ours.drafts for token, _ in step}) > 1
    compared = f"{len(PROMPTS)} x {TOKENS} greedy tokens with MTP drafts, 5 log-probabilities each, to decoded experts"
    equal = "tokens, log-probabilities and the drafter's logits equal" if ours.emulated else "tokens equal"
    result = f"{equal}, largest difference {difference:g}; {ours.drafted} drafts, {ours.accepted} accepted"
    table.add("vLLM", output.case, compared, result)
    table.note(f"INT4 experts in vLLM on this machine: {'; '.join(ours.kernels)}")


def test_the_drafter_uses_its_experts(output_of: Callable[[Case], Output], vllm_run: RunOf) -> None:
    """With an equal trunk, packed or kept experts of the MTP block give equal text and other drafts."""
    quantized, kept = (vllm_run(output_of(Case(mtp_kept, "fused")).folder) for mtp_kept in (False, True))
    assert quantized.tokens == kept.tokens
    assert quantized.drafts != kept.drafts
