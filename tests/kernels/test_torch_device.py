"""torch's CPU behind the interface of a device."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")


def test_computing_on_a_cpu_takes_one_thread_and_gives_the_others_back() -> None:
    from schemegen.kernels.torch_device import here

    def interrupted() -> None:
        with here("torch:cpu"):
            inside.append(torch.get_num_threads())
            raise KeyError

    before, inside = torch.get_num_threads(), list[int]()
    with pytest.raises(KeyError):
        interrupted()
    assert (inside, torch.get_num_threads()) == ([1], before)


def test_threads_that_compute_at_once_leave_the_process_as_it_was() -> None:
    from schemegen.kernels.torch_device import here

    barrier = threading.Barrier(8)

    def compute(_: int) -> int:
        barrier.wait()
        with here("cpu"):
            barrier.wait()
            return int(torch.get_num_threads())

    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(compute, range(8))) == [1] * 8
        with ThreadPoolExecutor(1) as pool:
            assert (pool.submit(torch.get_num_threads).result(), torch.get_num_threads()) == (3, 3)
    finally:
        torch.set_num_threads(before)


def test_host_memory_is_plain_bytes_that_may_be_written() -> None:
    from schemegen.kernels.torch_device import free_bytes, own_stream, pinned

    with own_stream("torch:cpu"):
        block = pinned("torch:cpu", 100)
    block[:] = 7
    assert block.dtype == np.uint8
    assert (block.shape, int(block.sum())) == ((128,), 7 * 128)
    assert free_bytes("torch:cpu") is None


def test_copies_keep_every_bit() -> None:
    from schemegen.kernels.torch_device import on_device, to_host

    for bits in (16, 32):
        given: Any = np.array([0, 1, 2**bits - 1, 2 ** (bits - 1)], f"u{bits // 8}")
        back = np.zeros_like(given)
        to_host(on_device(given, "torch:cpu"), back, wait=True)
        np.testing.assert_array_equal(back, given)


def test_the_version_says_whether_it_is_built_for_a_gpu() -> None:
    from schemegen.kernels.torch_device import cuda_count, torch_version

    name, built = torch_version()
    assert name == torch.__version__
    assert built or cuda_count() == 0
