"""The llm-compressor script that makes an output's tensors again, where there is one that does so bit for bit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from schemegen.architectures.base import Architecture
from schemegen.engines import engine_modules, first_expert, matches
from schemegen.peer import PEER, RELEASE, peer_difference, scheme_words
from schemegen.planner import Action, Plan, PlannedTensor
from schemegen.scheme import Format
from schemegen.seal.base_model import hub_id
from schemegen.seal.patterns import Quantized, quantized_of
from schemegen.seal.sealing import Sealing

__all__ = ["RELEASE", "PeerScript", "peer_script"]

_IMPORT: Final = "from llmcompressor import model_free_ptq"
_SAMPLE: Final = "sample:"
_OPEN_SAMPLE: Final = "from schemegen.checkpoint import open_checkpoint"
_RAW: Final = re.compile(r"[ !#-\[\]-~\\]*[ !#-\[\]-~]", re.ASCII)


class PeerScript(NamedTuple):
    """The script, and whether it stores kept experts one by one that the output keeps stacked."""

    text: str
    unstacks: bool


class _Source(NamedTuple):
    """The Python expression for the model, and what it imports."""

    expression: str
    imports: tuple[str, ...] = ()


class _Group(NamedTuple):
    """A format, the modules that have it, and the patterns that pick them."""

    name: str
    format: Format
    modules: tuple[str, ...]
    targets: tuple[str, ...]


def peer_script(sealing: Sealing, quantized: Quantized, ignore: Sequence[str], name: str) -> PeerScript | None:
    """The script that makes the tensors of a plan in the folder `name`, or None where none is known to.

    `quantized` are the plan's modules, `ignore` are the entries of the output's quantization_config.
    """
    plan = sealing.plan
    # It takes every safetensors file of a folder for a shard.
    strays = any(file.name.lower().endswith(".safetensors") for file in sealing.checkpoint.unindexed)
    if strays or sealing.same_bits_as != PEER or peer_difference(plan):
        return None
    groups = list(_groups(plan))
    ignored = _ignored(groups, quantized, _kept(plan, sealing.architecture), ignore)
    if ignored is None:
        return None
    return PeerScript(_text(plan, groups, ignored, name), any(map(_is_kept_stack, plan.tensors)))


def _groups(plan: Plan) -> Iterator[_Group]:
    """The formats in plan order: a module is taken by the first whose targets match."""
    for name, format in plan.formats_used.items():
        tensors = tuple(tensor for tensor in plan.tensors if tensor.format == name)
        found = quantized_of(replace(plan, tensors=tensors))
        targets = tuple(f"re:.*{_target(parent, words)}$" for parent, words in found.words.items())
        yield _Group(name, format, found.modules, targets)


def _ignored(
    groups: Sequence[_Group], quantized: Quantized, kept: set[str], ignore: Sequence[str]
) -> Sequence[str] | None:
    """The entries that keep what the targets hit too much; None where that is not exactly the plan's choice."""
    hit = {name for name in kept if any(matches(name, group.targets) for group in groups)}
    needed = tuple(entry for entry in ignore if any(matches(name, [entry]) for name in hit))
    is_exact = (
        all(_are_first(groups[:number], group) for number, group in enumerate(groups))
        and not any(matches(name, needed) for name in quantized.modules)
        and all(matches(name, needed) for name in hit)
    )
    return needed if is_exact else None


def _are_first(before: Iterable[_Group], group: _Group) -> bool:
    """Whether all modules of a group match its targets, and none of the groups before it."""
    others = [target for other in before for target in other.targets]
    return all(matches(name, group.targets) and not matches(name, others) for name in group.modules)


def _target(parent: str, words: Sequence[str]) -> str:
    place = re.escape(parent).replace(r"\*", r"\d+").removeprefix(r"\d+\.")
    last = "|".join(map(re.escape, words)) if len(words) == 1 else f"({'|'.join(map(re.escape, words))})"
    return rf"{place}\.{last}" if place not in ("", r"\d+") else last


def _kept(plan: Plan, architecture: Architecture) -> set[str]:
    """Kept modules that it may quantize: whatever has a `.weight`, and experts once they are unstacked."""
    linear = {module.name for module in engine_modules(plan, architecture) if module.format is None}
    copied = (tensor.name for tensor in plan.tensors if tensor.action is Action.COPY)
    return linear | {first_expert(name.removesuffix(".weight")) for name in copied if name.endswith(".weight")}


def _is_kept_stack(tensor: PlannedTensor) -> bool:
    """What it cuts into experts whatever it is told: three dimensions and one of these words in the name."""
    words = ("gate_up_proj", "down_proj")
    stacked = len(tensor.source.shape) == 3 and any(word in tensor.name for word in words)
    return stacked and tensor.action is Action.COPY


def _text(plan: Plan, groups: Sequence[_Group], ignored: Sequence[str], name: str) -> str:
    source = _source(plan)
    classes = ["QuantizationArgs", *(["QuantizationConfig"] if len(groups) > 1 else []), "QuantizationScheme"]
    imports = [f"from compressed_tensors.quantization import {', '.join(classes)}", _IMPORT, *source.imports]
    return "\n".join(
        [
            *sorted(imports),
            "",
            *_told(groups),
            "model_free_ptq(",
            f"    model_stub={source.expression},",
            f"    save_directory={_value(f'{name}-llm-compressor')},",
            "    config=config," if len(groups) > 1 else "    scheme=scheme,",
            *(_listed("ignore", ignored) if ignored else ()),
            '    device="cpu",',
            "    max_workers=8,",
            ")",
        ]
    )


def _told(groups: Sequence[_Group]) -> Iterator[str]:
    """The one format as a scheme, or several as the groups of a config."""
    if len(groups) == 1:
        yield "scheme = QuantizationScheme("
        yield from _scheme(groups[0])
        yield ")"
        return
    yield from ("config = QuantizationConfig(", "    config_groups={")
    for group in groups:
        yield f"        {_value(group.name)}: QuantizationScheme("
        yield from (f"        {line}" for line in _scheme(group))
        yield "        ),"
    yield from ("    },", ")")


def _scheme(group: _Group) -> Iterator[str]:
    """The arguments of a QuantizationScheme, one a line or pattern."""
    yield from _listed("targets", group.targets)
    for word, value in scheme_words(group.format).items():
        yield f"    {word}={_arguments(value) if isinstance(value, dict) else _value(value)},"


def _arguments(values: Mapping[str, Any]) -> str:
    return f"QuantizationArgs({', '.join(f'{name}={_value(value)}' for name, value in values.items())})"


def _source(plan: Plan) -> _Source:
    """The model from the Hub at its commit, the sample, or the folder of its name."""
    if plan.model_id.startswith(_SAMPLE):
        return _Source(f"open_checkpoint({_value(plan.model_id)}).root", (_OPEN_SAMPLE,))
    if hub_id(plan.model_id) is None or plan.revision is None:
        return _Source(_value(plan.model_id))
    expression = f"snapshot_download({_value(plan.model_id)}, revision={_value(plan.revision)})"
    return _Source(expression, ("from huggingface_hub import snapshot_download",))


def _listed(name: str, entries: Sequence[str]) -> Iterator[str]:
    if len(entries) == 1:
        yield f"    {name}=[{_pattern(entries[0])}],"
        return
    yield f"    {name}=["
    yield from (f"        {_pattern(entry)}," for entry in entries)
    yield "    ],"


def _pattern(entry: str) -> str:
    return f'r"{entry}"' if _RAW.fullmatch(entry) else repr(entry)


def _value(value: object) -> str:
    """A Python literal of printable ASCII on one line, text between double quotes."""
    import json

    return json.dumps(value) if isinstance(value, str) else repr(value)
