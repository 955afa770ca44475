"""What a scheme file says: formats (what a quantized matrix becomes) and a policy (which tensors get which)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
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
from schemegen.rule import Line, Name, OwnName, Rule, SchemaVersion, StrictModel, refuse

Strategy = Literal["tensor", "channel", "group", "block", "tensor_group", "token", "attn_head"]
DtypeName = Annotated[
    Literal["float8_e4m3fn", "uint8", "int8", "bfloat16", "float16", "float32"],
    BeforeValidator(lambda value: value.removeprefix("torch.") if isinstance(value, str) else value),
]
"""torch's name of a dtype, with or without `torch.` in front, as published configs have it."""

#: What rules use beside the names of formats.
RESERVED: Final = ("keep", "default")
#: What a scheme says of itself that changes no byte of a tensor, and may be mended without making outputs stale.
_REMARKS: Final = frozenset({"served_by"})


class Quantization(StrictModel):
    """How one kind of values is quantized. Field names and meanings are those of compressed-tensors' QuantizationArgs.

    `narrow_range` is schemegen's own: the symmetric grid without its lowest code (scale near absmax/7 for INT4).
    """

    num_bits: int = Field(8, ge=1, le=16, description="Bits of a value.")
    type: Literal["int", "float"] = Field("int", description="Integers, or floats such as FP8 E4M3 and FP4 E2M1.")
    strategy: Strategy = Field(description="What has one scale; told by group_size or block_structure if left out.")
    group_size: Annotated[int, Field(ge=1)] | None = Field(None, description="Values of a row that share a scale.")
    block_structure: tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]] | None = Field(
        None, strict=False, description="Rows and columns that share a scale."
    )
    symmetric: bool = Field(True, description="Without zero points.")
    dynamic: bool | Literal["local"] = Field(False, description="Ranges are found while serving; of activations.")
    actorder: Literal["static", "weight", "group", "dynamic"] | None = Field(
        None, description="Order of columns by activations; for calibrated methods."
    )
    observer: str | None = Field("minmax", description="What a scale is made from: minmax, mse or signed_mse.")
    observer_kwargs: dict[str, Any] = Field(default_factory=dict, description="Options of the observer.")
    scale_dtype: DtypeName | None = Field(None, description="What scales are stored as; told by the storage.")
    zp_dtype: DtypeName | None = Field(None, description="What zero points are stored as; told by the storage.")
    narrow_range: bool = Field(False, description="Leaves the lowest code out, as Kimi's own INT4 does.")

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

    weights: Quantization = Field(description="How the matrix itself is quantized.")
    input_activations: Quantization | None = Field(None, description="How a layer's inputs are, while serving.")
    output_activations: Quantization | None = Field(None, description="How a layer's outputs are, while serving.")
    storage: str | None = Field(None, description="compressed-tensors' name of the layout; inferred if left out.")

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

    name: Name = Field(description="What backends call the method.")

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

    dataset: Line = Field(description="Hub id or path.")
    split: Line | None = Field(None, description="Which split of the dataset.")
    num_samples: int = Field(512, ge=1, description="How many texts.")
    max_length: int = Field(2048, ge=1, description="Tokens of a text, at most.")
    seed: int = Field(0, description="What chooses the texts.")


class Scheme(StrictModel):
    """A named scheme: formats by name, the policy that hands them out, and the method that computes them.

    `served_by` says by engine what is known of serving it: hardware, kernels, what was tried.
    """

    schema_version: SchemaVersion = Field(description="The version of this file format.")
    name: OwnName = Field(description="What a person types to get the scheme.")
    summary: Line = Field(description="One line for lists and cards.")
    reference: Line | None = Field(None, description="Where the recipe comes from: an address.")
    served_by: dict[Name, Line] = Field(default_factory=dict, description="By engine, what is known of serving it.")
    formats: dict[Name, Format] = Field(min_length=1, description="What matrices become, by names that rules use.")
    policy: tuple[PolicyEntry, ...] = Field(description="Which tensors get which format: the first rule decides.")
    method: Method = Field(Method(name="rtn"), description="How stored values are computed: a name, or with options.")
    calibration: Calibration | None = Field(None, description="The data that a calibrated method looks at.")
    kv_cache: Quantization | None = Field(None, description="How keys and values are cached while serving.")

    @field_validator("policy", mode="before")
    @classmethod
    def _policy_entries(cls, value: Any) -> Any:
        return as_entries(value)

    @model_validator(mode="after")
    def _check_policy(self) -> Self:
        own = {position: entry for position, entry in enumerate(self.policy) if isinstance(entry, Rule)}
        refuse(type(self), self._use_faults(own))
        return self

    def _use_faults(self, rules: Mapping[int, Rule]) -> Iterator[tuple[tuple[str | int, ...], str]]:
        for name in self.formats:
            if name in RESERVED:
                yield ("formats", name), "the names keep and default are taken; choose another"
        for position, rule in rules.items():
            if fault := self._use_fault(rule.use):
                yield ("policy", position, "rule", "use"), fault

    def format_name(self, use: str, where: str) -> str | None:
        """The format a rule's `use` names, or None for `keep`; ValueError when this scheme has no such format."""
        if fault := self._use_fault(use):
            raise ValueError(f"{where}: use: {fault}")
        if use == "keep":
            return None
        return next(iter(self.formats)) if use == "default" else use

    def _use_fault(self, use: str) -> str | None:
        known = ", ".join(self.formats)
        if use == "default" and len(self.formats) > 1:
            return f"default needs a scheme with one format; this one has {known}"
        if use not in ("keep", "default", *self.formats):
            return f"{use} names no format of this scheme; it has {known}, and keep"
        return None

    @property
    def digest(self) -> str:
        """SHA-256 of the scheme as canonical JSON: equal for equal content, whatever the file's layout.

        Defaults are left out, so that a field a later version adds does not change it, and so are remarks on engines.
        """
        content = self.model_dump(mode="json", exclude_defaults=True, exclude=set(_REMARKS))
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()
