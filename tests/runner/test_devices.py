"""Devices by name: what is refused, and what `auto` takes on which machine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest

from schemegen.backends.base import Backend, Buffers, Job, WeightBackend, Weights
from schemegen.backends.guard import GuardedBackend
from schemegen.errors import UnsupportedError
from schemegen.planner import Chunk
from schemegen.runner import devices
from schemegen.runner.devices import Devices, check_devices, find_devices
from schemegen.scheme import Format


class Plain(WeightBackend):
    name: ClassVar[str] = "plain"

    def refuses(self, format: Format) -> str | None:
        return None

    def quantize(self, weights: Weights, format: Format, out: Buffers) -> None:
        raise NotImplementedError


class Both(Plain):
    name: ClassVar[str] = "both"
    devices: ClassVar[tuple[str, ...]] = ("cpu", "cuda")


class InPrepare(Backend):
    """Uses devices, though not chunk by chunk."""

    name: ClassVar[str] = "in-prepare"
    devices: ClassVar[tuple[str, ...]] = ("cpu", "cuda")

    def refuses(self, format: Format) -> str | None:
        return None

    def quantize_chunk(self, job: Job, chunk: Chunk, out: Buffers) -> None:
        raise NotImplementedError


class GpuOnly(Plain):
    name: ClassVar[str] = "gpu-only"
    devices: ClassVar[tuple[str, ...]] = ("cuda",)


PLAIN, BOTH = GuardedBackend(Plain(), "test 1"), GuardedBackend(Both(), "test 1")
GPU_ONLY = GuardedBackend(GpuOnly(), "test 1")
Machine = Callable[..., None]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    """A factory: a machine with or without a driver, torch, and GPUs that torch can use."""

    def make(
        driver: bool = True,
        torch: bool = True,
        fault: str | None = None,
        count: int = 2,
        rocm: bool = False,
        failing: str | None = None,
    ) -> None:
        (tmp_path / "driver").touch()
        monkeypatch.setattr(devices, "_DRIVERS", (str(tmp_path / ("driver" if driver else "none")),))
        monkeypatch.setattr(devices, "torch_fault", lambda: None if torch else "is broken: mend it")
        monkeypatch.setattr(devices, "_gpu_fault", lambda: fault)
        if torch:
            pytest.importorskip("torch")
            monkeypatch.setattr("schemegen.kernels.torch_device.cuda_count", lambda: count)
            monkeypatch.setattr("schemegen.kernels.torch_device.is_rocm", lambda: rocm)
            monkeypatch.setattr("schemegen.kernels.torch_device.fault_of", lambda device, nbytes: failing)

    return make


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (("mps",), "device 'mps' is not offered; choose cpu, cuda:N or auto"),
        (("cuda:x",), "device 'cuda:x' is not offered; choose cpu, cuda:N or auto"),
        (("cuda:-1",), "device 'cuda:-1' is not offered; choose cpu, cuda:N or auto"),
        (("cuda:0", "xpu"), "device 'xpu' is not offered; choose cpu, cuda:N or auto"),
        ((), "no device is named; name cpu, cuda:N or auto"),
        (("cpu", None), "device 'None' is no name; choose cpu, cuda:N or auto"),
        ((["cpu"],), "device \"['cpu']\" is no name; choose cpu, cuda:N or auto"),
        (
            ("cuda:\u0663",),
            "device 'cuda:\u0663' is not offered; choose cpu, cuda:N or auto",
        ),
        (("",), "device '' is not offered; choose cpu, cuda:N or auto"),
        (("cuda", "cuda:0"), "device cuda:0 is named twice; name it once"),
        (("auto", "auto"), "device auto is named twice; name it once"),
        (
            ("cpu", "cuda:1"),
            "devices cpu and cuda:1 do not go together; name cuda devices alone, or one other",
        ),
        (("auto", "cpu"), "devices auto and cpu do not go together; name cuda devices alone, or one other"),
    ],
)
def test_what_no_machine_grants_is_refused(asked: tuple[str, ...], told: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        check_devices(asked, BOTH)
    assert str(caught.value) == told


@pytest.mark.parametrize("asked", [("auto",), ("cpu",), ("cuda",), ("cuda:0", "cuda:1"), ("torch:cpu",)])
def test_what_a_machine_may_grant_passes(asked: tuple[str, ...]) -> None:
    check_devices(asked, BOTH)


@pytest.mark.parametrize("asked", ["cuda", "cuda:1", "torch:cpu"])
def test_a_backend_that_says_nothing_computes_on_the_cpu(asked: str) -> None:
    check_devices(("auto",), PLAIN)
    check_devices(("cpu",), PLAIN)
    with pytest.raises(UnsupportedError, match=r"backend plain computes on cpu only, not on .*; leave --device out"):
        check_devices((asked,), PLAIN)


def test_torchs_cpu_is_for_backends_that_compute_chunks_on_devices() -> None:
    backend = GuardedBackend(InPrepare(), "test 1")
    check_devices(("cuda:0", "cuda:1"), backend)
    with pytest.raises(UnsupportedError, match="in-prepare computes on cpu and cuda only, not on torch:cpu"):
        check_devices(("torch:cpu",), backend)


def test_auto_takes_the_gpu_that_is_there(machine: Machine) -> None:
    machine()
    assert find_devices(("auto",), BOTH) == Devices(("cuda:0",))
    assert find_devices(("auto",), PLAIN) == Devices(("cpu",))


def test_auto_on_a_machine_without_a_driver_is_the_cpu_and_says_nothing(machine: Machine) -> None:
    machine(driver=False, torch=False)
    assert find_devices(("auto",), BOTH) == Devices(("cpu",))


def test_auto_says_when_it_leaves_a_gpu_alone(machine: Machine) -> None:
    machine(torch=False)
    told = "computed on the CPU: the GPU needs torch, which is broken: mend it"
    assert find_devices(("auto",), BOTH) == Devices(("cpu",), (told,))


def test_auto_says_why_torch_takes_no_gpu(machine: Machine) -> None:
    machine(fault="torch 3 is built without CUDA")
    assert find_devices(("auto",), BOTH) == Devices(("cpu",), ("computed on the CPU: torch 3 is built without CUDA",))


def test_auto_leaves_a_gpu_that_fails_or_is_full_alone(machine: Machine) -> None:
    machine(failing="cuda:0 has 3 MiB of memory free")
    told = "computed on the CPU: cuda:0 has 3 MiB of memory free"
    assert find_devices(("auto",), BOTH) == Devices(("cpu",), (told,))
    assert find_devices(("cuda:0",), BOTH) == Devices(("cuda:0",))


def test_what_nobody_checked_is_only_used_where_it_is_named(machine: Machine) -> None:
    machine(rocm=True)
    (told,) = find_devices(("auto",), BOTH).notes
    assert told.startswith("computed on the CPU: bits computed with ROCm are not checked")
    assert told.endswith("--device cuda:0 uses it all the same")
    found = find_devices(("cuda:1",), BOTH)
    assert found == Devices(("cuda:1",), ("bits computed with ROCm are not checked against those of a CPU",))


def test_auto_never_has_a_backend_compute_where_it_does_not(machine: Machine) -> None:
    machine()
    assert find_devices(("auto",), GPU_ONLY) == Devices(("cuda:0",))
    machine(failing="cuda:0 fails (no kernel image)")
    told = r"backend gpu-only computes on cuda only, but cuda:0 fails \(no kernel image\)"
    with pytest.raises(UnsupportedError, match=told):
        find_devices(("auto",), GPU_ONLY)
    machine(driver=False, torch=False)
    with pytest.raises(UnsupportedError, match="computes on cuda only, but no driver of a GPU is here"):
        find_devices(("auto",), GPU_ONLY)


def test_named_devices_are_what_is_taken(machine: Machine) -> None:
    machine()
    assert find_devices(("cuda",), BOTH).names == ("cuda:0",)
    assert find_devices(("cuda:1", "cuda:00"), BOTH).names == ("cuda:1", "cuda:0")
    assert find_devices(("torch:cpu",), BOTH).names == ("torch:cpu",)


def test_a_device_that_is_not_there_is_named_with_those_that_are(machine: Machine) -> None:
    machine()
    with pytest.raises(UnsupportedError, match=r"device cuda:2 does not exist; there is cuda:0, cuda:1"):
        find_devices(("cuda:0", "cuda:2"), BOTH)


def test_a_gpu_without_torch_names_the_extra(machine: Machine) -> None:
    machine(torch=False)
    told = r"cuda:1 needs torch, which is broken: mend it, or --device cpu"
    with pytest.raises(UnsupportedError, match=told):
        find_devices(("cuda:1",), BOTH)


def test_a_torch_without_cuda_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr("schemegen.kernels.torch_device.torch_version", lambda: ("3.1+cpu", False))
    told = r"cuda:0 cannot be used: torch 3\.1\+cpu is built without CUDA; take --device cpu"
    with pytest.raises(UnsupportedError, match=told):
        find_devices(("cuda",), BOTH)


def test_a_torch_that_finds_no_gpu_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr("schemegen.kernels.torch_device.torch_version", lambda: ("3.1", True))
    monkeypatch.setattr("schemegen.kernels.torch_device.cuda_count", lambda: 0)
    with pytest.raises(UnsupportedError, match=r"cuda:0 cannot be used: torch 3\.1 finds no GPU"):
        find_devices(("cuda",), BOTH)


def test_without_a_driver_nobody_imports_torch() -> None:
    code = (
        "import sys, schemegen.runner.devices as d\n"
        "from schemegen.catalog import load_catalog\n"
        "d._DRIVERS = ('/none',)\n"
        "print(d.find_devices(('auto',), load_catalog().backend('native-rtn')).names, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "('cpu',) False"
