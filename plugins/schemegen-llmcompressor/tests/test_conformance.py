"""The backend keeps the contract of all backends."""

from __future__ import annotations

import pytest
from schemegen_llmcompressor import LlmCompressorRtn

from schemegen import Format
from schemegen.testing import check_backend

#: One of integers in groups, one with zero points, one with a scale a layer: all formats take over a minute.
FORMATS = {
    "INT4 g32": {"num_bits": 4, "group_size": 32},
    "INT4 g32 asymmetric": {"num_bits": 4, "group_size": 32, "symmetric": False},
    "NVFP4": {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16},
}
ASKED = [Format.model_validate(fields) for fields in FORMATS.values()]


class Some(LlmCompressorRtn):
    """The backend, in three formats."""

    def refuses(self, format: Format) -> str | None:
        return super().refuses(format) if format in ASKED else "is not asked here"


@pytest.mark.usefixtures("in_process")
def test_it_conforms() -> None:
    assert set(check_backend(Some)) == {*FORMATS}
