"""The OpenAI-compatible server on an output, drafting with its MTP block, and a chat by the openai client."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests_engines.cases import CASES, Case, Output
from tests_engines.serving import metrics, served
from tests_engines.table import Table

TOKENS = 16
QUESTION = "Give me a fun fact about the ocean."


def chat(address: str, model: Path) -> Any:
    """One chat completion, greedy."""
    from openai import OpenAI

    with OpenAI(base_url=f"{address}/v1", api_key="none", timeout=60, max_retries=0) as client:
        return client.chat.completions.create(
            model=str(model),
            messages=[{"role": "user", "content": QUESTION}],
            max_tokens=TOKENS,
            temperature=0,
            extra_body={"ignore_eos": True},
        )


@pytest.mark.parametrize("fused_case", [case for case in CASES if case.experts == "fused"], ids=str)
def test_a_chat_is_answered_with_drafts(
    fused_case: Case, output_of: Callable[[Case], Output], tmp_path: Path, table: Table
) -> None:
    output = output_of(fused_case)
    with served(output.folder, tmp_path / "server.log") as address:
        completion = chat(address, output.folder)
        counted = metrics(address)
    assert completion.usage.completion_tokens == TOKENS
    assert completion.choices[0].finish_reason == "length"
    assert completion.choices[0].message.role == "assistant"
    drafts = counted["vllm:spec_decode_num_draft_tokens_total"]
    assert drafts > 0
    accepted = counted["vllm:spec_decode_num_accepted_tokens_total"]
    result = f"{TOKENS} tokens; /metrics: {drafts:g} drafts, {accepted:g} accepted"
    table.add("vLLM server", fused_case, "a chat completion by the openai client, MTP drafts on", result)
    answer = json.dumps(completion.model_dump(exclude_none=True) | {"model": output.folder.name}, indent=2)
    table.note(f"Chat completion, {fused_case}:\n\n```json\n{answer}\n```")
