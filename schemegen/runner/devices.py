"""Which devices a run computes on: what was asked for against what the backend, torch and the machine have."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

from schemegen.backends.guard import GuardedBackend
from schemegen.errors import UnsupportedError, shortened
from schemegen.kernels.torch_check import torch_fault
from schemegen.runner.lanes import BATCH_BYTES, DEVICE_BYTES

#: torch's CPU behind the machinery of a GPU: for tests of it on any machine.
TORCH_CPU: Final = "torch:cpu"
#: What a driver for GPUs that `auto` takes leaves in the file system: NVIDIA's, that of Windows under Linux.
_DRIVERS: Final = ("/dev/nvidiactl", "/dev/dxg")
_CUDA: Final = re.compile(r"cuda(?::([0-9]{1,4}))?")
_UNCHECKED: Final = "bits computed with ROCm are not checked against those of a CPU"
#: Device memory that `auto` takes a GPU for: what one worker may need.
_LEAST_BYTES: Final = BATCH_BYTES * DEVICE_BYTES


class Devices(NamedTuple):
    """The devices by name, each once, and what the user should know about the choice."""

    names: tuple[str, ...]
    notes: tuple[str, ...] = ()


def check_devices(asked: tuple[str, ...], backend: GuardedBackend) -> None:
    """Refuse what no machine could grant: other kinds, doubles, mixtures, kinds that the backend does not use."""
    names = [_named(device) for device in asked]
    if not names:
        raise UnsupportedError("no device is named; name cpu, cuda:N or auto")
    kinds = {device.partition(":")[0] for device in names}
    if twice := next((device for device in names if names.count(device) > 1), None):
        raise UnsupportedError(f"device {twice} is named twice; name it once")
    if len(kinds) > 1:
        raise UnsupportedError(
            f"devices {' and '.join(names)} do not go together; name cuda devices alone, or one other"
        )
    wanted = "cuda" if kinds == {"torch"} and backend.takes_batches else kinds.pop()
    offered = backend.devices()
    if wanted not in ("auto", *offered):
        raise UnsupportedError(
            f"backend {backend.name} computes on {' and '.join(offered)} only, not on {names[0]}; leave --device out"
        )


def find_devices(asked: tuple[str, ...], backend: GuardedBackend) -> Devices:
    """The devices of a run that `check_devices` has passed; UnsupportedError for what this machine lacks.

    torch is imported where a GPU is asked for, or likely.
    """
    names = tuple(_named(device) for device in asked)
    if names == ("auto",):
        return _automatic(backend)
    return Devices(names) if names == ("cpu",) else Devices(names, _required(names))


def _named(device: object) -> str:
    """The full name: `cuda` is cuda:0."""
    if not isinstance(device, str):
        raise UnsupportedError(f"device {shortened(repr(device))} is no name; choose cpu, cuda:N or auto")
    if device in ("auto", "cpu", TORCH_CPU):
        return device
    found = _CUDA.fullmatch(device)
    if found is None:
        raise UnsupportedError(f"device {shortened(device)} is not offered; choose cpu, cuda:N or auto")
    return f"cuda:{int(found[1] or 0)}"


def _automatic(backend: GuardedBackend) -> Devices:
    """cuda:0 where it works, else the CPU for a backend that computes there."""
    offered = backend.devices()
    driver = any(Path(driver).exists() for driver in _DRIVERS)
    if offered == ("cpu",) or ("cpu" in offered and not driver):
        return Devices(("cpu",))
    fault = _gpu_reason() if driver else "no driver of a GPU is here"
    if fault is None:
        return Devices(("cuda:0",))
    if "cpu" not in offered:
        raise UnsupportedError(f"backend {backend.name} computes on {' and '.join(offered)} only, but {fault}")
    return Devices(("cpu",), (f"computed on the CPU: {fault}",))


def _gpu_reason() -> str | None:
    """Why `auto` leaves the first GPU alone, or None."""
    if fault := torch_fault():
        return f"the GPU needs torch, which {fault}"
    if fault := _gpu_fault():
        return fault
    from schemegen.kernels.torch_device import fault_of, is_rocm

    return f"{_UNCHECKED}; --device cuda:0 uses it all the same" if is_rocm() else fault_of("cuda:0", _LEAST_BYTES)


def _required(names: tuple[str, ...]) -> tuple[str, ...]:
    """Raise unless torch is there and has the devices; gives what the user should know of them."""
    if fault := torch_fault():
        raise UnsupportedError(f"{names[0]} needs torch, which {fault}, or --device cpu")
    if names == (TORCH_CPU,):
        return ()
    if fault := _gpu_fault():
        raise UnsupportedError(f"{names[0]} cannot be used: {fault}; take --device cpu")
    from schemegen.kernels.torch_device import cuda_count, is_rocm

    there = [f"cuda:{number}" for number in range(cuda_count())]
    if missing := next((name for name in names if name not in there), None):
        raise UnsupportedError(f"device {missing} does not exist; there is {', '.join(there)}")
    return (_UNCHECKED,) if is_rocm() else ()


def _gpu_fault() -> str | None:
    """Why torch can use no GPU, or None."""
    from schemegen.kernels.torch_device import cuda_count, torch_version

    name, built = torch_version()
    if not built:
        return f"torch {name} is built without CUDA"
    return None if cuda_count() else f"torch {name} finds no GPU with a driver that it takes"
