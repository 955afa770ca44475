"""A backend behind a guard: whatever it does wrong is a PluginError that names it, and is not published."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from schemegen.backends.base import Backend, Batch, Buffers, Job, Needs
from schemegen.backends.faults import device_faults
from schemegen.errors import PluginError, SchemegenError

if TYPE_CHECKING:
    from schemegen.planner import Chunk, Plan
    from schemegen.scheme import Format

_T = TypeVar("_T")


class GuardedBackend:
    """Calls a backend and turns its stray exceptions and wrong answers into a PluginError with its origin."""

    def __init__(self, backend: Backend, origin: str) -> None:
        self.backend = backend
        self.name = backend.name
        self._distribution, _, self._version = origin.partition(" ")

    def refuses(self, format: Format) -> str | None:
        """Why the backend cannot produce the format, or None."""
        with self._blamed("refuses"):
            return self._typed("refuses", self.backend.refuses(format), (str, type(None)))

    def needs(self, plan: Plan) -> Needs:
        """What the run needs beyond memory."""
        with self._blamed("needs"):
            return self._typed("needs", self.backend.needs(plan), (Needs,))

    def prepare(self, job: Job) -> None:
        """Load, compile or calibrate."""
        with self._blamed("prepare"), device_faults(job):
            self.backend.prepare(job)

    def quantize_chunk(self, job: Job, chunk: Chunk, out: Buffers) -> None:
        """Fill every buffer of `out`; the mapping itself cannot be changed."""
        with self._blamed("quantize_chunk"), device_faults(job):
            self.backend.quantize_chunk(job, chunk, MappingProxyType(dict(out)))

    def quantize_batch(self, job: Job, batch: Batch) -> None:
        """Fill every buffer of the batch; the mappings themselves cannot be changed."""
        parts = tuple(MappingProxyType(dict(out)) for out in batch.parts)
        with self._blamed("quantize_batch"), device_faults(job):
            self.backend.quantize_batch(job, Batch(batch.chunks, MappingProxyType(dict(batch.out)), parts))

    def report(self) -> tuple[str, ...]:
        """Remarks for the card."""
        with self._blamed("report"):
            return self._names("report", self.backend.report())

    def versions(self) -> Mapping[str, str]:
        """The versions of the distributions that decide the bits."""
        try:
            return {name: version(name) for name in self._recorded()}
        except PackageNotFoundError as error:
            raise self._error(f"versions names {error.name}, which is not installed") from None

    def devices(self) -> tuple[str, ...]:
        """The kinds of device it computes on."""
        return self._names("devices", self.backend.devices)

    def _recorded(self) -> tuple[str, ...]:
        with self._blamed("recorded"):
            return self._names("recorded", self.backend.recorded())

    def _names(self, call: str, values: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(self._typed(call, value, (str,)) for value in self._typed(call, values, (tuple,)))

    def _error(self, reason: str) -> PluginError:
        return PluginError(f"backend {self.name}", self._distribution, self._version or "(built in)", reason)

    def _typed(self, call: str, value: _T, types: tuple[type, ...]) -> _T:
        if not isinstance(value, types):
            raise self._error(f"{call} returned {type(value).__name__}, not {types[0].__name__}")
        return value

    @contextmanager
    def _blamed(self, call: str) -> Iterator[None]:
        try:
            yield
        except (SchemegenError, MemoryError, OSError):
            raise
        except (Exception, SystemExit) as error:
            raise self._error(f"{call} raised {type(error).__name__}: {error}") from error
