"""What a backend answers before anything starts: which formats it takes, and why no others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from schemegen.backends.guard import GuardedBackend
from schemegen.errors import SchemegenError
from schemegen.formats import WEIGHT_DTYPES, refuses
from schemegen.formats.words import in_short
from schemegen.scheme import Format
from schemegen.testing.findings import Findings, told
from schemegen.testing.probe_formats import odd_formats, unheld_formats
from schemegen.testing.probe_model import TALL, WIDER, Use

_SHOWN: Final = 3


def formats_taken(backend: GuardedBackend, asked: Iterable[Format], findings: Findings) -> list[Format]:
    """Which of the formats it takes; every other one has a reason, and it answers whatever it is asked."""
    for format in odd_formats():
        _is_taken(backend, format, findings)
    for format in unheld_formats():
        if _is_taken(backend, format, findings):
            findings.add(in_short(format), "is taken, and nothing stores the scales of its activations; refuse it")
    asked = list(asked)
    taken = [format for format in asked if _is_taken(backend, format, findings)]
    if not taken and not findings:
        reasons = "; ".join(f"{in_short(f)}: {backend.refuses(f)}" for f in asked[:_SHOWN])
        findings.add("formats", f"none of {len(asked)} is taken ({reasons}, …); give the ones it takes as formats")
    return taken


def uses_taken(backend: GuardedBackend, formats: Iterable[Format], columns: int, findings: Findings) -> list[Use]:
    """The formats on weights of every dtype that it takes."""
    asked, widths = [Use(format, dtype) for format in formats for dtype in WEIGHT_DTYPES], (columns, WIDER * columns)
    taken = [use for use in asked if all(_is_usable(backend, use, width, findings) for width in widths)]
    if asked and not taken and not findings:
        findings.add("formats", f"refuses_weights takes no weights of {', '.join(WEIGHT_DTYPES)} in any of them")
    return taken


def _is_taken(backend: GuardedBackend, format: Format, findings: Findings) -> bool:
    return _answer(lambda: backend.refuses(format), format, findings)


def _is_usable(backend: GuardedBackend, use: Use, columns: int, findings: Findings) -> bool:
    if reason := refuses(use.format, use.dtype, TALL, columns):
        findings.add(in_short(use.format), f"cannot be stored: {reason}")
        return False
    return _answer(lambda: backend.refuses_weights(use.format, use.dtype, columns), use.format, findings)


def _answer(ask: Callable[[], str | None], format: Format, findings: Findings) -> bool:
    """Whether the answer is None; an answer that is none is a finding."""
    try:
        reason = ask()
    except SchemegenError as error:
        findings.add(in_short(format), told(error))
        return False
    if reason is not None and not reason.strip():
        findings.add(in_short(format), "is refused without a word; say why, or return None to take it")
    return reason is None
