"""What an architecture knows: the role, part and place of every tensor name, and how experts are laid out."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, Final

from schemegen.errors import CheckpointError, UnsupportedError

Config = Mapping[str, Any]


class Role(StrEnum):
    """What a tensor does. A closed list: schemes speak these words and no tensor name."""

    ROUTED_EXPERT = "routed_expert"
    SHARED_EXPERT = "shared_expert"
    SHARED_EXPERT_GATE = "shared_expert_gate"
    ROUTER = "router"
    MLP = "mlp"
    ATTENTION = "attention"
    LINEAR_ATTENTION = "linear_attention"
    MIXER_GATE = "mixer_gate"
    INDEXER = "indexer"
    STATE = "state"
    NORM = "norm"
    EMBEDDING = "embedding"
    LM_HEAD = "lm_head"
    PROJECTOR = "projector"
    FUSION = "fusion"
    OTHER = "other"


class Part(StrEnum):
    """Which part of the model a tensor belongs to."""

    TEXT = "text"
    MTP = "mtp"
    VISION = "vision"
    AUDIO = "audio"


PROTECTED_ROLES: Final = frozenset(
    {
        Role.ROUTER,
        Role.SHARED_EXPERT_GATE,
        Role.MIXER_GATE,
        Role.NORM,
        Role.STATE,
        Role.EMBEDDING,
        Role.LM_HEAD,
        Role.PROJECTOR,
        Role.FUSION,
        Role.OTHER,
    }
)


@dataclass(frozen=True, slots=True)
class ExpertLayout:
    """A 3-D stack [experts, rows, columns]: the projections its rows hold, one after another, in equal parts."""

    projections: tuple[str, ...]
    rows: Callable[[Config], int]
    columns: Callable[[Config], int]
    experts: Callable[[Config], int]
    template: str = "{module}.{expert}.{projection}_proj"

    def shape(self, config: Config) -> tuple[int, int, int]:
        """The shape the config promises: [experts, parts * rows, columns]."""
        return self.experts(config), len(self.projections) * self.rows(config), self.columns(config)

    def module_names(self, module: str, experts: int) -> list[tuple[int, str, str]]:
        """(expert, projection, module name) of every matrix in storage order: expert first, then projection."""
        return [
            (expert, projection, self.template.format(module=module, expert=expert, projection=projection))
            for expert in range(experts)
            for projection in self.projections
        ]


@dataclass(frozen=True, slots=True)
class TensorRule:
    """Names that match `pattern` (whole name) have this role.

    Named groups `layer`, `expert` and `projection` are read; `projections` maps a stored projection name to the
    canonical one. `ignore` is the regex, without prefix, by which engines are told that the module is kept.
    """

    pattern: str
    role: Role
    part: Part = Part.TEXT
    projection: str | None = None
    projections: Mapping[str, str] | None = None
    experts: ExpertLayout | None = None
    ignore: str | None = None


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor name, understood. `module` is the name of the module that owns it, without `.weight`."""

    name: str
    role: Role
    part: Part
    layer: int | None
    expert: int | None
    projection: str | None
    experts: ExpertLayout | None
    ignore: str | None

    @property
    def module(self) -> str:
        """The module's name: for a stack of experts the container's, else the tensor's less its last word."""
        return self.name.rpartition(".")[0]


@dataclass(frozen=True)
class Architecture:
    """A model family: the `model_type`s it answers to, its rules in order, what the config promises of layers and
    routed experts, and the regex (without prefix) by which engines are told that a whole part is kept.
    """

    name: str
    summary: str
    model_types: tuple[str, ...]
    rules: tuple[TensorRule, ...]
    depth: Callable[[Config, Part], int]
    experts: Callable[[Config], int]
    part_ignores: Mapping[Part, str]
    reference: str = ""

    @cached_property
    def _compiled(self) -> tuple[tuple[re.Pattern[str], TensorRule], ...]:
        return tuple((re.compile(rule.pattern), rule) for rule in self.rules)

    def identify(self, name: str) -> TensorInfo:
        """Role, part and place of a tensor; UnsupportedError for a name that no rule knows."""
        for pattern, rule in self._compiled:
            if found := pattern.fullmatch(name):
                return _info(name, rule, found.groupdict())
        raise UnsupportedError(
            f"tensor {name!r} is unknown to architecture {self.name}; a plugin can add an architecture that knows it"
        )


def _info(name: str, rule: TensorRule, groups: Mapping[str, str | None]) -> TensorInfo:
    return TensorInfo(
        name,
        rule.role,
        rule.part,
        _number(groups.get("layer")),
        _number(groups.get("expert")),
        _projection(rule, groups.get("projection")),
        rule.experts,
        rule.ignore,
    )


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


def _projection(rule: TensorRule, stored: str | None) -> str | None:
    if stored is None:
        return rule.projection
    return rule.projections[stored] if rule.projections else stored


def config_int(config: Config, *path: str) -> int:
    """The positive integer at a path of config.json; CheckpointError when it is missing or something else."""
    value: Any = config
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise CheckpointError(
            f"config.json: {'.'.join(path)} is {value!r}; the architecture needs a whole number there"
        )
    return value
