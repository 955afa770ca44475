"""A rule: which tensors it selects, by role, part, layers and projection, and the format they get."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from schemegen.architectures.base import FUSIONS, PROTECTED_ROLES, Part, Role, TensorInfo
from schemegen.layers import LAYERS_PATTERN, layer_ends, layer_spans
from schemegen.registry import NAME_PATTERN, file_fault

_UNPRINTED: Final = ("Cc", "Cs", "Zl", "Zp")
"""Unicode's categories of control characters, halves of characters, and ends of lines and paragraphs."""
_ALL_PARTS: Final = tuple(Part)
FUSED: Final = {
    fused.removesuffix("_proj"): tuple(member.removesuffix("_proj") for member in members)
    for fused, members in FUSIONS.items()
}
"""Projections that one stored matrix holds, by the name of the whole: families that fuse them store `qkv`."""


def _one_line(text: str) -> str:
    if any(unicodedata.category(character) in _UNPRINTED for character in text):
        raise ValueError("must be one line without control characters")
    return text


def _no_file(name: str) -> str:
    if fault := file_fault(name):
        raise ValueError(f"{name} cannot be a name; {fault}")
    return name


def _version(value: object) -> object:
    # True and 1.0 are equal to 1, and no versions.
    if type(value) is not int or value != 1:
        raise ValueError(f"{value!r:.80} is no version of this file format; write 1")
    return value


SchemaVersion = Annotated[Literal[1], BeforeValidator(_version)]
Name = Annotated[str, Field(pattern=f"^{NAME_PATTERN.pattern}$")]
OwnName = Annotated[Name, AfterValidator(_no_file)]
"""The name that a scheme or policy gives itself; entries of a policy may name files, too."""
Line = Annotated[str, Field(min_length=1, max_length=300), AfterValidator(_one_line)]
"""What is shown in lists, cards and terminals as it stands."""


class StrictModel(BaseModel):
    """Frozen, strict, no unknown field: what a person writes is taken as written or refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def refuse(model: type[BaseModel], faults: Iterable[tuple[tuple[str | int, ...], str]]) -> None:
    """For validators: ValidationError that holds each (place, message), if there are any."""
    found = [InitErrorDetails(type=PydanticCustomError("fault", text), loc=place, input=None) for place, text in faults]
    if found:
        raise ValidationError.from_exception_data(model.__name__, found)


def as_tuple(value: Any) -> Any:
    """A list as a tuple, which strict models take; anything else as it is."""
    return tuple(value) if isinstance(value, list) else value


class Rule(StrictModel):
    """One line of a policy: what it selects (every given field must match) and the format it uses.

    `use` is a format's name, `keep`, or `default`, the scheme's only format. `layers` ("0-2,-1") counts within
    `part`, or within text where no part is given. `name` ("re:…", searched from the start) is the escape that
    makes a scheme model-specific. Roles in PROTECTED_ROLES, vision and audio are reached only by naming the role.
    """

    use: str = Field(min_length=1, description="A format's name, keep, or default: the scheme's only format.")
    role: Role | tuple[Role, ...] | Literal["*"] = Field(
        "*", union_mode="left_to_right", description='What tensors do: one role, a list, or "*", all but delicate ones.'
    )
    part: Part | None = Field(None, description="A part of the model; all of them if left out.")
    layers: str | None = Field(None, description='Layers of the part, or of text: "0-2,-1", from the end below 0.')
    projection: str | tuple[str, ...] | None = Field(None, description="gate, up, down, q, k, v, o …: one or a list.")
    name: str | None = Field(None, description='"re:" and a regular expression, from the start of the tensor\'s name.')

    @field_validator("role", mode="before")
    @classmethod
    def _read_roles(cls, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return tuple(_member(Role, item) for item in value)
        return value if value == "*" else _member(Role, value)

    @field_validator("part", mode="before")
    @classmethod
    def _read_part(cls, value: Any) -> Any:
        return value if value is None else _member(Part, value)

    @field_validator("projection", mode="before")
    @classmethod
    def _read_projections(cls, value: Any) -> Any:
        return as_tuple(value)

    @field_validator("layers", mode="before")
    @classmethod
    def _check_layers(cls, value: Any) -> Any:
        if value is not None and not (isinstance(value, str) and re.fullmatch(LAYERS_PATTERN, value)):
            raise ValueError(f'{value!r:.80} names no layers; write text such as "3" or "0-2,-1"')
        return value

    @field_validator("name", mode="before")
    @classmethod
    def _check_name(cls, value: Any) -> Any:
        if value is None:
            return value
        if not isinstance(value, str) or not value.startswith("re:"):
            raise ValueError(f"{value!r:.80} is no pattern; write 're:' and a regular expression from the name's start")
        try:
            re.compile(value[3:])
        except (re.error, RecursionError, OverflowError) as error:
            raise ValueError(f"not a regular expression: {error}") from error
        return value

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if self.role == () or self.projection == ():
            raise ValueError("role and projection may not be empty lists; leave the field out to match all")
        return self

    @property
    def roles(self) -> tuple[Role, ...] | None:
        """The roles named outright, or None for any."""
        if self.role == "*":
            return None
        return (self.role,) if isinstance(self.role, Role) else self.role

    @property
    def projections(self) -> tuple[str, ...] | None:
        """The projections named, or None for any and none."""
        return (self.projection,) if isinstance(self.projection, str) else self.projection

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts it looks at: its own, text where it names layers alone, else all."""
        if self.part is not None:
            return (self.part,)
        return _ALL_PARTS if self.layers is None else (Part.TEXT,)

    def reaches(self, role: Role, part: Part) -> bool:
        """Whether the rule may select tensors of this role in this part."""
        if part not in self.parts:
            return False
        named = self.roles
        return role in named if named is not None else self.use == "keep" or not is_protected_place(role, part)

    def takes(self, projections: Sequence[str]) -> bool:
        """Whether it selects a tensor that holds these: kept where one is named, quantized only where all are."""
        named = self.projections
        if named is None:
            return True
        held = [projection in named for projection in projections]
        return any(held) if self.use == "keep" else bool(held) and all(held)

    def matches(self, info: TensorInfo, depth: int) -> bool:
        """Whether the rule selects this tensor; `depth` is the number of layers in the tensor's part."""
        return (
            self.reaches(info.role, info.part)
            and self.fits_layer(info.layer, depth)
            and self.fits_projection(info.projection, held_by(info))
            and self.fits_name(info.name)
        )

    def fits_layer(self, layer: int | None, depth: int) -> bool:
        """Whether `layers` allows this one of `depth`; what is in no layer is allowed by no `layers` alone."""
        if self.layers is None:
            return True
        return layer is not None and any(first <= layer <= last for first, last in layer_spans(self.layers, depth))

    def fits_projection(self, projection: str | None, held: Sequence[str]) -> bool:
        """Whether `projection` allows a tensor of this one, which holds several where they are stacked or fused."""
        return self.projection is None or projection in (self.projections or ()) or self.takes(held)

    def fits_name(self, name: str) -> bool:
        """Whether `name` allows this one."""
        return self.name is None or re.match(self.name[3:], name) is not None


def _member(kind: type[Role] | type[Part], value: Any) -> Role | Part:
    try:
        return kind(value)
    except ValueError:
        near = difflib.get_close_matches(str(value), list(kind), n=1)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(kind)}"
        raise ValueError(f"{value!r:.80} is no {kind.__name__.lower()}; {hint}") from None


def backward_span(rule: Rule) -> str | None:
    """Of a rule's layers the first span that names none whatever their number: "3-1", "-1--3"."""
    ends = layer_ends(rule.layers or "")
    return next((f"{first}-{last}" for first, last in ends if last < first and (first < 0) == (last < 0)), None)


def held_by(info: TensorInfo) -> tuple[str, ...]:
    """The projections that a tensor holds: those of a stack of experts, those fused into one matrix, or its own."""
    return held(info.projection, () if info.experts is None else info.experts.projections)


def held(projection: str | None, stacked: tuple[str, ...]) -> tuple[str, ...]:
    """The same, of a projection and those of a stack, which is none of itself."""
    return stacked or (() if projection is None else FUSED.get(projection, (projection,)))


def is_protected_place(role: Role, part: Part) -> bool:
    """Whether tensors of this role in this part are quantized only by a rule that names the role outright."""
    return role in PROTECTED_ROLES or part in (Part.VISION, Part.AUDIO)
