"""What a device refuses in the middle of a run, as one sentence. torch is not imported: its errors have names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from schemegen.errors import OutputError

if TYPE_CHECKING:
    from schemegen.backends.base import Job

_MEMORY: Final = (
    "CUDA out of memory",
    "CUDA error: out of memory",
    "CUDA_ERROR_OUT_OF_MEMORY",
    "can't allocate memory",
)
_DEVICE: Final = ("CUDA error", "CUDA driver error", "CUDNN_STATUS", "CUBLAS_STATUS", "HIP error")
_MOST_SHOWN: Final = 120


@contextmanager
def device_faults(job: Job) -> Iterator[None]:
    """Turn what torch raises for a device that is full or fails into an OutputError that says how to go on."""
    try:
        yield
    except Exception as error:
        if told := _told(error):
            raise OutputError(f"{job.device} {told}") from error
        raise


def _told(error: Exception) -> str | None:
    kind, text = type(error).__name__, str(error)
    if kind == "OutOfMemoryError" or (isinstance(error, RuntimeError) and any(words in text for words in _MEMORY)):
        return "has not enough free memory; run the same command again to go on, with fewer --jobs or another --device"
    if kind == "AcceleratorError" or (isinstance(error, RuntimeError) and any(words in text for words in _DEVICE)):
        first = text.partition("\n")[0][:_MOST_SHOWN]
        return f"failed ({first}); run the same command again to go on, with --device cpu if it fails again"
    return None
