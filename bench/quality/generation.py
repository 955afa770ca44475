"""Greedy generation by vLLM's CPU build with its own MTP drafter: tokens, log-probabilities, drafts accepted."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "TORCHDYNAMO_DISABLE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_CPU_INT4_W4A8": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
}
"""What vLLM needs to be told before it is imported: offline, in one process, its INT4 kernels on where it has some.

Small models run best on one thread, and before a compiler is done with them they are.
"""


@dataclass(frozen=True, slots=True)
class Request:
    """What to generate: a checkpoint, prompts as token ids, tokens for each.

    `text_only` leaves out vision tower, processor and tokenizer; `drafts` is how many tokens the MTP block drafts.
    """

    model: str
    prompts: list[list[int]]
    max_tokens: int
    drafts: int = 1
    text_only: bool = True


@dataclass(frozen=True, slots=True)
class Generated:
    """Token ids and the log-probabilities of the most probable tokens, by prompt and position; drafts by count."""

    tokens: list[list[int]]
    logprobs: list[list[list[tuple[int, float]]]]
    drafted: int
    accepted: int

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def load(request: Request) -> Any:
    """vLLM's LLM of a request; the environment has to be set before anything of vLLM is imported."""
    os.environ.update(ENVIRONMENT)
    from vllm import LLM

    speculative = {"method": "mtp", "num_speculative_tokens": request.drafts} if request.drafts else None
    text_only = {"language_model_only": True, "skip_tokenizer_init": True} if request.text_only else {}
    return LLM(
        request.model,
        dtype="bfloat16",
        max_model_len=512,
        enforce_eager=True,
        # The copies it makes for Mamba layers need Triton, which a CPU has not.
        enable_prefix_caching=False,
        speculative_config=speculative,
        disable_log_stats=False,
        **text_only,
    )


def generate(llm: Any, request: Request) -> Generated:
    """Run a request to its end, no end-of-text token heeded."""
    from vllm import SamplingParams

    sampling = SamplingParams(
        temperature=0, max_tokens=request.max_tokens, logprobs=5, ignore_eos=True, detokenize=False
    )
    results = llm.generate([{"prompt_token_ids": prompt} for prompt in request.prompts], sampling, use_tqdm=False)
    outputs = [result.outputs[0] for result in results]
    return Generated(
        [list(output.token_ids) for output in outputs],
        [[_ranked(position) for position in output.logprobs] for output in outputs],
        _counter(llm, "vllm:spec_decode_num_draft_tokens"),
        _counter(llm, "vllm:spec_decode_num_accepted_tokens"),
    )


def _ranked(position: dict[int, Any]) -> list[tuple[int, float]]:
    return sorted(((token, found.logprob) for token, found in position.items()), key=lambda item: (-item[1], item[0]))


def _counter(llm: Any, name: str) -> int:
    return int(sum(metric.value for metric in llm.get_metrics() if metric.name == name))


def byte_prompts(path: Path, count: int, length: int, step: int) -> list[list[int]]:
    """Prompts of `length` bytes of a file, one every `step` bytes from its start, as token ids."""
    data = path.read_bytes()
    return [list(data[start : start + length]) for start in range(0, count * step, step)]
