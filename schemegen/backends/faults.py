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
)
#: torch's CPU.
_HOST_MEMORY: Final = "can't allocate memory"
_DEVICE: Final = ("CUDA error", "CUDA driver error", "CUDNN_STATUS", "CUBLAS_STATUS", "HIP error")
_FULL: Final = "has not enough free memory; run the same command again to go on, with fewer --jobs or another --device"
_MOST_SHOWN: Final = 120


@contextmanager
def device_faults(job: Job) -> Iterator[None]:
    """Turn what torch raises for a device that is full or fails into an OutputError that says how to go on."""
    try:
        yield
    except Exception as error:
        if told := _told(error, job):
            raise OutputError(f"{job.device} {told}") from error
        raise


def _told(error: Exception, job: Job) -> str | None:
    """What to say of an error that torch raises for the job's device; None for any other."""
    if not isinstance(error, RuntimeError):
        return None
    if _HOST_MEMORY in str(error):
        return _FULL
    told = _of_gpu(type(error).__name__, str(error))
    # On a CPU nobody but the backend can have raised it.
    return told if told is None or job.device != "cpu" else None


def _of_gpu(kind: str, text: str) -> str | None:
    if kind == "OutOfMemoryError" or any(words in text for words in _MEMORY):
        return _FULL
    if kind == "AcceleratorError" or any(words in text for words in _DEVICE):
        first = text.partition("\n")[0][:_MOST_SHOWN]
        return f"failed ({first}); run the same command again to go on, with --device cpu if it fails again"
    return None
