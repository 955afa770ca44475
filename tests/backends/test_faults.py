"""What a device refuses becomes one sentence; everything else passes unchanged."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from schemegen.backends.faults import device_faults
from schemegen.errors import OutputError

JOB: Any = SimpleNamespace(device="cuda:1")


class OutOfMemoryError(RuntimeError):
    """As torch names it."""


class AcceleratorError(RuntimeError):
    """As torch names it."""


@pytest.mark.parametrize(
    "error",
    [
        OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be reported later"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes"),
    ],
)
def test_a_full_device_says_how_to_go_on(error: RuntimeError) -> None:
    with pytest.raises(OutputError) as caught, device_faults(JOB):
        raise error
    assert str(caught.value) == (
        "cuda:1 has not enough free memory; run the same command again to go on, with fewer --jobs or another --device"
    )


@pytest.mark.parametrize("kind", [AcceleratorError, RuntimeError])
def test_a_failing_device_is_named_with_the_first_line(kind: type[RuntimeError]) -> None:
    with pytest.raises(OutputError) as caught, device_faults(JOB):
        raise kind("CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be")
    assert str(caught.value) == (
        "cuda:1 failed (CUDA error: an illegal memory access was encountered); "
        "run the same command again to go on, with --device cpu if it fails again"
    )


@pytest.mark.parametrize("error", [RuntimeError("shapes differ"), ValueError("CUDA error"), OutputError("full")])
def test_other_errors_pass(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, device_faults(JOB):
        raise error
    assert caught.value is error


def test_torchs_own_errors_have_these_names() -> None:
    torch = pytest.importorskip("torch")
    assert torch.OutOfMemoryError.__name__ == "OutOfMemoryError"
    assert torch.AcceleratorError.__name__ == "AcceleratorError"
