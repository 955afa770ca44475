"""transformers of this environment: as `tests/engines/test_transformers.py`, for the table."""

from __future__ import annotations

from tests_engines.cases import Output
from tests_engines.table import Table
from tests_engines.transformers_run import TOKENS, run_transformers


def test_logits_equal_those_of_the_decoded_checkpoint(output: Output, table: Table) -> None:
    import torch

    ours, plain = run_transformers(output.folder), run_transformers(output.plain)
    assert (ours.missing, ours.unexpected) == ([], [])
    assert torch.equal(ours.logits, plain.logits)
    table.add(
        "transformers",
        output.case,
        f"logits at {TOKENS} places to decoded experts; tensors",
        "bits equal; none missing or unexpected",
    )
