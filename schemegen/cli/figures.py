"""Numbers as people read them: decimal units, three digits."""

from __future__ import annotations

from typing import Final

UNITS: Final = (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3), ("B", 1))
_MINUTE: Final = 60
_HOUR: Final = 3600


def size(nbytes: float) -> str:
    """Bytes with three digits: "24.4 GB"."""
    unit, scale = _unit(nbytes)
    return f"{_three(nbytes / scale) if scale > 1 else round(nbytes)} {unit}"


def size_of(done: float, total: float) -> str:
    """Bytes done of a total, both in the total's unit: "1.2 of 3.3 GB"."""
    unit, scale = _unit(total)
    digits = 0 if scale == 1 else 1
    return f"{done / scale:.{digits}f} of {total / scale:.{digits}f} {unit}"


def change(before: int, after: int) -> str:
    """Bytes before and after: "71.9 GB to 24.4 GB, 2.94 times smaller"."""
    words = f"{size(before)} to {size(after)}"
    return f"{words}, {before / after:.2f} times smaller" if 0 < after < before else words


def bits(value: float | None) -> str:
    """Bits for each weight: "4.50"; nothing where there is no weight."""
    return "" if value is None else f"{value:.2f}"


def rate(nbytes: float, seconds: float) -> str:
    """Bytes per second: "1.61 GB/s"; nothing where no time has passed."""
    return f"{size(nbytes / seconds)}/s" if seconds > 0 else ""


def count(number: int) -> str:
    """A whole number in groups of three digits: "95,427"."""
    return f"{number:,}"


def plural(number: int, word: str) -> str:
    """A count and its word: "1 shard", "26 shards"."""
    return f"{count(number)} {word}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """A span of time with three digits: "1.52 s", "45.0 s", "2 min 05 s", "1 h 02 min"."""
    return f"{_three(seconds)} s" if seconds < _MINUTE - 0.05 else coarse(seconds)


def coarse(seconds: float) -> str:
    """A span of time in whole seconds, at least one: "1 s", "45 s", "2 min 05 s", "1 h 02 min"."""
    whole = max(1, round(seconds))
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE:02d} s"
    return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE:02d} min"


def _unit(nbytes: float) -> tuple[str, int]:
    """The largest unit of which there is at least one, to three digits."""
    return next(((unit, scale) for unit, scale in UNITS if nbytes >= 0.9995 * scale), UNITS[-1])


def _three(value: float) -> str:
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{digits}f}"
