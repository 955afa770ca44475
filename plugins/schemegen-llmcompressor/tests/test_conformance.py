"""The backend keeps the contract of all backends."""

from __future__ import annotations

import pytest
from schemegen_llmcompressor import LlmCompressorRtn

from schemegen import Format
from schemegen.formats.words import in_short
from schemegen.testing import check_backend

#: One of integers in groups, one with zero points, one with a scale a layer: all formats take over a minute.
WORDS = {"INT4 g32", "INT4 g32 asymmetric", "NVFP4"}


class Some(LlmCompressorRtn):
    """The backend, in three formats."""

    def refuses(self, format: Format) -> str | None:
        return super().refuses(format) if in_short(format) in WORDS else "is not asked here"


@pytest.mark.usefixtures("in_process")
def test_it_conforms() -> None:
    assert set(check_backend(Some)) == WORDS
