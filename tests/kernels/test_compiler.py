from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import types
from numba.core import config

from schemegen.kernels import native
from schemegen.kernels.compiler import Source, emit

SIGNATURE = types.int64(types.CPointer(types.uint32), types.int64)


def total(values: Any, count: int) -> int:
    result = 0
    for i in range(count):
        result += values[i]
    return result


def total_of_a_copy(values: Any, count: int) -> int:
    copy = np.empty(count, np.uint32)
    for i in range(count):
        copy[i] = values[i]
    return int(copy.sum())


def test_code_defines_the_symbol_and_leaves_numba_as_it_was() -> None:
    level = config.OPT
    code = emit(Source(total, SIGNATURE), "total_of_words", native.target_machine())
    assert b"total_of_words" in code
    assert config.OPT is level


def test_a_kernel_that_needs_numba_at_run_time_is_refused() -> None:
    level = config.OPT
    with pytest.raises(TypeError, match=r"the kernel calls .*NRT"):
        emit(Source(total_of_a_copy, SIGNATURE), "copy", native.target_machine())
    assert config.OPT is level
