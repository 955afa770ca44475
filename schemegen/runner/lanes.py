"""Which device each worker computes on, and how much it takes there in one go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from schemegen.positional import MAX_JOBS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Source bytes of a batch: its copies and kernels outlast what it costs to start them.
BATCH_BYTES: Final = 64 << 20
#: Bytes of device memory that a batch takes at the most for each of its source bytes, with what torch keeps aside.
_DEVICE_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class Lane:
    """One worker's device. It takes batches of up to `batch_bytes` of source; on a CPU that is 0: chunk by chunk."""

    device: str
    batch_bytes: int = 0

    @contextmanager
    def entered(self) -> Iterator[Callable[[int], NDArray[np.uint8]] | None]:
        """Make the device the calling thread's, with a stream of its own; gives what allocates host memory for it."""
        if self.device == "cpu":
            yield None
            return
        from schemegen.kernels import torch_device

        with torch_device.own_stream(self.device):
            yield lambda nbytes: torch_device.pinned(self.device, nbytes)


def lanes(devices: tuple[str, ...], jobs: int) -> list[Lane]:
    """A lane for each worker: `jobs` of them, and at least one a device, dealt out in turn."""
    count = max(min(jobs, MAX_JOBS), len(devices))
    if devices == ("cpu",):
        return [Lane("cpu")] * count
    sizes = {device: _batch_bytes(device, -(-count // len(devices))) for device in devices}
    return [Lane(device, sizes[device]) for device in (devices[turn % len(devices)] for turn in range(count))]


def _batch_bytes(device: str, workers: int) -> int:
    """What fits `workers` times into what the device has free."""
    from schemegen.kernels.torch_device import free_bytes

    free = free_bytes(device)
    return BATCH_BYTES if free is None else min(BATCH_BYTES, free // (workers * _DEVICE_BYTES))
