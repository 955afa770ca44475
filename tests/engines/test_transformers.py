"""transformers loads an output like the same weights decoded by hand: nothing missing, logits equal to the bit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests_engines.cases import CASES, Case, make
from tests_engines.transformers_run import run_transformers


@pytest.mark.parametrize("case", CASES, ids=str)
def test_logits_equal_those_of_the_decoded_checkpoint(tmp_path: Path, case: Case) -> None:
    for name in ("compressed_tensors", "transformers"):
        pytest.importorskip(name)
    torch = pytest.importorskip("torch")
    output = make(case, tmp_path)
    ours, plain = run_transformers(output.folder), run_transformers(output.plain)
    assert (ours.missing, ours.unexpected) == ([], [])
    assert torch.equal(ours.logits, plain.logits)
