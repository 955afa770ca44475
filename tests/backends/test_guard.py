"""A backend that breaks its contract is blamed by name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from schemegen.backends.base import Backend, Batch, Buffers, Job
from schemegen.backends.guard import GuardedBackend
from schemegen.errors import CheckpointError, OutputError, PluginError
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

    def report(self) -> Any:
        return self._do()


NOTHING: Any = None
CALLS = {
    "refuses": lambda backend: backend.refuses(NOTHING),
    "needs": lambda backend: backend.needs(NOTHING),
    "prepare": lambda backend: backend.prepare(NOTHING),
    "quantize_chunk": lambda backend: backend.quantize_chunk(NOTHING, NOTHING, {}),
    "quantize_batch": lambda backend: backend.quantize_batch(NOTHING, Batch((NOTHING,), {}, ({},))),
    "report": lambda backend: backend.report(),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("fault", [KeyError("x"), SystemExit(5), NotImplementedError()], ids=repr)
def test_stray_exceptions_name_backend_distribution_and_call(call: str, fault: BaseException) -> None:
    with pytest.raises(PluginError, match=f"'backend odd' of acme 2.0: {call} raised {type(fault).__name__}"):
        CALLS[call](GuardedBackend(Odd(fault), "acme 2.0"))


@pytest.mark.parametrize("call", CALLS)
def test_errors_on_purpose_and_interrupts_pass(call: str) -> None:
    for fault in (CheckpointError("bad"), KeyboardInterrupt(), OSError(28, "full")):
        with pytest.raises(type(fault)):
            CALLS[call](GuardedBackend(Odd(fault), "acme 2.0"))


@pytest.mark.parametrize(("call", "answer"), [("refuses", 3), ("needs", None), ("report", "text"), ("report", (1,))])
def test_wrong_answers_are_named(call: str, answer: Any) -> None:
    with pytest.raises(PluginError, match=f"{call} returned"):
        CALLS[call](GuardedBackend(Odd(answer), "acme 2.0"))


@pytest.mark.parametrize("call", ["quantize_chunk", "quantize_batch"])
def test_buffers_are_filled_and_never_replaced(call: str) -> None:
    with pytest.raises(PluginError, match=f"{call} raised TypeError"):
        CALLS[call](GuardedBackend(Odd("replace"), "acme 2.0"))


@pytest.mark.parametrize(
    ("answer", "told"), [("cuda", "devices returned str, not tuple"), ((1,), "returned int, not str")]
)
def test_wrong_devices_are_named(answer: Any, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Odd, "devices", answer)
    with pytest.raises(PluginError, match=told):
        GuardedBackend(Odd(None), "acme 2.0").devices()


def test_a_device_that_fails_is_not_the_backends_fault() -> None:
    guarded = GuardedBackend(Odd(RuntimeError("CUDA error: unspecified launch failure")), "acme 2.0")
    job: Any = SimpleNamespace(device="cuda:1")
    with pytest.raises(OutputError, match="cuda:1 failed"):
        guarded.quantize_chunk(job, NOTHING, {})


def test_missing_distributions_are_named() -> None:
    with pytest.raises(PluginError, match="no-such-distribution"):
        GuardedBackend(Odd(None), "acme 2.0").versions()
