"""The model card: what was quantized and what was kept, the sizes, how to serve it and how to make it again."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final

from schemegen.architectures.base import Part
from schemegen.checkpoint.model import Checkpoint
from schemegen.engines import first_expert
from schemegen.formats import DTYPE_BITS, storage_of
from schemegen.manifest import CARD_NAME, travel_names
from schemegen.planner import Action, Plan
from schemegen.planner.model import RoleTotals
from schemegen.scheme import Format
from schemegen.seal.front_matter import front_matter_of, hub_id, rendered

_METHODS: Final = {"rtn": "RTN (round-to-nearest, data-free)"}
_FIRST: Final = ("gate_proj", "up_proj", "down_proj")
_NUMBER: Final = re.compile(r"\.\d+(?=\.|$)")
_LAYERS: Final = re.compile(r"^.*?\.?layers\.\d+\.")


def default_name(model_id: str, scheme_name: str) -> str:
    """What an output is called: `<model>-<scheme>`, fit for a folder and a Hub repository."""
    last = model_id.removeprefix("sample:").rpartition("/")[2]
    return f"{re.sub(r'[^A-Za-z0-9._-]+', '-', last).strip('-.') or 'model'}-{scheme_name}"


def card(
    plan: Plan,
    checkpoint: Checkpoint,
    backend: str,
    versions: Mapping[str, str],
    report: Sequence[str],
    command: Sequence[str],
) -> str:
    """The text of README.md. `command` are the words that make the output again."""
    from importlib.resources import files

    import jinja2

    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    template = files("schemegen.seal").joinpath("card.md.jinja").read_text(encoding="utf-8")
    text = environment.from_string(template).render(
        **_identity(plan, checkpoint),
        command=shlex.join(map(_one_line, command)),
        own_files=[_one_line(word) for word in command if word.endswith(".yaml")],
        **_quantization(plan),
        **_contents(plan),
        backend=backend,
        backend_versions="".join(f", {name} {number}" for name, number in versions.items()),
        notes=[_one_line(note) for note in _notes(plan, checkpoint, report)],
    )
    return re.sub(r"\n{3,}", "\n\n", text)


def _identity(plan: Plan, checkpoint: Checkpoint) -> dict[str, Any]:
    """Names, links and license."""
    inherited = front_matter_of(checkpoint)
    hub = hub_id(plan.model_id)
    readme = travel_names([file.name for file in checkpoint.side_files]).get(CARD_NAME)
    return {
        "front_matter": rendered(inherited, hub),
        "name": default_name(plan.model_id, plan.scheme.name),
        "base_link": f"[{hub}](https://huggingface.co/{hub})" if hub else f"`{_one_line(plan.model_id)}`",
        "version": version("schemegen"),
        "scheme": plan.scheme,
        "license": _one_line(inherited.get("license_name") or inherited.get("license") or ""),
        "own_readme": f"; the base model's card is {readme}" if readme else "",
        "model_word": shlex.quote(_one_line(plan.model_id)),
    }


def _quantization(plan: Plan) -> dict[str, Any]:
    found = next(plan.format_of(tensor) for tensor in plan.tensors if tensor.format is not None)
    weights, bits = found.weights, _activation_bits(plan, found)
    kind = "integer" if weights.type == "int" else "floating-point"
    group = "" if weights.group_size is None else f", group_size = {weights.group_size}"
    return {
        "method": _METHODS[plan.scheme.method],
        "precision": f"W{weights.num_bits}A{bits} ({weights.num_bits}-bit {kind} weights, {bits}-bit activations)",
        "precision_words": f"{'INT' if weights.type == 'int' else 'FP'}{weights.num_bits} quantization",
        "strategy": weights.strategy + group,
        "symmetric": str(weights.symmetric).lower(),
        "storage": storage_of(found),
    }


def _activation_bits(plan: Plan, found: Format) -> int:
    if found.input_activations is not None:
        return found.input_activations.num_bits
    return max(DTYPE_BITS[tensor.source.dtype] for tensor in plan.tensors if tensor.format is not None)


def _contents(plan: Plan) -> dict[str, Any]:
    """Sizes, and what is quantized and kept by role."""
    rows = plan.totals.by_role
    dtypes = {tensor.source.dtype for tensor in plan.tensors if tensor.action is Action.COPY}
    return {
        "size_in": _size(plan.totals.bytes_in),
        "size_out": _size(plan.totals.bytes_out),
        "ratio": f"{plan.totals.bytes_in / plan.totals.bytes_out:.2f}",
        "rows": [_row(row) for row in rows],
        "quantized": f"{_quantized(rows)} ({', '.join(f'`{name}`' for name in _patterns(plan))})",
        "kept_dtypes": ", ".join(sorted(dtypes)) or "place",
        "kept": _kept(rows),
        "mtp": _mtp([row for row in rows if row.part is Part.MTP]),
        "has_mtp": any(row.part is Part.MTP for row in rows),
        "has_vision": any(row.part is Part.VISION for row in rows),
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
    """The quantized roles, each with the parts it stands in."""
    parts: dict[str, list[str]] = {}
    for row in rows:
        if row.action is not Action.COPY:
            parts.setdefault(_words(row.role), []).append(row.part)
    return "; ".join(f"{role} of {' and '.join(dict.fromkeys(found))}" for role, found in parts.items())


def _kept(rows: Sequence[RoleTotals]) -> str:
    """The kept roles of parts that are quantized in part, and the parts that are kept whole."""
    touched = {row.part for row in rows if row.action is not Action.COPY}
    kept = [row for row in rows if row.action is Action.COPY]
    roles = [_words(row.role) for row in kept if row.part in touched]
    whole = [f"all of {row.part}" for row in kept if row.part not in touched]
    return ", ".join(dict.fromkeys([*roles, *whole])) or "nothing"


def _patterns(plan: Plan) -> list[str]:
    """The quantized modules with `*` for layers and experts, the last words of one parent together."""
    words: dict[str, dict[str, None]] = {}
    for tensor in plan.tensors:
        if tensor.format is not None:
            for output in tensor.outputs[:: len(tensor.pieces)]:
                module = first_expert(output.name.rpartition(".")[0])
                parent, _, last = _LAYERS.sub("*.", module).rpartition(".")
                words.setdefault(_NUMBER.sub(".*", parent), {})[last] = None
    return [f"{parent}.{_braced(list(found))}" for parent, found in words.items()]


def _braced(words: list[str]) -> str:
    known = [word for word in _FIRST if word in words]
    ordered = known + [word for word in words if word not in known]
    return ordered[0] if len(ordered) == 1 else "{" + ",".join(ordered) + "}"


def _mtp(rows: Sequence[RoleTotals]) -> str:
    count = sum(row.tensors_in for row in rows)
    changed = ", ".join(dict.fromkeys(_words(row.role) for row in rows if row.action is not Action.COPY))
    if not rows:
        return "MTP: the base model stores no MTP block."
    if not changed:
        return f"MTP: the whole block is kept as shipped, {count} tensors."
    fate = f"its {changed} tensors are quantized, the rest is kept as shipped"
    return f"MTP: the block is complete, {count} tensors; {fate}."


def _notes(plan: Plan, checkpoint: Checkpoint, report: Sequence[str]) -> Iterator[str]:
    yield from plan.notes
    yield from report
    if checkpoint.unindexed:
        yield "Left out, since the index does not name them: " + ", ".join(file.name for file in checkpoint.unindexed)


def _one_line(text: str) -> str:
    """Text from outside, fit for a line or a cell of Markdown."""
    return re.sub(r"[\x00-\x1f`|<>\x7f]+", " ", text).strip()
