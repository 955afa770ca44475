"""Workers are dealt out to devices, and a device's memory bounds what they take."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from schemegen.planner.chunks import CHUNK_BYTES
from schemegen.runner.lanes import BATCH_BYTES, DEVICE_BYTES, Lane, lanes


def test_a_cpu_gets_a_lane_for_each_job_and_works_chunk_by_chunk() -> None:
    assert lanes(("cpu",), 3) == [Lane("cpu", 0)] * 3
    assert len(lanes(("cpu",), 10_000)) == 64


def test_a_lane_of_a_cpu_needs_nothing() -> None:
    with Lane("cpu").entered() as allocate:
        assert allocate is None


class Gpus:
    """Stands for torch_device's free_bytes on a machine with so much free on each device."""

    def __init__(self, **free: int) -> None:
        self.free = {name.replace("_", ":"): nbytes for name, nbytes in free.items()}

    def __call__(self, device: str) -> int:
        return self.free[device]


@pytest.mark.parametrize(("jobs", "counts"), [(1, (1, 1)), (2, (1, 1)), (5, (3, 2)), (16, (6, 6))])
def test_workers_are_dealt_out_and_no_device_is_left_out(
    jobs: int, counts: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr("schemegen.kernels.torch_device.free_bytes", Gpus(cuda_0=10**12, cuda_3=10**12))
    found = lanes(("cuda:0", "cuda:3"), jobs)
    assert Counter(lane.device for lane in found) == {"cuda:0": counts[0], "cuda:3": counts[1]}
    assert {lane.batch_bytes for lane in found} == {BATCH_BYTES}


def test_all_workers_of_a_device_fit_into_what_it_has_free(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    free = 2 << 30
    monkeypatch.setattr("schemegen.kernels.torch_device.free_bytes", Gpus(cuda_0=free, cuda_1=10**12))
    found = [lane.batch_bytes for lane in lanes(("cuda:0", "cuda:1"), 16)]
    assert found[1::2] == [BATCH_BYTES] * 6
    assert set(found[::2]) == {free // 6 // 8}


@pytest.mark.parametrize(("chunks", "workers"), [(0, 1), (1, 1), (3, 3), (5, 5)])
def test_a_device_that_is_nearly_full_gets_fewer_workers(
    chunks: int, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    free = chunks * CHUNK_BYTES * DEVICE_BYTES
    monkeypatch.setattr("schemegen.kernels.torch_device.free_bytes", Gpus(cuda_0=free, cuda_1=10**12))
    found = lanes(("cuda:0", "cuda:1"), 16)
    assert Counter(lane.device for lane in found) == {"cuda:0": workers, "cuda:1": 6}
    assert sum(lane.batch_bytes for lane in found if lane.device == "cuda:0") * DEVICE_BYTES <= free


def test_a_lane_of_torchs_cpu_gives_host_memory() -> None:
    pytest.importorskip("torch")
    (lane,) = lanes(("torch:cpu",), 1)
    assert lane == Lane("torch:cpu", BATCH_BYTES)
    with lane.entered() as allocate:
        assert allocate is not None
        assert allocate(10).size >= 10
        assert allocate(10).dtype == np.uint8
