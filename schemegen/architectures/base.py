"""What an architecture knows: the role, part and place of every tensor name, and how experts are laid out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Final

from schemegen.architectures import faults
from schemegen.architectures.config import Config
from schemegen.errors import UnsupportedError

_DIGITS: Final = re.compile(r"[0-9]+")
# One way to write a number: others would make two names of one tensor, or a number nobody can hold.
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,5}")


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

    def __post_init__(self) -> None:
        """UnsupportedError for what names no matrices, such as a template without the expert."""
        functions = {"rows": self.rows, "columns": self.columns, "experts": self.experts}
        if fault := faults.layout_fault(self.projections, self.template, functions):
            raise UnsupportedError(fault)

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

    def __post_init__(self) -> None:
        """UnsupportedError for a layout or a mapping of projections that is none."""
        if fault := faults.rule_fault(self.pattern, self.projections, self.experts, ExpertLayout):
            raise UnsupportedError(fault)


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


def _nothing(_: Config) -> tuple[str, ...]:
    return ()


#: Layers that engines build as one in most families: last words of module names, by the fused layer's.
FUSIONS: Final = {
    "qkv_proj": ("q_proj", "k_proj", "v_proj"),
    "gate_up_proj": ("gate_proj", "up_proj"),
}


@dataclass(frozen=True)
class Architecture:
    """A model family: the `model_type`s it answers to, its rules in order, what the config promises of layers and
    routed experts, and the regex (without prefix) by which engines are told that a whole part is kept.

    `required` names the tensors outside layers without which there is no model of this config; `reasoning_parser` is
    what vLLM and SGLang call the parser of its thoughts. `fusions` are the layers that engines build from several
    matrices, which take one format and share what scales are made from; `renames` are the prefixes of module names that
    vLLM rewrites, old to new.
    """

    name: str
    summary: str
    model_types: tuple[str, ...]
    rules: tuple[TensorRule, ...]
    depth: Callable[[Config, Part], int]
    experts: Callable[[Config], int]
    part_ignores: Mapping[Part, str]
    reference: str = ""
    required: Callable[[Config], tuple[str, ...]] = _nothing
    reasoning_parser: str | None = None
    fusions: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: FUSIONS)
    renames: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        """UnsupportedError for what cannot be meant, such as a pattern that is none: here, not at the first tensor."""
        functions = {"depth": self.depth, "experts": self.experts, "required": self.required}
        self._refuse(faults.promise_fault(self.model_types, functions))
        self._refuse(faults.build_fault(self.fusions, self.renames))
        self._refuse(faults.ignores_fault(self.part_ignores, Part))
        if isinstance(self.rules, Iterable):
            # An iterator has its rules once, and they are read more often.
            object.__setattr__(self, "rules", tuple(self.rules))
        self._refuse(faults.rules_fault(self.rules, TensorRule))
        for pattern, rule in self._compiled:
            self._refuse(faults.kind_fault(rule.role, Role) or faults.kind_fault(rule.part, Part))
            self._refuse(faults.group_fault(pattern))
        for ignore in (*(rule.ignore for rule in self.rules), *self.part_ignores.values()):
            if ignore is not None:
                self._pattern(ignore)

    def _refuse(self, fault: str | None) -> None:
        if fault:
            raise UnsupportedError(f"architecture {self.name}: {fault}")

    @cached_property
    def _compiled(self) -> tuple[tuple[re.Pattern[str], TensorRule], ...]:
        return tuple((self._pattern(rule.pattern), rule) for rule in self.rules)

    def _pattern(self, text: str) -> re.Pattern[str]:
        try:
            return re.compile(text)
        except (re.error, RecursionError, OverflowError, TypeError) as error:
            told = f"the pattern {text!r} is not a regular expression: {error}"
            raise UnsupportedError(f"architecture {self.name}: {told}") from error

    def identify(self, name: str) -> TensorInfo:
        """Role, part and place of a tensor; UnsupportedError for a name that no rule knows."""
        return self.identify_all([name])[0]

    def identify_all(self, names: Iterable[str]) -> list[TensorInfo]:
        """Role, part and place of each tensor; UnsupportedError with every kind of name that no rule knows."""
        found, unknown = [], dict[str, list[str]]()
        for name in names:
            if (info := self._find(name)) is None:
                unknown.setdefault(_DIGITS.sub("N", name), []).append(name)
            else:
                found.append(info)
        if unknown:
            raise UnsupportedError(faults.unknown_names(self.name, list(unknown.values())))
        return found

    def _find(self, name: str) -> TensorInfo | None:
        for pattern, rule in self._compiled:
            if (found := pattern.fullmatch(name)) and _are_numbers(groups := found.groupdict()):
                stored = groups.get("projection")
                if stored is not None and rule.projections and stored not in rule.projections:
                    raise UnsupportedError(faults.unknown_projection(self.name, name, stored))
                return _info(name, rule, groups)
        return None


def _are_numbers(groups: Mapping[str, str | None]) -> bool:
    """Whether layer and expert, where the name gives them, are plain decimal numbers of at most six digits."""
    texts = (groups.get("layer"), groups.get("expert"))
    return all(text is None or _NUMBER.fullmatch(text) for text in texts)


def _info(name: str, rule: TensorRule, groups: Mapping[str, str | None]) -> TensorInfo:
    layer, expert = (None if (text := groups.get(group)) is None else int(text) for group in ("layer", "expert"))
    projection = _projection(rule, groups.get("projection"))
    return TensorInfo(name, rule.role, rule.part, layer, expert, projection, rule.experts, rule.ignore)


def _projection(rule: TensorRule, stored: str | None) -> str | None:
    if stored is None:
        return rule.projection
    return rule.projections[stored] if rule.projections else stored
