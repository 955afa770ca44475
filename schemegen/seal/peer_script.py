"""The llm-compressor script that makes an output's tensors again, where there is one that does so bit for bit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from schemegen.architectures.base import Architecture
from schemegen.engines import engine_modules, first_expert, matches
from schemegen.formats import storage_of
from schemegen.planner import Action, Plan, PlannedTensor
from schemegen.scheme import Format, Quantization
from schemegen.seal.base_model import hub_id
from schemegen.seal.patterns import Quantized
from schemegen.seal.sealing import Sealing

#: The release that the tests run the script with.
RELEASE: Final = "0.14.0.1"
#: What a backend with its arithmetic says of itself.
_PEER: Final = "llm-compressor"
_FIELDS: Final = ("num_bits", "type", "strategy", "group_size", "symmetric")
_IMPORTS: Final = (
    "from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme",
    "from llmcompressor import model_free_ptq",
)
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


class _Selection(NamedTuple):
    """Patterns of modules: what is quantized, less what is ignored."""

    targets: tuple[str, ...]
    ignore: tuple[str, ...]


def peer_script(sealing: Sealing, quantized: Quantized, ignore: Sequence[str], name: str) -> PeerScript | None:
    """The script that makes the tensors of a plan in the folder `name`, or None where none is known to.

    `quantized` are the plan's modules, `ignore` are the entries of the output's quantization_config.
    """
    plan = sealing.plan
    first, *others = plan.formats_used.values()
    # It takes every safetensors file of a folder for a shard.
    strays = any(file.name.lower().endswith(".safetensors") for file in sealing.checkpoint.unindexed)
    if others or strays or sealing.same_bits_as != _PEER or not _is_shared(first):
        return None
    selection = _selection(quantized, _kept(plan, sealing.architecture), ignore)
    if selection is None:
        return None
    return PeerScript(_text(plan, first, selection, name), any(map(_is_kept_stack, plan.tensors)))


def _is_shared(format: Format) -> bool:
    """Whether both round this format alike: weights alone, symmetric integers, the grid of all codes."""
    known = Quantization(**{field: getattr(format.weights, field) for field in _FIELDS})
    packed = storage_of(format) == "pack-quantized" and format.weights.symmetric
    return packed and format.input_activations is None and known == format.weights


def _selection(quantized: Quantized, kept: set[str], ignore: Sequence[str]) -> _Selection | None:
    """Targets, and the entries that keep what they hit too much; None where that is not exactly the plan's choice."""
    targets = tuple(f"re:.*{_target(parent, words)}$" for parent, words in quantized.words.items())
    hit = {name for name in kept if matches(name, targets)}
    needed = tuple(entry for entry in ignore if any(matches(name, [entry]) for name in hit))
    is_exact = (
        all(matches(name, targets) for name in quantized.modules)
        and not any(matches(name, needed) for name in quantized.modules)
        and all(matches(name, needed) for name in hit)
    )
    return _Selection(targets, needed) if is_exact else None


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


def _text(plan: Plan, format: Format, selection: _Selection, name: str) -> str:
    source = _source(plan)
    weights = {field: getattr(format.weights, field) for field in _FIELDS}
    arguments = ", ".join(f"{field}={_value(value)}" for field, value in weights.items() if value is not None)
    return "\n".join(
        [
            *sorted([*_IMPORTS, *source.imports]),
            "",
            "scheme = QuantizationScheme(",
            *_listed("targets", selection.targets),
            f"    weights=QuantizationArgs({arguments}),",
            f"    format={_value(storage_of(format))},",
            ")",
            "model_free_ptq(",
            f"    model_stub={source.expression},",
            f"    save_directory={_value(f'{name}-llm-compressor')},",
            "    scheme=scheme,",
            *(_listed("ignore", selection.ignore) if selection.ignore else ()),
            '    device="cpu",',
            "    max_workers=8,",
            ")",
        ]
    )


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
