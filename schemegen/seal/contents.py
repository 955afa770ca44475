"""What an output holds, in a card's words: sizes, and what is quantized and kept by role."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from schemegen.architectures.base import Part
from schemegen.planner import Action, Plan, RoleTotals
from schemegen.seal.patterns import Quantized


def contents(plan: Plan, quantized: Quantized) -> dict[str, Any]:
    """Sizes, and what is quantized and kept by role."""
    rows = plan.totals.by_role
    dtypes = {tensor.source.dtype for tensor in plan.tensors if tensor.action is Action.COPY}
    return {
        "size_in": _size(plan.totals.bytes_in),
        "size_out": _size(plan.totals.bytes_out),
        "ratio": f"{plan.totals.bytes_in / plan.totals.bytes_out:.2f}",
        "rows": [_row(row) for row in rows],
        "quantized": f"{_quantized(rows)} ({', '.join(f'`{name}`' for name in quantized.patterns)})",
        "kept_dtypes": ", ".join(sorted(dtypes)) or "place",
        "kept": _kept(rows),
        "mtp": _mtp([row for row in rows if row.part is Part.MTP]),
    }


def _size(nbytes: int) -> str:
    """Decimal and binary, in giga or, for what is small, mega."""
    if nbytes < 10**9:
        return f"{nbytes / 1e6:.2f} MB ({nbytes / 2**20:.2f} MiB)"
    return f"{nbytes / 1e9:.2f} GB ({nbytes / 2**30:.2f} GiB)"


def _row(row: RoleTotals) -> dict[str, str]:
    return {
        "part": row.part,
        "role": _words(row.role),
        "fate": f"quantized to {row.format}" if row.format else "kept",
        "tensors_in": f"{row.tensors_in:,}",
        "tensors_out": f"{row.tensors_out:,}",
        "parameters": f"{row.parameters:,}",
        "bytes_in": f"{row.bytes_in:,}",
        "bytes_out": f"{row.bytes_out:,}",
    }


def _words(role: str) -> str:
    return role.replace("_", " ")


def _quantized(rows: Iterable[RoleTotals]) -> str:
    """The quantized roles, each with the parts it stands in; by format where there are several."""
    formats: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        if row.format is not None:
            formats.setdefault(row.format, {}).setdefault(_words(row.role), []).append(row.part)
    told = {name: "; ".join(_placed(*found) for found in roles.items()) for name, roles in formats.items()}
    return "; ".join(f"{name}: {roles}" if len(told) > 1 else roles for name, roles in told.items())


def _placed(role: str, parts: Iterable[str]) -> str:
    return f"{role} of {' and '.join(dict.fromkeys(parts))}"


def _kept(rows: Sequence[RoleTotals]) -> str:
    """The kept roles of parts that are quantized in part, and the parts that are kept whole."""
    touched = {row.part for row in rows if row.action is not Action.COPY}
    kept = [row for row in rows if row.action is Action.COPY]
    roles = [_words(row.role) for row in kept if row.part in touched]
    whole = [f"all of {row.part}" for row in kept if row.part not in touched]
    return ", ".join(dict.fromkeys([*roles, *whole])) or "nothing"


def _mtp(rows: Sequence[RoleTotals]) -> str:
    count = sum(row.tensors_in for row in rows)
    changed = ", ".join(dict.fromkeys(_words(row.role) for row in rows if row.action is not Action.COPY))
    if not rows:
        return "MTP: the base model stores no MTP block."
    if not changed:
        return f"MTP: the whole block is kept as shipped, {count} tensors."
    fate = f"its {changed} tensors are quantized, the rest is kept as shipped"
    return f"MTP: the block is complete, {count} tensors; {fate}."
