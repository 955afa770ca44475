"""torch's CPU behind the interface of a device."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from schemegen.errors import OutputError

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


class Cuda:
    """Stands for torch.cuda where there is no GPU: notes when a stream is waited for."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def device(self, name: str) -> AbstractContextManager[None]:
        return nullcontext()

    def stream(self, stream: str) -> AbstractContextManager[None]:
        return nullcontext()

    def Stream(self, device: str) -> str:
        return device

    def current_stream(self) -> SimpleNamespace:
        return SimpleNamespace(synchronize=lambda: self.events.append("waited"))

    def mem_get_info(self, device: str) -> tuple[int, int]:
        return 5 << 20, 1 << 40


@pytest.mark.parametrize("fault", [None, KeyError("x"), KeyboardInterrupt()])
@pytest.mark.parametrize("context", ["here", "own_stream"])
def test_the_stream_is_waited_for_whatever_ends_a_call(
    context: str, fault: BaseException | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pinned memory is used again as soon as a call returns, and torch does not track views into it."""
    from schemegen.kernels import torch_device

    cuda = Cuda()
    monkeypatch.setattr(torch, "cuda", cuda)
    with nullcontext() if fault is None else pytest.raises(type(fault)), getattr(torch_device, context)("cuda:0"):
        cuda.events.append("inside")
        if fault is not None:
            raise fault
    assert cuda.events == ["inside", "waited"]


def test_host_memory_that_cannot_be_pinned_is_not_told_as_the_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    from schemegen.kernels import torch_device

    def full(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA error: out of memory\nmore")

    monkeypatch.setattr(torch, "empty", full)
    told = r"cannot have 128 MiB of host memory for cuda:0 \(CUDA error: out of memory\); .* with fewer --jobs"
    with pytest.raises(OutputError, match=told):
        torch_device.pinned("cuda:0", 100 << 20)


def test_a_device_is_tried_before_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    from schemegen.kernels import torch_device

    assert torch_device.fault_of("torch:cpu", 1 << 60) is None

    def no_kernel(*_: object, **__: object) -> None:
        raise torch.AcceleratorError("CUDA error: no kernel image is available\nmore")

    with monkeypatch.context() as patched:
        patched.setattr(torch, "ones", no_kernel)
        assert torch_device.fault_of("torch:cpu", 0) == "torch:cpu fails (CUDA error: no kernel image is available)"
    monkeypatch.setattr(torch, "cuda", Cuda())
    told = "cuda:0 has 5 MiB of memory free, and a worker takes up to 6 MiB"
    assert torch_device.fault_of("cuda:0", 6 << 20) == told
