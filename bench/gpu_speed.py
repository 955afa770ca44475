"""What a machine with a GPU can do: kernels alone, the bus, the disk, and whole runs on either device."""

from __future__ import annotations

import os
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bench.compare import file_differences
from bench.measures import Row
from bench.process import SCHEME, apply, measured
from schemegen.runner.lanes import DEVICE_BYTES

MEBIBYTE = 1 << 20
ROUNDS = 5


def kernels(device: str, mebibytes: int) -> Iterator[Row]:
    """Source bytes a second through the kernels with all on the device, and the memory that they take there."""
    import torch

    from schemegen.kernels.torch_device import here, on_device
    from schemegen.kernels.torch_int import encoded

    weights = np.random.default_rng(1).integers(0, 0x7F80, (mebibytes * MEBIBYTE // 4096, 2048)).astype(np.uint16)
    for num_bits, group_size in ((4, 32), (4, 2048), (8, 128), (3, 32)):
        with here(device), torch.inference_mode():
            bits = on_device(weights, device).view(-1, 2048 // group_size, group_size)
            _reset_peak(device)
            seconds = _timed(device, lambda bits=bits, n=num_bits: encoded(bits, "BF16", n))  # type: ignore[misc]
            name = f"kernels alone, BF16 to INT{num_bits}, {'channel' if group_size == 2048 else f'group {group_size}'}"
            yield Row(name, weights.nbytes / seconds / 1e9, "GB/s")
            if device.startswith("cuda"):
                peak = torch.cuda.max_memory_allocated() / weights.nbytes
                yield Row("  device memory for each source byte", peak, "x", DEVICE_BYTES)


def bus(device: str, mebibytes: int) -> Iterator[Row]:
    """Pinned host memory to the device and back."""
    import torch

    from schemegen.kernels.torch_device import pinned

    host = torch.from_numpy(pinned(device, mebibytes * MEBIBYTE))
    there = host.to(device.removeprefix("torch:"), copy=True)
    for name, act in (("host to device", lambda: there.copy_(host)), ("device to host", lambda: host.copy_(there))):
        yield Row(f"{name}, pinned, {mebibytes} MiB", host.numel() / _timed(device, act) / 1e9, "GB/s")


def disk(folder: Path, mebibytes: int) -> Iterator[Row]:
    """One file written and flushed, then read back, which the system may do from memory."""
    block, path = np.random.default_rng(2).bytes(8 * MEBIBYTE), folder / "disk-speed"
    began = time.perf_counter()
    with path.open("wb", buffering=0) as file:
        for _ in range(mebibytes // 8):
            file.write(block)
        os.fsync(file.fileno())
    yield Row("disk, written and flushed", mebibytes * MEBIBYTE / (time.perf_counter() - began) / 1e9, "GB/s")
    began, buffer = time.perf_counter(), bytearray(8 * MEBIBYTE)
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
    yield Row("disk, read back", mebibytes * MEBIBYTE / (time.perf_counter() - began) / 1e9, "GB/s")
    path.unlink()


def runs(model: Path, folder: Path, device: str, rounds: int) -> Iterator[Row]:
    """`apply` in this process, once to warm up and then in turn on both devices; equal folders; whole processes."""
    import schemegen

    seconds: dict[str, list[float]] = {device: [], "cpu": []}
    outputs = {name: folder / f"out-{name.replace(':', '-')}" for name in seconds}
    for number in range(rounds + 1):
        for name in list(seconds)[:: -1 if number % 2 else 1]:
            shutil.rmtree(outputs[name], ignore_errors=True)
            os.sync()
            made = schemegen.apply(SCHEME, model, outputs[name], device=name)
            if number:
                seconds[name].append(made.seconds)
    for name, found in seconds.items():
        median = statistics.median(found)
        detail = f"{median:.2f} s for {made.bytes_in / 1e9:.2f} GB, of {', '.join(f'{s:.2f}' for s in found)} s"
        yield Row(f"apply, {name}", made.bytes_in / median / 1e9, "GB/s", detail=detail)
    yield _equality(outputs[device], outputs["cpu"])
    for name, output in outputs.items():
        shutil.rmtree(output)
        run = measured(apply(model, output, "--device", name))
        yield Row(f"apply, {name}, whole process with start-up", run.seconds, "s")
        shutil.rmtree(output)


def _equality(left: Path, right: Path) -> Row:
    found = list(file_differences(left, right))
    return Row("files that differ between the devices", float(len(found)), "", 0, detail="; ".join(found[:3]))


def _timed(device: str, act: Callable[[], Any]) -> float:
    """The median seconds of an act, waited for."""
    found = []
    for number in range(ROUNDS + 2):
        with _waited(device):
            began = time.perf_counter()
            act()
            _wait(device)
            if number > 1:
                found.append(time.perf_counter() - began)
    return statistics.median(found)


@contextmanager
def _waited(device: str) -> Iterator[None]:
    _wait(device)
    yield
    _wait(device)


def _wait(device: str) -> None:
    import torch

    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


def _reset_peak(device: str) -> None:
    import torch

    if device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats(device)
