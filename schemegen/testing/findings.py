"""What a conformance test found, told once for each fault of each format."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from schemegen.errors import PluginError, SchemegenError, VerificationError
from schemegen.formats.words import in_short

if TYPE_CHECKING:
    from schemegen.planner import Plan, PlannedTensor


def told(error: SchemegenError) -> str:
    """What an error says, less the plugin that it blames: there is but one."""
    return error.reason if isinstance(error, PluginError) else str(error)


class Findings:
    """Findings in the order they were made. A tensor that one is about is left out of what is checked after it."""

    def __init__(self, backend: str) -> None:
        self._backend = backend
        self._told: dict[tuple[str, str], list[str]] = {}
        self._faulty: set[str] = set()

    def add(self, about: str, fault: str, detail: str = "") -> None:
        """A fault, with a detail that may differ from one time to the next: the first is shown, the others counted."""
        self._told.setdefault((about, fault), []).append(detail)

    def add_of(self, plan: Plan, tensor: PlannedTensor, fault: str, detail: str = "") -> None:
        """A fault in what was made of a tensor; the tensor counts as faulty from now on."""
        self._faulty.add(tensor.name)
        shape = f"{tensor.source.dtype} weights of shape {list(tensor.source.shape)}"
        self.add(in_short(plan.format_of(tensor)), fault, f" ({shape}{detail and ', '}{detail})")

    def spares(self, tensor: PlannedTensor) -> bool:
        """Whether nothing was found in what was made of the tensor."""
        return tensor.name not in self._faulty

    @contextmanager
    def taking(self, about: str) -> Iterator[None]:
        """Take errors raised on purpose for findings."""
        try:
            yield
        except SchemegenError as error:
            self.add(about, told(error))

    def __bool__(self) -> bool:
        return bool(self._told)

    def raise_all(self) -> None:
        """VerificationError with every finding, if there is one."""
        if self._told:
            raise VerificationError([f"backend {self._backend}: {line}" for line in self._lines()])

    def _lines(self) -> Iterator[str]:
        for (about, fault), details in self._told.items():
            more = f", and {len(details) - 1} more" if len(details) > 1 else ""
            yield f"{about}: {fault}{details[0]}{more}"
