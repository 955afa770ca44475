"""It is found as any guest's distribution is, and costs nothing until it is used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from schemegen_llmcompressor import LlmCompressorRtn

import schemegen
from schemegen.testing import check_plugin


def test_the_entry_point_registers_the_backend(sample: Path) -> None:
    check_plugin("llmcompressor", backends=["llmcompressor-rtn"])
    backend, plan = LlmCompressorRtn(), schemegen.plan("kimi-k2-int4", sample)
    assert set(backend.versions) == {"llmcompressor", "compressed-tensors", "torch"}
    assert backend.same_bits_as(plan) == "llm-compressor"


def test_importing_it_imports_nothing_heavy() -> None:
    code = (
        "import sys; before = set(sys.modules); import schemegen_llmcompressor; "
        "print(*sorted({name.partition('.')[0] for name in set(sys.modules) - before}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "schemegen_llmcompressor" in loaded
    assert loaded & {"torch", "llmcompressor", "compressed_tensors", "transformers", "numpy", "numba"} == set()
