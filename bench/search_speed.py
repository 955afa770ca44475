"""Time of the search by `signed_mse` against plain rounding, and the SQNR of both: `python -m bench.search_speed`.

Both kernels take the same BF16 weights, in turn, on one thread; what is compared is the median of its CPU time.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from schemegen.kernels import cpu, cpu_search

SHAPE = (2048, 2048)
ROUNDS = 15

Kernel = Callable[[NDArray[np.uint16], str, int, int, NDArray[np.uint32], NDArray[np.uint16]], int]


def _weights() -> NDArray[np.uint16]:
    values = np.random.default_rng(0).standard_normal(SHAPE, np.float32) * np.float32(0.02)
    return np.ascontiguousarray(values.view(np.uint32) >> 16).astype(np.uint16)


def _values(bits: NDArray[np.uint16]) -> NDArray[np.float64]:
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


class Run:
    """One kernel on one matrix: how long it took, each time, and what it made."""

    def __init__(self, kernel: Kernel, weights: NDArray[np.uint16], num_bits: int, group_size: int) -> None:
        self._kernel, self._weights, self._options = kernel, weights, (num_bits, group_size)
        self._packed = np.empty((len(weights), weights.shape[1] * num_bits // 32), np.uint32)
        self._scales = np.empty((len(weights), weights.shape[1] // group_size), np.uint16)
        self.seconds: list[float] = []

    def again(self) -> None:
        """Once more."""
        start = time.thread_time()
        self._kernel(self._weights, "BF16", *self._options, self._packed, self._scales)
        self.seconds.append(time.thread_time() - start)

    def decibels(self) -> float:
        """Signal to noise of the decoded weights."""
        restored = np.empty_like(self._weights)
        cpu.decode_int(self._packed, "BF16", *self._options, self._scales, restored)
        signal = _values(self._weights)
        noise = signal - _values(restored)
        return float(10 * np.log10((signal**2).sum() / (noise**2).sum()))


def main() -> None:
    """Print a line for each width and group size."""
    weights = _weights()
    for num_bits, group_size in ((4, 32), (4, 128), (8, 32), (8, 128)):
        plain, signed = (
            Run(kernel, weights, num_bits, group_size) for kernel in (cpu.quantize_int, cpu_search.quantize_signed)
        )
        for _ in range(ROUNDS + 1):
            plain.again()
            signed.again()
        took, takes = (statistics.median(run.seconds[1:]) for run in (plain, signed))
        speed = f"{takes / took:.2f} times rounding's {took * 1e9 / weights.size:.2f} ns a weight"
        print(f"INT{num_bits} g{group_size}: {speed}; {signed.decibels():.2f} dB against {plain.decibels():.2f}")


if __name__ == "__main__":
    main()
