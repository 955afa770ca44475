"""Which device each worker computes on, and how much it takes there in one go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from schemegen.planner.chunks import CHUNK_BYTES
from schemegen.positional import MAX_JOBS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Source bytes of a batch: its copies and kernels outlast what it costs to start them.
BATCH_BYTES: Final = 64 << 20
#: Bytes of device memory that a batch takes at the most for each of its source bytes, with what torch keeps aside.
DEVICE_BYTES: Final = 8
#: Workers of one device at the most. Each pins host memory of its own and has one of torch's 32 streams; more bring
#: nothing where a few keep the copies going.
MOST_LANES: Final = 6


@dataclass(frozen=True, slots=True)
class Lane:
    """One worker's device. It takes batches of up to `batch_bytes` of source.

    Less than a chunk means chunk by chunk: 0 on a CPU, and little or 0 on a device with hardly any memory free, where
    one chunk is still taken, whether or not it fits.
    """

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
    """A lane for each worker: `jobs` of them, and at least one a device, dealt out in turn; fewer where it is full."""
    count = min(jobs, MAX_JOBS)
    if devices == ("cpu",):
        return [Lane("cpu")] * max(count, 1)
    shares = [(count - turn + len(devices) - 1) // len(devices) for turn in range(len(devices))]
    columns = [
        _of_device(device, max(1, min(share, MOST_LANES))) for device, share in zip(devices, shares, strict=True)
    ]
    return [lane for row in zip_longest(*columns) for lane in row if lane is not None]


def _of_device(device: str, workers: int) -> list[Lane]:
    """At most so many lanes of a device, each with room for a chunk, and batches that fit beside one another."""
    from schemegen.kernels.torch_device import free_bytes

    free = free_bytes(device)
    if free is None:
        return [Lane(device, BATCH_BYTES)] * workers
    workers = max(1, min(workers, free // (CHUNK_BYTES * DEVICE_BYTES)))
    return [Lane(device, min(BATCH_BYTES, free // (workers * DEVICE_BYTES)))] * workers
