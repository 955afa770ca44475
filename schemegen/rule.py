"""A rule: which tensors it selects, by role, part, layers and projection, and the format they get."""

from __future__ import annotations

import difflib
import re
import unicodedata
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from schemegen.architectures.base import PROTECTED_ROLES, Part, Role, TensorInfo
from schemegen.registry import NAME_PATTERN

LAYERS_PATTERN: Final = r"-?[0-9]{1,6}(--?[0-9]{1,6})?(,-?[0-9]{1,6}(--?[0-9]{1,6})?)*"
_SPAN: Final = re.compile(r"(-?\d+)(?:-(-?\d+))?")
_UNPRINTED: Final = ("Cc", "Cs", "Zl", "Zp")
"""Unicode's categories of control characters, halves of characters, and ends of lines and paragraphs."""


def _one_line(text: str) -> str:
    if any(unicodedata.category(character) in _UNPRINTED for character in text):
        raise ValueError("must be one line without control characters")
    return text


Name = Annotated[str, Field(pattern=f"^{NAME_PATTERN.pattern}$")]
Line = Annotated[str, Field(min_length=1, max_length=300), AfterValidator(_one_line)]
"""What is shown in lists, cards and terminals as it stands."""


class StrictModel(BaseModel):
    """Frozen, strict, no unknown field: what a person writes is taken as written or refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def as_tuple(value: Any) -> Any:
    """A list as a tuple, which strict models take; anything else as it is."""
    return tuple(value) if isinstance(value, list) else value


class Rule(StrictModel):
    """One line of a policy: what it selects (every given field must match) and the format it uses.

    `use` is a format's name, `keep`, or `default`, the scheme's only format. `layers` ("0-2,-1") counts within
    `part`, or within text where no part is given. `name` ("re:…", searched from the start) is the escape that
    makes a scheme model-specific. Roles in PROTECTED_ROLES, vision and audio are reached only by naming the role.
    """

    use: Annotated[str, Field(min_length=1)]
    role: Role | tuple[Role, ...] | Literal["*"] = Field("*", union_mode="left_to_right")
    part: Part | None = None
    layers: str | None = None
    projection: str | tuple[str, ...] | None = None
    name: str | None = None

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
    def roles(self) -> frozenset[Role] | None:
        """The roles named outright, or None for any."""
        if self.role == "*":
            return None
        return frozenset((self.role,) if isinstance(self.role, Role) else self.role)

    def matches(self, info: TensorInfo, depth: int) -> bool:
        """Whether the rule selects this tensor; `depth` is the number of layers in the tensor's part."""
        return (
            self._matches_role(info)
            and (self.part is None or info.part is self.part)
            and (self.layers is None or self._matches_layer(info, depth))
            and (self.projection is None or info.projection in _tuple_of(self.projection))
            and (self.name is None or re.match(self.name[3:], info.name) is not None)
        )

    def _matches_role(self, info: TensorInfo) -> bool:
        if self.roles is not None:
            return info.role in self.roles
        return self.use == "keep" or not is_protected(info)

    def _matches_layer(self, info: TensorInfo, depth: int) -> bool:
        if info.part is not (self.part or Part.TEXT) or info.layer is None:
            return False
        return any(first <= info.layer <= last for first, last in layer_spans(self.layers or "", depth))


def _member(kind: type[Role] | type[Part], value: Any) -> Role | Part:
    try:
        return kind(value)
    except ValueError:
        near = difflib.get_close_matches(str(value), list(kind), n=1)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(kind)}"
        raise ValueError(f"{value!r:.80} is no {kind.__name__.lower()}; {hint}") from None


def _tuple_of(value: str | tuple[str, ...]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else value


def layer_spans(layers: str, depth: int) -> list[tuple[int, int]]:
    """The inclusive spans that "0-2,-1" names among `depth` layers; negative numbers count from the end."""
    return [
        tuple(number + depth if number < 0 else number for number in (int(first), int(last or first)))  # type: ignore[misc]
        for first, last in (_SPAN.fullmatch(span).groups() for span in layers.split(","))  # type: ignore[union-attr]
    ]


def is_protected(info: TensorInfo) -> bool:
    """Whether only a rule that names the tensor's role outright may quantize it."""
    return info.role in PROTECTED_ROLES or info.part in (Part.VISION, Part.AUDIO)
