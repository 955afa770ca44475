"""What a config does not tell of how its checkpoint was made, for whoever reads the scheme that is told from it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from schemegen.checkpoint.model import Checkpoint
from schemegen.described.block import Block
from schemegen.described.fates import Matrix
from schemegen.described.groups import Group
from schemegen.described.naming import shown
from schemegen.engines import first_expert, matches
from schemegen.formats import MINMAX, is_searched, observer_of, rounding_fault, storage_of
from schemegen.manifest import MANIFEST_NAME
from schemegen.scheme import Format, Scheme


def remarks_on(
    scheme: Scheme, checkpoint: Checkpoint, block: Block, groups: Sequence[Group], matrices: Sequence[Matrix]
) -> tuple[str, ...]:
    """A line each, the most important first."""
    return (
        *_source(checkpoint),
        *_names(scheme),
        *_rounding(scheme.formats),
        *_cache(scheme),
        *_unused(groups, scheme),
        *_ignored(block, matrices),
    )


def _source(checkpoint: Checkpoint) -> Iterator[str]:
    if any(file.name == MANIFEST_NAME for file in checkpoint.side_files):
        yield f"{MANIFEST_NAME} beside this config holds the scheme itself; what stands here is told from the config"


def _names(scheme: Scheme) -> Iterator[str]:
    rules = [entry for entry in scheme.policy if not isinstance(entry, str)]
    if any(rule.name for rule in rules):
        yield "rules that go by name fit this model alone, with its experts stored as they are here"
    elif any(rule.projection and "routed_expert" in (rule.roles or ()) for rule in rules):
        yield "projections of routed experts can be told apart only where experts are stored one by one"


def _rounding(formats: Mapping[str, Format]) -> Iterator[str]:
    """How codes and scales were found, so far as the config says."""
    for name, format in formats.items():
        if fault := rounding_fault(format):
            yield f"format {name}: rounding without data {fault}"
    found = ", ".join(f"{name} {observer_of(format.weights)}" for name, format in formats.items())
    yield f"observers by the config: {found}; calibration such as GPTQ and AWQ leaves no trace in it"
    if any(is_searched(format.weights) for format in formats.values()):
        yield "observer mse stands for signed_mse too, which has the same name in configs"
    narrow = [name for name, format in formats.items() if _may_be_narrow(format)]
    if narrow:
        names = " and ".join(narrow)
        yield f"narrow_range: true, the grid without its lowest code, leaves no trace either; {names} may need it"


def _may_be_narrow(format: Format) -> bool:
    weights = format.weights
    return storage_of(format) == "pack-quantized" and weights.symmetric and observer_of(weights) == MINMAX


def _cache(scheme: Scheme) -> Iterator[str]:
    if scheme.kv_cache is not None:
        yield "kv_cache: its scales need calibration, which no backend here does; take it out to apply the scheme"


def _unused(groups: Sequence[Group], scheme: Scheme) -> Iterator[str]:
    used: Collection[Format] = scheme.formats.values()
    for group in groups:
        if not any(group.format == format for format in used):
            yield f"{shown(group.name)} of the config is left out: no stored module is quantized so"


def _ignored(block: Block, matrices: Sequence[Matrix]) -> Iterator[str]:
    asked = dict.fromkeys(first_expert(matrix.info.module) for matrix in matrices if matrix.use)
    hit = [module for module in asked if matches(module, block.ignore)]
    if hit:
        more = f" and {len(hit) - 1} more" if len(hit) > 1 else ""
        yield f"{shown(hit[0])}{more}: stored quantized although the config's ignore has it; engines will misread that"
