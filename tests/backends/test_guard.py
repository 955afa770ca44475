"""A backend that breaks its contract is blamed by name."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from schemegen.backends.base import Backend, Batch, Buffers, Job, Needs
from schemegen.backends.guard import GuardedBackend, attribute_fault
from schemegen.errors import CheckpointError, OutputError, PluginError
from schemegen.formats import DTYPE_BITS
from schemegen.planner import Chunk
from schemegen.scheme import Format


class Odd(Backend):
    """Answers or raises what a test gives it."""

    name: ClassVar[str] = "odd"
    versions: ClassVar[tuple[str, ...]] = ("no-such-distribution",)

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def _do(self) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    def refuses(self, format: Format) -> Any:
        return self._do()

    def needs(self, plan: Any) -> Any:
        return self._do()

    def prepare(self, job: Job) -> None:
        self._do()

    def quantize_chunk(self, job: Job, chunk: Chunk, out: Buffers) -> None:
        if self.answer == "replace":
            out["weight_packed"] = None  # type: ignore[index]
        self._do()

    def quantize_batch(self, job: Job, batch: Batch) -> None:
        self.quantize_chunk(job, batch.chunks[0], batch.parts[0])

    def report(self) -> Any:
        return self._do()


NOTHING: Any = None
CHUNK: Any = SimpleNamespace(tensor=SimpleNamespace(pieces=()))
CALLS = {
    "refuses": lambda backend: backend.refuses(NOTHING),
    "needs": lambda backend: backend.needs(NOTHING),
    "prepare": lambda backend: backend.prepare(NOTHING),
    "quantize_chunk": lambda backend: backend.quantize_chunk(NOTHING, CHUNK, {}),
    "quantize_batch": lambda backend: backend.quantize_batch(NOTHING, Batch((CHUNK,), {}, ({},))),
    "report": lambda backend: backend.report(),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    "fault",
    [KeyError("x"), SystemExit(5), NotImplementedError(), GeneratorExit(), BaseException("x"), OSError(2, "none")],
    ids=repr,
)
def test_stray_exceptions_name_backend_distribution_and_call(call: str, fault: BaseException) -> None:
    with pytest.raises(PluginError, match=f"'backend odd' of acme 2.0: {call} raised {type(fault).__name__}"):
        CALLS[call](GuardedBackend(Odd(fault), "acme 2.0"))


def test_an_error_on_purpose_is_no_answer() -> None:
    with pytest.raises(PluginError, match=r"'backend odd' of acme 2\.0: refuses raised CheckpointError: bad"):
        CALLS["refuses"](GuardedBackend(Odd(CheckpointError("bad")), "acme 2.0"))
    own = PluginError("a", "b", "c", "d")
    with pytest.raises(PluginError, match="plugin 'a' of b c: d"):
        CALLS["refuses"](GuardedBackend(Odd(own), "acme 2.0"))


@pytest.mark.parametrize("call", CALLS)
def test_errors_on_purpose_and_interrupts_pass(call: str) -> None:
    on_purpose = [] if call == "refuses" else [CheckpointError("bad")]
    for fault in (*on_purpose, KeyboardInterrupt(), MemoryError()):
        with pytest.raises(type(fault)):
            CALLS[call](GuardedBackend(Odd(fault), "acme 2.0"))


@pytest.mark.parametrize("call", CALLS)
def test_a_full_disk_is_not_the_backends_fault(call: str) -> None:
    told = r"backend odd cannot write \(\[Errno 28\] full: 'scratch/x'\); make room"
    with pytest.raises(OutputError, match=told):
        CALLS[call](GuardedBackend(Odd(OSError(28, "full", "scratch/x")), "acme 2.0"))


@pytest.mark.parametrize("asked", [-1, "x", float("nan"), 1.5, True, None])
def test_scratch_space_is_a_whole_number(asked: Any) -> None:
    with pytest.raises(PluginError, match=r"acme 2\.0: needs asks for .* bytes of scratch space"):
        GuardedBackend(Odd(Needs(asked)), "acme 2.0").needs(NOTHING)
    assert GuardedBackend(Odd(Needs(5)), "acme 2.0").needs(NOTHING) == Needs(5)


@pytest.mark.parametrize(("call", "answer"), [("refuses", 3), ("needs", None), ("report", "text"), ("report", (1,))])
def test_wrong_answers_are_named(call: str, answer: Any) -> None:
    with pytest.raises(PluginError, match=f"{call} returned"):
        CALLS[call](GuardedBackend(Odd(answer), "acme 2.0"))


@pytest.mark.parametrize("call", ["quantize_chunk", "quantize_batch"])
def test_buffers_are_filled_and_never_replaced(call: str) -> None:
    with pytest.raises(PluginError, match=f"{call} raised TypeError"):
        CALLS[call](GuardedBackend(Odd("replace"), "acme 2.0"))


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("cuda", "devices returned str, not tuple"),
        ((1,), "returned int, not str"),
        ((), r"acme 2.0: devices is '\(\)', and must name cpu or cuda, or both"),
        (("cpu", "mps"), "acme 2.0: devices is .*mps.*, and must name cpu or cuda, or both"),
        (property(lambda self: 1 // 0), "acme 2.0: devices raised ZeroDivisionError"),
    ],
)
def test_wrong_devices_are_named(answer: Any, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Odd, "devices", answer)
    with pytest.raises(PluginError, match=told):
        GuardedBackend(Odd(None), "acme 2.0").devices()


def test_same_bits_as_is_a_name_or_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    guarded = GuardedBackend(Odd(None), "acme 2.0")
    found = []
    for name in (None, "acme-quantizer"):
        monkeypatch.setattr(Odd, "same_bits_as", lambda self, plan, name=name: name)
        found.append(guarded.same_bits_as(NOTHING))
    assert found == [None, "acme-quantizer"]
    monkeypatch.setattr(Odd, "same_bits_as", lambda self, plan: True)
    with pytest.raises(PluginError, match="same_bits_as returned bool, not str"):
        guarded.same_bits_as(NOTHING)


class Fills(Backend):
    """Writes one value into every buffer."""

    name: ClassVar[str] = "fills"

    def __init__(self, value: int) -> None:
        self.value = value

    def refuses(self, format: Format) -> None:
        return None

    def quantize_chunk(self, job: Job, chunk: Chunk, out: Buffers) -> None:
        for items in out.values():
            items[...] = self.value

    def quantize_batch(self, job: Job, batch: Batch) -> None:
        self.quantize_chunk(job, batch.chunks[0], batch.out)


@pytest.mark.parametrize("is_batch", [False, True])
@pytest.mark.parametrize(
    ("suffix", "dtype", "shape", "bits", "is_wrong"),
    [
        ("weight_scale", "BF16", (2, 3, 4), 0x3F80, False),
        ("weight_scale", "BF16", (2, 3, 4), 0xBF80, False),
        ("weight_scale", "BF16", (2, 3, 4), 0, True),
        ("weight_scale", "BF16", (2, 3, 4), 0x8000, True),
        ("weight_scale", "F16", (2, 1), 0x7C00, True),
        ("weight_scale", "F8_E4M3", (1, 3, 4), 0x7E, False),
        ("weight_scale", "F8_E4M3", (1, 3, 4), 0x7F, True),
        ("weight_scale", "F8_E4M3", (1, 3, 4), 0x80, True),
        ("weight_scale", "U8", (1, 3, 4), 0, False),
        ("weight_scale", "U8", (1, 3, 4), 0xFF, True),
        ("weight_global_scale", "F32", (1, 1), 0x3F800000, False),
        ("weight_global_scale", "F32", (1, 1), 0x7F800000, True),
        # Of a later block of rows nothing of the whole matrix is due.
        ("weight_global_scale", "F32", (1, 0), 0x7F800000, False),
        ("weight", "I8", (1, 3, 4), 0x80, False),
        ("weight", "F8_E4M3", (1, 3, 4), 0, False),
        ("weight_zero_point", "I32", (1, 1, 4), 0, False),
    ],
)
def test_scales_by_which_nothing_can_be_decoded_are_the_backends_fault(
    suffix: str, dtype: str, shape: tuple[int, ...], bits: int, is_wrong: bool, is_batch: bool
) -> None:
    out = {suffix: np.zeros(shape, f"u{DTYPE_BITS[dtype] // 8}")}
    piece = SimpleNamespace(suffix=suffix, dtype=dtype)
    chunk: Any = SimpleNamespace(tensor=SimpleNamespace(name="t", pieces=(piece,)))
    guarded = GuardedBackend(Fills(bits), "acme 2.0")
    told = pytest.raises(PluginError, match="it wrote a scale of tensor t that is NaN, infinite or zero")
    with told if is_wrong else nullcontext():
        if is_batch:
            guarded.quantize_batch(NOTHING, Batch((chunk,), out, (out,)))
        else:
            guarded.quantize_chunk(NOTHING, chunk, out)


def test_a_device_that_fails_is_not_the_backends_fault() -> None:
    guarded = GuardedBackend(Odd(RuntimeError("CUDA error: unspecified launch failure")), "acme 2.0")
    job: Any = SimpleNamespace(device="cuda:1")
    with pytest.raises(OutputError, match="cuda:1 failed"):
        guarded.quantize_chunk(job, NOTHING, {})


def test_what_reads_like_a_gpus_fault_is_the_backends_where_there_is_none() -> None:
    guarded = GuardedBackend(Odd(RuntimeError("CUDA error: unspecified launch failure")), "acme 2.0")
    job: Any = SimpleNamespace(device="cpu")
    with pytest.raises(PluginError, match="quantize_chunk raised RuntimeError: CUDA error"):
        guarded.quantize_chunk(job, NOTHING, {})


@pytest.mark.parametrize(
    ("names", "told"),
    [(("",), "recorded raised ValueError"), (("../x",), "versions names"), ((1,), "returned int")],
)
def test_names_of_distributions_that_cannot_be_are_the_backends_fault(
    names: Any, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Odd, "versions", names)
    with pytest.raises(PluginError, match=told):
        GuardedBackend(Odd(None), "acme 2.0").versions(NOTHING)


def test_missing_distributions_are_named() -> None:
    with pytest.raises(PluginError, match="no-such-distribution"):
        GuardedBackend(Odd(None), "acme 2.0").versions(NOTHING)


@pytest.mark.parametrize(
    ("attribute", "value", "told"),
    [
        ("summary", None, "summary is NoneType None, and must be text"),
        ("method", "My Method", "method is str 'My Method', and must be a name; use lower-case"),
        ("versions", "torch", "versions is str 'torch', and must be a tuple of names of distributions"),
        ("versions", (1,), "versions is tuple (1,), and must be"),
        ("devices", (), "devices is tuple (), and must be a tuple of cpu or cuda, or both"),
        ("devices", ["cpu"], "devices is list ['cpu'], and must be"),
        ("devices", ("mps",), "devices is tuple ('mps',), and must be"),
        ("options", {}, "options is dict {}, and must be a pydantic model, the class, or None"),
        ("options", Format, None),
        ("devices", ("cuda", "cpu"), None),
    ],
)
def test_what_a_backend_says_of_itself_is_checked(
    attribute: str, value: Any, told: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Odd, attribute, value)
    found = attribute_fault(Odd(None))
    assert found is None if told is None else found is not None and found.startswith(told)


def test_an_exception_is_told_in_one_plain_line() -> None:
    with pytest.raises(
        PluginError, match=r"refuses raised ValueError: \\x1b\[31mred and on \(test_guard\.py, line \d+\)$"
    ):
        GuardedBackend(Odd(ValueError("\x1b[31mred\nand on")), "acme 2.0").refuses(NOTHING)
