"""From a quantized checkpoint to the scheme that its config describes, proven against what is stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic import ValidationError

from schemegen.architectures.base import Architecture, Part
from schemegen.checkpoint.model import Checkpoint
from schemegen.described.block import Block, read_block
from schemegen.described.choice import Choice
from schemegen.described.exceptions import by_name, exceptions_of
from schemegen.described.fates import Kind, Matrix, matrices_of
from schemegen.described.finder import Finder
from schemegen.described.groups import Group, groups_of, spoken
from schemegen.described.naming import format_names, scheme_name, shown
from schemegen.described.remarks import remarks_on
from schemegen.described.unquantized import unquantized
from schemegen.errors import CheckpointError, PlanError, UnsupportedError, plain
from schemegen.formats.words import in_short
from schemegen.planner import resolve_rules
from schemegen.planner.decide import Depths, decide, depths_of
from schemegen.policy import Policy
from schemegen.rule import Rule
from schemegen.scheme import Format, Scheme

_LOST: Final = (
    "config.json promises an MTP block that is not stored here; of a model that has it, keep-mtp in front keeps it"
)


@dataclass(frozen=True, slots=True)
class Description:
    """A scheme told from a checkpoint: `remarks` say what it does not tell, `notes` how the model was found."""

    model_id: str
    revision: str | None
    scheme: Scheme
    remarks: tuple[str, ...]
    notes: tuple[str, ...] = ()


def describe_checkpoint(
    checkpoint: Checkpoint, find: Callable[[Mapping[str, Any]], Architecture], policies: Sequence[Policy]
) -> Description:
    """The scheme that gives the checkpoint's formats to the same tensors; `policies` are those it may name.

    UnsupportedError for a checkpoint that compressed-tensors did not make, or that no scheme can say; CheckpointError
    where config and tensors disagree.
    """
    block = read_block(checkpoint)
    groups = groups_of(block)
    architecture = find(checkpoint.config)
    formats, matrices = _named(groups, matrices_of(checkpoint, architecture, groups))
    if not formats:
        raise CheckpointError(
            f"{shown(checkpoint.model_id)} has a quantization_config, but no tensor is stored quantized; "
            "it may not have been compressed when it was saved"
        )
    depths = depths_of(architecture, checkpoint, (matrix.info for matrix in matrices))
    policy = _policy(matrices, depths, policies, list(formats))
    try:
        scheme = _scheme(checkpoint.model_id, block, formats, policy)
        _prove(checkpoint, scheme, matrices, depths, policies)
    except ValidationError as error:
        fault = error.errors()[0]
        raise _untold(checkpoint, f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}") from None
    except PlanError as error:
        raise _untold(checkpoint, str(error)) from None
    told = remarks_on(scheme, checkpoint, block, groups, matrices)
    told += tuple(unquantized(matrices, block.ignore, Finder(groups, architecture)))
    if Part.MTP not in depths and architecture.depth(checkpoint.config, Part.MTP):
        told += (_LOST,)
    return Description(checkpoint.model_id, checkpoint.revision, scheme, told, checkpoint.notes)


def _named(groups: Sequence[Group], matrices: Sequence[Matrix]) -> tuple[dict[str, Format], list[Matrix]]:
    """The formats that are used, by name, and the matrices with those names in place of their groups'."""
    found = {matrix.use for matrix in matrices}
    used = [group for group in groups if group.name in found]
    names = dict(zip((group.name for group in used), format_names(group.format for group in used), strict=True))
    renamed = [matrix if matrix.use is None else replace(matrix, use=names[matrix.use]) for matrix in matrices]
    return {names[group.name]: group.format for group in used}, renamed


def _policy(
    matrices: Sequence[Matrix], depths: Depths, policies: Sequence[Policy], formats: Sequence[str]
) -> list[str | Rule]:
    """Rules by name, and the shortest policy for the rest."""
    exceptions = exceptions_of(matrices)
    infos = {Kind.of(matrix.info): matrix.info for matrix in matrices}
    best = Choice(exceptions.uses, infos, depths, policies, formats).best()
    return [*exceptions.rules, *best] if best is not None else [*by_name(matrices)]


def _scheme(model_id: str, block: Block, formats: Mapping[str, Format], policy: Sequence[str | Rule]) -> Scheme:
    """The scheme with the fields that a person would write."""
    listed = "; ".join(in_short(format) for format in formats.values())
    body: dict[str, Any] = {
        "schema_version": 1,
        "name": scheme_name(model_id),
        "summary": f"{listed}, as the config of {shown(model_id)} describes it"[:300],
        "formats": {name: format.model_dump(exclude_unset=True) for name, format in formats.items()},
        "policy": [entry if isinstance(entry, str) else entry.model_dump(exclude_unset=True) for entry in policy],
    }
    if block.kv_cache_scheme is not None:
        body["kv_cache"] = spoken(block.kv_cache_scheme)
    return Scheme.model_validate(body)


def _prove(
    checkpoint: Checkpoint, scheme: Scheme, matrices: Sequence[Matrix], depths: Depths, policies: Sequence[Policy]
) -> None:
    """Let the planner decide by the scheme; UnsupportedError names the first matrix that it would get wrong."""
    by_name = {policy.name: policy for policy in policies}
    rules = resolve_rules(scheme, by_name.__getitem__)
    before = replace(checkpoint, tensors=tuple(matrix.header for matrix in matrices))
    decisions = decide(before, [matrix.info for matrix in matrices], depths, rules)
    for matrix, decision in zip(matrices, decisions, strict=True):
        if decision.format != matrix.use:
            fates = f"{decision.format or 'kept'}, and is stored {matrix.use or 'as it was'}"
            raise _untold(checkpoint, f"{matrix.header.name} would be {fates}")


def _untold(checkpoint: Checkpoint, why: str) -> UnsupportedError:
    return UnsupportedError(f"{shown(checkpoint.model_id)} cannot be told as a scheme: {plain(why)}")
