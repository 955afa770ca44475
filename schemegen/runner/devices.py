"""Which devices a run computes on: what was asked for against what the backend, torch and the machine have."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

from schemegen.backends.guard import GuardedBackend
from schemegen.errors import UnsupportedError, shortened
from schemegen.kernels.integers import INSTALL_TORCH, has_torch

#: torch's CPU behind the machinery of a GPU: for tests of it on any machine.
TORCH_CPU: Final = "torch:cpu"
#: What a driver for GPUs of torch's leaves in the file system: NVIDIA's, AMD's, that of Windows under Linux.
_DRIVERS: Final = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
_CUDA: Final = re.compile(r"cuda(?::(\d{1,4}))?")


class Devices(NamedTuple):
    """The devices by name, each once, and what the user should know about the choice."""

    names: tuple[str, ...]
    notes: tuple[str, ...] = ()


def check_devices(asked: tuple[str, ...], backend: GuardedBackend) -> None:
    """Refuse what no machine could grant: other kinds, doubles, mixtures, kinds that the backend does not use."""
    names = [_named(device) for device in asked]
    kinds = {device.partition(":")[0] for device in names}
    if twice := next((device for device in names if names.count(device) > 1), None):
        raise UnsupportedError(f"device {twice} is named twice; name it once")
    if len(kinds) > 1:
        raise UnsupportedError(
            f"devices {' and '.join(names)} do not go together; name cuda devices alone, or one other"
        )
    wanted = "cuda" if kinds == {"torch"} else kinds.pop()
    offered = backend.devices()
    if wanted not in ("auto", *offered):
        raise UnsupportedError(
            f"backend {backend.name} computes on {' and '.join(offered)} only, not on {names[0]}; leave --device out"
        )


def find_devices(asked: tuple[str, ...], backend: GuardedBackend) -> Devices:
    """The devices of a run that `check_devices` has passed. torch is imported where a GPU is asked for, or likely."""
    names = tuple(_named(device) for device in asked)
    if names == ("auto",):
        return _automatic(backend)
    if names != ("cpu",):
        _require(names)
    return Devices(names)


def _named(device: str) -> str:
    """The full name: `cuda` is cuda:0."""
    if device in ("auto", "cpu", TORCH_CPU):
        return device
    found = _CUDA.fullmatch(device)
    if found is None:
        raise UnsupportedError(f"device {shortened(device)} is not offered; choose cpu, cuda:N or auto")
    return f"cuda:{int(found[1] or 0)}"


def _automatic(backend: GuardedBackend) -> Devices:
    if "cuda" not in backend.devices() or not any(Path(driver).exists() for driver in _DRIVERS):
        return Devices(("cpu",))
    if not has_torch():
        return Devices(("cpu",), (f"computed on the CPU: to use the GPU install torch, {INSTALL_TORCH}",))
    if fault := _gpu_fault():
        return Devices(("cpu",), (f"computed on the CPU: {fault}",))
    return Devices(("cuda:0",))


def _require(names: tuple[str, ...]) -> None:
    """Raise unless torch is there and has the devices."""
    if not has_torch():
        raise UnsupportedError(f"{names[0]} needs torch, which is not installed: {INSTALL_TORCH}, or --device cpu")
    if names == (TORCH_CPU,):
        return
    if fault := _gpu_fault():
        raise UnsupportedError(f"{names[0]} cannot be used: {fault}; take --device cpu")
    from schemegen.kernels.torch_device import cuda_count

    there = [f"cuda:{number}" for number in range(cuda_count())]
    if missing := next((name for name in names if name not in there), None):
        raise UnsupportedError(f"device {missing} does not exist; there is {', '.join(there)}")


def _gpu_fault() -> str | None:
    """Why torch can use no GPU, or None."""
    from schemegen.kernels.torch_device import cuda_count, torch_version

    name, built = torch_version()
    if not built:
        return f"torch {name} is built without CUDA"
    return None if cuda_count() else f"torch {name} finds no GPU with a driver that it takes"
