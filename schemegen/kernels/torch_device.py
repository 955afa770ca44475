"""A torch device as the runner and the kernels use it: pinned memory, streams, copies. Importing this imports torch.

A device is `cuda:N`, or `torch:cpu` (in the kernels also `cpu`), which is torch's CPU behind the same machinery.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from schemegen.errors import OutputError

_MOST_SHOWN: Final = 120


class _OneThread:
    """Holds torch to one thread for each caller. The number is partly the process's: the last out gives it back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = self._before = 0

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._before = torch.get_num_threads()
            self._inside += 1
            torch.set_num_threads(1)

    def __exit__(self, *fault: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                torch.set_num_threads(self._before)


_one_thread = _OneThread()


@contextmanager
def here(device: str) -> Iterator[None]:
    """Compute on the device; on a CPU with one thread, since workers are many and each has a core.

    The stream is waited for before this is left, by exceptions too: torch does not know which pinned memory a copy of a
    piece of it still uses, and that memory is filled anew, or freed, as soon as the caller returns.
    """
    if _is_cuda(device):
        with torch.cuda.device(device), _awaited():
            yield
    else:
        with _one_thread:
            yield


@contextmanager
def own_stream(device: str) -> Iterator[None]:
    """A stream of the calling thread's own, so that its copies and kernels run beside those of others."""
    if not _is_cuda(device):
        yield
        return
    with torch.cuda.device(device), torch.cuda.stream(torch.cuda.Stream(device)), _awaited():
        yield


@contextmanager
def _awaited() -> Iterator[None]:
    try:
        yield
    finally:
        torch.cuda.current_stream().synchronize()


def pinned(device: str, nbytes: int) -> npt.NDArray[np.uint8]:
    """At least so much host memory that the device copies from and to by itself; plain memory for torch's CPU.

    torch pins powers of two, and pinning takes time, so the whole of it is given. OutputError where it cannot be had.
    """
    size = 1 << max(0, nbytes - 1).bit_length()
    try:
        return np.asarray(torch.empty(size, dtype=torch.uint8, pin_memory=_is_cuda(device)).numpy())
    except RuntimeError as error:
        raise OutputError(
            f"cannot have {size >> 20} MiB of host memory for {device} ({_first_line(error)}); "
            "run the same command again to go on, with fewer --jobs or --device cpu"
        ) from error


def free_bytes(device: str) -> int | None:
    """Memory of the device that nobody has taken; None where that is no matter of its own."""
    return int(torch.cuda.mem_get_info(device)[0]) if _is_cuda(device) else None


def on_device(array: npt.NDArray[np.unsignedinteger[Any]], device: str) -> Any:
    """An array's bits on the device as signed integers, which torch knows best; on a CPU the very memory.

    From pinned memory the copy is only begun: the array must stay as it is until the stream has been waited for.
    """
    signed = array.view(f"i{array.itemsize}")
    # torch warns of memory that may not be written to, though nobody writes to it here.
    owned = signed if signed.flags.writeable else signed.copy()
    return torch.from_numpy(owned).to(device if _is_cuda(device) else "cpu", non_blocking=True)


def to_host(tensor: Any, array: npt.NDArray[np.unsignedinteger[Any]], *, wait: bool = False) -> None:
    """Copy a tensor of signed integers into an array; on CUDA it is only begun unless `wait`."""
    torch.from_numpy(array.view(f"i{array.itemsize}")).copy_(tensor, non_blocking=not wait)


def _is_cuda(device: str) -> bool:
    return device.startswith("cuda")


def torch_version() -> tuple[str, bool]:
    """torch's version, and whether it is built for GPUs: CUDA's, or AMD's under the same name."""
    return str(torch.__version__), bool(torch.version.cuda or torch.version.hip)


def is_rocm() -> bool:
    """Whether torch's `cuda` devices are AMD's."""
    return bool(torch.version.hip)


def fault_of(device: str, least_bytes: int) -> str | None:
    """Why a GPU is of no use: less memory free than that, or an addition on it fails; None where it works."""
    try:
        free = free_bytes(device)
        if free is not None and free < least_bytes:
            return f"{device} has {free >> 20} MiB of memory free, and a worker takes up to {least_bytes >> 20} MiB"
        with here(device):
            one = torch.ones(2, dtype=torch.float32, device=device if _is_cuda(device) else "cpu")
            return None if int((one + one).sum().item()) == 4 else f"{device} computes 1 + 1 wrong"
    except RuntimeError as error:
        return f"{device} fails ({_first_line(error)})"


def _first_line(error: RuntimeError) -> str:
    return str(error).partition("\n")[0][:_MOST_SHOWN]


def cuda_count() -> int:
    """How many GPUs torch can use."""
    return int(torch.cuda.device_count()) if torch.cuda.is_available() else 0
