"""The engines' own parsers take the command lines of a card, with every flag added that it offers."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable

import pytest

from schemegen.architectures.qwen3_5_moe import QWEN3_5_MOE
from schemegen.engines.serving import PORT
from tests_engines.cases import CASES, Case, Output
from tests_engines.running import ROOT
from tests_engines.sglang_source import argument_parser
from tests_engines.table import Table

#: No part of the sample's card: its vocabulary has no mark for the end of thoughts.
REASONING = ["--reasoning-parser", str(QWEN3_5_MOE.reasoning_parser)]


@pytest.fixture
def output(output_of: Callable[[Case], Output]) -> Output:
    """One does: all four cards have these lines."""
    return output_of(CASES[0])


def words_of(output: Output, engine: str) -> list[str]:
    """The words of an engine's command line in the card of an output, with all that may be added."""
    card = (output.folder / "README.md").read_text()
    (block,) = re.findall(rf"^### {engine}\n+```bash\n(.*?)^```", card, re.MULTILINE | re.DOTALL)
    lines = [line for line in block.splitlines() if line.startswith("#   --") or not line.startswith("#")]
    assert sum(line.startswith("#") for line in lines) == 2
    return [*shlex.split(" ".join(line.strip("#\\") for line in lines)), *REASONING]


def test_vllm_takes_it(output: Output, table: Table) -> None:
    vllm, serve, *words = words_of(output, "vLLM")
    assert (vllm, serve) == ("vllm", "serve")
    command = [sys.executable, "-m", "tests_engines.vllm_arguments", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "model": "model-kimi-k2-int4",
        "max_model_len": 4096,
        "tensor_parallel_size": 1,
        "language_model_only": True,
        "speculative_config": {"method": "mtp", "num_speculative_tokens": 1},
        "knows_reasoning_parser": True,
    }
    table.add("vLLM", output.case, "the card's command line with all flags, by its parser", "taken")


def test_sglang_takes_it(output: Output, table: Table) -> None:
    python, m, module, *words = words_of(output, "SGLang")
    assert (python, m, module) == ("python", "-m", "sglang.launch_server")
    parsed = argument_parser().parse_args(words)
    assert (parsed.model_path, parsed.port, parsed.tp_size) == ("model-kimi-k2-int4", PORT, 1)
    assert (parsed.context_length, parsed.language_model_only, parsed.speculative_num_steps) == (4096, True, 3)
    table.add("SGLang", output.case, "the card's command line with all flags, by the fields it declares", "taken")


def test_an_unknown_flag_would_be_seen() -> None:
    with pytest.raises(SystemExit):
        argument_parser().parse_args(["--speculative-num-step", "3"])
