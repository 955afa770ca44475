"""A backend behind a guard: whatever it does wrong is a PluginError that names it, and is not published."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import BaseModel

from schemegen.backends.base import Backend, Batch, Buffers, Job, Needs
from schemegen.backends.faults import device_faults
from schemegen.backends.options import option_faults
from schemegen.backends.ranges import wide_range
from schemegen.blame import Guard
from schemegen.errors import OutputError, PluginError, SchemegenError, shortened
from schemegen.kernels.floats import first_unusable
from schemegen.registry import NAME_PATTERN, NAME_RULE, typed

if TYPE_CHECKING:
    from schemegen.planner import Chunk, Plan
    from schemegen.scheme import Format

_T = TypeVar("_T")
_KINDS: Final = ("cpu", "cuda")
#: Calls that ask something and do nothing: an error on purpose is no answer to them.
_ANSWERS: Final = ("refuses", "refuses_weights", "same_bits_as", "method", "options", "devices")
_FULL_DISK: Final = (errno.ENOSPC, errno.EDQUOT)
#: By attribute of a backend, what it must be.
_WANTED: Final = {
    "summary": "text",
    "method": f"a name; {NAME_RULE}",
    "versions": "a tuple of names of distributions",
    "devices": f"a tuple of {' or '.join(_KINDS)}, or both",
    "options": "a pydantic model, the class, or None",
}


class GuardedBackend:
    """Calls a backend and turns its stray exceptions and wrong answers into a PluginError with its origin."""

    def __init__(self, backend: Backend, origin: str) -> None:
        self.backend = backend
        self.name = backend.name
        self._guard = Guard(f"backend {self.name}", origin)

    def refuses(self, format: Format) -> str | None:
        """Why the backend cannot produce the format, or None."""
        with self._blamed("refuses"):
            return self._typed("refuses", self.backend.refuses(format), (str, type(None)))

    def refuses_weights(self, format: Format, dtype: str, columns: int) -> str | None:
        """Why the backend cannot produce the format from weights of this dtype and width, or None."""
        with self._blamed("refuses_weights"):
            return self._typed(
                "refuses_weights", self.backend.refuses_weights(format, dtype, columns), (str, type(None))
            )

    def needs(self, plan: Plan) -> Needs:
        """What the run needs beyond memory."""
        with self._blamed("needs"):
            needs = self._typed("needs", self.backend.needs(plan), (Needs,))
        if type(needs.scratch_bytes) is not int or needs.scratch_bytes < 0:
            raise self._error(f"needs asks for {shortened(repr(needs.scratch_bytes))} bytes of scratch space")
        return needs

    def prepare(self, job: Job) -> None:
        """Load, compile or calibrate."""
        with self._blamed("prepare"), device_faults(job):
            self.backend.prepare(job)

    def quantize_chunk(self, job: Job, chunk: Chunk, out: Buffers) -> None:
        """Fill every buffer of `out`; neither the mapping nor an array's shape can be changed."""
        with self._blamed("quantize_chunk"), device_faults(job):
            self.backend.quantize_chunk(job, chunk, _lent(out))
        self._check_scales(job, chunk, out)

    def quantize_batch(self, job: Job, batch: Batch) -> None:
        """Fill every buffer of the batch; neither the mappings nor an array's shape can be changed."""
        with self._blamed("quantize_batch"), device_faults(job):
            self.backend.quantize_batch(job, Batch(batch.chunks, _lent(batch.out), tuple(map(_lent, batch.parts))))
        for chunk, out in zip(batch.chunks, batch.parts, strict=True):
            self._check_scales(job, chunk, out)

    def report(self) -> tuple[str, ...]:
        """Remarks for the card."""
        with self._blamed("report"):
            return self._names("report", self.backend.report())

    def versions(self, plan: Plan) -> Mapping[str, str]:
        """The versions of the distributions that decide the plan's bits."""
        with self._blamed("recorded"):
            names = self._names("recorded", self.backend.recorded(plan))
            try:
                return {name: self._typed("version", version(name), (str,)) for name in names}
            except PackageNotFoundError as error:
                raise self._error(f"versions names {error.name}, which is not installed") from None

    @property
    def takes_batches(self) -> bool:
        """Whether it is the backend that computes on devices, chunk by chunk, and not its `prepare` alone."""
        return type(self.backend).quantize_batch is not Backend.quantize_batch

    def same_bits_as(self, plan: Plan) -> str | None:
        """The program that makes the very bits of this plan."""
        with self._blamed("same_bits_as"):
            return self._typed("same_bits_as", self.backend.same_bits_as(plan), (str, type(None)))

    @property
    def method(self) -> str:
        """What schemes call its way to compute."""
        with self._blamed("method"):
            return self._typed("method", self.backend.method, (str,))

    def option_faults(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        """What is wrong with the options a scheme gives its method, each as "field: message"."""
        with self._blamed("options"):
            model = self._typed("options", self.backend.options, (type, type(None)))
            return option_faults(model, options)

    def devices(self) -> tuple[str, ...]:
        """The kinds of device it computes on."""
        with self._blamed("devices"):
            kinds = self._names("devices", self.backend.devices)
        if not kinds or not set(kinds) <= set(_KINDS):
            raise self._error(f"devices is {shortened(repr(kinds))}, and must name {' or '.join(_KINDS)}, or both")
        return kinds

    def _check_scales(self, job: Job, chunk: Chunk, out: Buffers) -> None:
        """Scales by which no weight can be decoded are the backend's fault, but where the weights leave it no other."""
        dtypes = {piece.suffix: piece.dtype for piece in chunk.tensor.pieces if piece.suffix.endswith("_scale")}
        for suffix, dtype in dtypes.items():
            scales = out.get(suffix)
            if scales is not None and (first := first_unusable(scales, dtype)) >= 0:
                told = f"it wrote a scale of tensor {chunk.tensor.name} that is NaN, infinite or zero"
                raise wide_range(job, chunk, first) or self._error(told)

    def _names(self, call: str, values: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(self._typed(call, value, (str,)) for value in self._typed(call, values, (tuple,)))

    def _error(self, reason: str) -> PluginError:
        return self._guard.error(reason)

    def _typed(self, call: str, value: _T, types: tuple[type, ...]) -> _T:
        if not isinstance(value, types):
            raise self._error(f"{call} returned {type(value).__name__}, not {types[0].__name__}")
        return value

    @contextmanager
    def _blamed(self, call: str) -> Iterator[None]:
        with self._guard.blamed(call, (PluginError, OutputError) if call in _ANSWERS else (SchemegenError,)):
            try:
                yield
            except OSError as error:
                if error.errno not in _FULL_DISK:
                    raise
                told = f"backend {self.name} cannot write ({error}); make room and run the same command again to go on"
                raise OutputError(told) from error


def attribute_fault(backend: Backend) -> str | None:
    """What is wrong with what a backend says of itself, or None: found when it is registered, not in a run."""
    told: dict[str, Any] = {name: getattr(backend, name) for name in _WANTED}
    model = told["options"]
    right = {
        "summary": isinstance(told["summary"], str),
        "method": isinstance(told["method"], str) and NAME_PATTERN.fullmatch(told["method"]),
        "versions": _are_names(told["versions"]),
        "devices": _are_names(told["devices"]) and told["devices"] and set(told["devices"]) <= set(_KINDS),
        "options": model is None or (isinstance(model, type) and issubclass(model, BaseModel)),
    }
    wrong = next((name for name, is_right in right.items() if not is_right), None)
    return wrong and f"{wrong} is {typed(told[wrong])}, and must be {_WANTED[wrong]}"


def _are_names(values: object) -> bool:
    return isinstance(values, tuple) and all(isinstance(value, str) for value in values)


def _lent(out: Buffers) -> Buffers:
    """The same memory, in arrays whose shape, strides and dtype are the guest's own to set."""
    return MappingProxyType({suffix: items.view() for suffix, items in out.items()})
