"""README's table of some schemes, and all of them in reference/schemes.md: from scheme files and from plans.

The plans are those of Qwen3.6-35B-A3B's layout.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Final

from bench.checkpoints import FULL
from bench.schemes import headers_of, plan_of, schemes
from docs.writing.markdown import block
from schemegen.architectures.base import Part, Role
from schemegen.catalog import load_catalog
from schemegen.data import schemes_folder
from schemegen.engines.serving import ENGINES
from schemegen.formats import storage_of
from schemegen.formats.words import activations_in_words, bits_in_words, in_short, observer_in_words, weights_in_words
from schemegen.planner import Plan

_OTHERS: Final = (Role.ATTENTION, Role.LINEAR_ATTENTION, Role.SHARED_EXPERT, Role.MLP)
_BF16: Final = 16
#: The schemes to begin with, which README shows.
FIRST: Final = (
    *("kimi-k2-int4", "w4a16-g32", "w4a16-g32-signed", "int4-int8-mix", "int4-fp8-mix", "nvfp4-fp8-mix"),
    *("fp8-dynamic", "w8a16"),
)


@cache
def full_plans() -> tuple[Plan, ...]:
    """The full-size model under every built-in scheme, in reading order."""
    checkpoint, catalog = headers_of(FULL), load_catalog()
    return tuple(plan_of(scheme, checkpoint, catalog) for scheme in schemes())


def readme() -> Iterator[str]:
    """The schemes to begin with."""
    by_name = {plan.scheme.name: plan for plan in full_plans()}
    return table(by_name[name] for name in FIRST)


def table(plans: Iterable[Plan]) -> Iterator[str]:
    """A row a scheme: its formats by role, bits, size, engines."""
    yield "| scheme | routed experts | other linear layers of text | bits | Qwen3.6-35B-A3B | served by |"
    yield "|---|---|---|---|--:|---|"
    for plan in plans:
        engines = ", ".join(ENGINES.get(engine, engine) for engine in plan.scheme.served_by)
        cells = (f"`{plan.scheme.name}`", _experts(plan), _others(plan), _bits(plan), _size(plan), engines)
        yield f"| {' | '.join(cells)} |"


def sections() -> Iterator[str]:
    """The table, and a section a scheme."""
    yield from (*table(full_plans()), "")
    for plan in full_plans():
        yield from _section(plan)


def _section(plan: Plan) -> Iterator[str]:
    scheme = plan.scheme
    yield from (f"## {scheme.name}", "", f"{scheme.summary}.", "")
    for name, found in scheme.formats.items():
        activations = activations_in_words(found.input_activations)
        yield f"- format `{name}`: {weights_in_words(found)}; activations {activations};"
        yield f"  scales from {observer_in_words(found.weights)}; stored as `{storage_of(found)}`"
    ratio = plan.totals.bytes_in / plan.totals.bytes_out
    yield f"- size of Qwen3.6-35B-A3B: {_size(plan)} of tensors, {ratio:.2f} times smaller"
    yield from (f"- {ENGINES.get(engine, engine)}: {told}" for engine, told in scheme.served_by.items())
    file = (schemes_folder() / f"{scheme.name}.yaml").read_text(encoding="utf-8")
    yield from (f"- reference: <{scheme.reference}>", "", *block("yaml", file))


def _experts(plan: Plan) -> str:
    parts = [row.part for row in plan.totals.by_role if row.role is Role.ROUTED_EXPERT and row.format is not None]
    return _formats(plan, (Role.ROUTED_EXPERT,)) + (", MTP's too" if Part.MTP in parts else "")


def _others(plan: Plan) -> str:
    head = any(row.role is Role.LM_HEAD and row.format is not None for row in plan.totals.by_role)
    return _formats(plan, _OTHERS) + (", lm_head too" if head else "")


def _formats(plan: Plan, roles: Sequence[Role]) -> str:
    rows = [row for row in plan.totals.by_role if row.role in roles and row.part is Part.TEXT]
    names = dict.fromkeys(row.format for row in rows)
    return "; ".join("as shipped" if name is None else in_short(plan.scheme.formats[name]) for name in names)


def _bits(plan: Plan) -> str:
    return ", ".join(dict.fromkeys(bits_in_words(found, _BF16) for found in plan.scheme.formats.values()))


def _size(plan: Plan) -> str:
    return f"{plan.totals.bytes_out / 1e9:.1f} GB"
