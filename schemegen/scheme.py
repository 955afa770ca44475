"""What a scheme file says: formats (what a quantized matrix becomes) and a policy (which tensors get which)."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
    model_serializer,
    model_validator,
)

from schemegen.policy import PolicyEntry, as_entries
from schemegen.rule import Line, Name, Rule, StrictModel

Strategy = Literal["tensor", "channel", "group", "block", "tensor_group", "token", "attn_head"]
DtypeName = Annotated[
    Literal["float8_e4m3fn", "uint8", "int8", "bfloat16", "float16", "float32"],
    BeforeValidator(lambda value: value.removeprefix("torch.") if isinstance(value, str) else value),
]
"""torch's name of a dtype, with or without `torch.` in front, as published configs have it."""

#: What a scheme says of itself that changes no byte of a tensor, and may be mended without making outputs stale.
_REMARKS: Final = frozenset({"served_by"})


class Quantization(StrictModel):
    """How one kind of values is quantized. Field names and meanings are those of compressed-tensors' QuantizationArgs.

    `narrow_range` is schemegen's own: the symmetric grid without its lowest code (scale near absmax/7 for INT4).
    """

    num_bits: Annotated[int, Field(ge=1, le=16)] = 8
    type: Literal["int", "float"] = "int"
    strategy: Strategy
    group_size: Annotated[int, Field(ge=1)] | None = None
    block_structure: tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]] | None = Field(None, strict=False)
    symmetric: bool = True
    dynamic: bool | Literal["local"] = False
    actorder: Literal["static", "weight", "group", "dynamic"] | None = None
    observer: str | None = "minmax"
    observer_kwargs: dict[str, Any] = Field(default_factory=dict)
    scale_dtype: DtypeName | None = None
    zp_dtype: DtypeName | None = None
    narrow_range: bool = False

    @model_validator(mode="before")
    @classmethod
    def _infer_strategy(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("strategy") is None:
            return {**data, "strategy": _inferred_strategy(data)}
        return data

    @model_validator(mode="after")
    def _check_strategy(self) -> Self:
        grouped = self.strategy in ("group", "tensor_group")
        if grouped != (self.group_size is not None):
            raise ValueError(f"strategy {self.strategy!r} {'needs' if grouped else 'takes no'} group_size")
        if (self.strategy == "block") != (self.block_structure is not None):
            raise ValueError("block_structure and strategy 'block' go together")
        return self


def _inferred_strategy(data: dict[str, Any]) -> str:
    if data.get("group_size") is not None:
        return "group"
    return "block" if data.get("block_structure") is not None else "tensor"


class Format(StrictModel):
    """What a matrix becomes: its weights, the activations beside it, and the compressed-tensors storage format."""

    weights: Quantization
    input_activations: Quantization | None = None
    output_activations: Quantization | None = None
    storage: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, data: Any) -> Any:
        if not isinstance(data, dict) or "num_bits" not in data:
            return data
        if "weights" in data:
            raise ValueError("give either weights or, in short, the fields of weights; not both")
        apart = {key: data[key] for key in cls.model_fields if key in data}
        return {"weights": {key: value for key, value in data.items() if key not in apart}, **apart}


class Method(BaseModel):
    """How stored values are computed: a name, and beside it the options of the backend that offers the method.

    In files it is the name alone, or a mapping. Options are the backend's to validate, once one is chosen.
    """

    model_config = ConfigDict(frozen=True, extra="allow", strict=True, allow_inf_nan=False)

    name: Name

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, data: Any) -> Any:
        return {"name": data} if isinstance(data, str) else data

    @model_serializer
    def _shortest(self) -> str | dict[str, Any]:
        return {"name": self.name, **self.options} if self.options else self.name

    @property
    def options(self) -> dict[str, Any]:
        """The options by name, as written."""
        return dict(self.model_extra or {})


class Calibration(StrictModel):
    """The data that a calibrated method looks at: a dataset by Hub id or path, how many texts, how many tokens each."""

    dataset: Line
    split: Line | None = None
    num_samples: Annotated[int, Field(ge=1)] = 512
    max_length: Annotated[int, Field(ge=1)] = 2048
    seed: int = 0


class Scheme(StrictModel):
    """A named scheme: formats by name, the policy that hands them out, and the method that computes them.

    `served_by` says by engine what is known of serving it: hardware, kernels, what was tried.
    """

    schema_version: Literal[1]
    name: Name
    summary: Line
    reference: Line | None = None
    served_by: dict[Name, Line] = Field(default_factory=dict)
    formats: Annotated[dict[Name, Format], Field(min_length=1)]
    policy: tuple[PolicyEntry, ...]
    method: Method = Method(name="rtn")
    calibration: Calibration | None = None
    kv_cache: Quantization | None = None

    @field_validator("policy", mode="before")
    @classmethod
    def _policy_entries(cls, value: Any) -> Any:
        return as_entries(value)

    @model_validator(mode="after")
    def _check_uses(self) -> Self:
        for position, entry in enumerate(self.policy):
            if isinstance(entry, Rule):
                self.format_name(entry.use, f"policy.{position}")
        for name in self.formats:
            if name in ("keep", "default"):
                raise ValueError(f"formats.{name}: the names keep and default are taken; choose another")
        return self

    def format_name(self, use: str, where: str) -> str | None:
        """The format a rule's `use` names, or None for `keep`; ValueError when this scheme has no such format."""
        if use == "keep":
            return None
        if use == "default" and len(self.formats) == 1:
            return next(iter(self.formats))
        if use in self.formats:
            return use
        known = ", ".join(self.formats)
        if use == "default":
            raise ValueError(f"{where}: use: default needs a scheme with one format; this one has {known}")
        raise ValueError(f"{where}: use: {use} names no format of this scheme; it has {known}, and keep")

    @property
    def digest(self) -> str:
        """SHA-256 of the scheme as canonical JSON: equal for equal content, whatever the file's layout.

        Defaults are left out, so that a field a later version adds does not change it, and so are remarks on engines.
        """
        content = self.model_dump(mode="json", exclude_defaults=True, exclude=set(_REMARKS))
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()
