"""The `quantization_config` of compressed-tensors as checkpoints have it: where it stands, and what its groups say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from schemegen.checkpoint.model import Checkpoint
from schemegen.described.methods import refuse_method, refuse_unquantized
from schemegen.described.naming import shown
from schemegen.errors import CheckpointError, UnsupportedError
from schemegen.rule import StrictModel, as_tuple
from schemegen.scheme import Quantization

_KEYS: Final = ("quantization_config", "compression_config")
_HOLDERS: Final = ("text_config", "llm_config", "language_config")
#: What changes weights or their layout beyond what a scheme says.
_BEYOND: Final = ("sparsity_config", "transform_config")
_SHOWN: Final = 3
#: In words of JSON, by pydantic's name of the fault.
_MESSAGES: Final = {
    "dict_type": "is no object",
    "tuple_type": "is no list",
    "string_type": "is no text",
    "missing": "is missing",
    "too_short": "is empty",
    "extra_forbidden": "unknown field; what it means cannot be told",
}
#: Integers of up to eight bits have such zero points unless told otherwise.
_USUAL_ZERO_POINT: Final = "torch.int8"
_OBSERVERS: Final = {"memoryless_minmax": "minmax", "static_minmax": "minmax", "memoryless_mse": "mse"}


def _as_ours(value: Any) -> Any:
    """Arguments as QuantizationArgs of any release wrote them, in the words of our own model."""
    if not isinstance(value, dict):
        return value
    found = {
        key: item.lower() if key in ("type", "strategy") and isinstance(item, str) else item
        for key, item in value.items()
    }
    if found.get("group_size") == -1:
        found |= {"group_size": None, "strategy": found.get("strategy") or "channel"}
    if found.get("actorder") is False:
        found["actorder"] = None
    if found.get("observer_kwargs", {}) is None:
        found["observer_kwargs"] = {}
    if found.get("symmetric", True) is True or found.get("zp_dtype") == _USUAL_ZERO_POINT:
        found["zp_dtype"] = None
    if isinstance(found.get("observer"), str):
        found["observer"] = _OBSERVERS.get(found["observer"], found["observer"])
    return found | {"block_structure": _block_structure(found.get("block_structure"))}


def _block_structure(value: Any) -> Any:
    """Rows and columns, which early releases wrote as "128x128"."""
    if isinstance(value, str) and all(part.isdecimal() for part in value.split("x")):
        return [int(part[:9]) for part in value.split("x")]
    return value


def _weights(value: Any) -> Any:
    if value is None:
        raise ValueError("is null, and a scheme cannot say what quantizes no weights; take the group out")
    return _as_ours(value)


Arguments = Annotated[Quantization, BeforeValidator(_as_ours)]
Names = Annotated[tuple[str, ...], BeforeValidator(as_tuple)]


class StoredGroup(StrictModel):
    """One of `config_groups`: modules by name, pattern or class, and what becomes of them."""

    targets: Names
    weights: Annotated[Quantization, BeforeValidator(_weights)]
    input_activations: Arguments | None = None
    output_activations: Arguments | None = None
    format: str | None = None


class Block(BaseModel):
    """What the config says. Fields that say nothing of weights are not looked at."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)

    config_groups: Annotated[dict[str, StoredGroup], Field(min_length=1)]
    format: str | None = None
    ignore: Annotated[tuple[str, ...], BeforeValidator(lambda value: as_tuple(value or []))] = ()
    kv_cache_scheme: Arguments | None = None


def read_block(checkpoint: Checkpoint) -> Block:
    """The block of a compressed-tensors checkpoint.

    UnsupportedError, saying what it is instead, for any other; CheckpointError for a block that is damaged.
    """
    found = next(_blocks(checkpoint.config), None)
    if found is None:
        refuse_unquantized(checkpoint)
    place, value = found
    if not isinstance(value, Mapping):
        raise CheckpointError(f"config.json: {place} is no object", "download it again")
    if "config_groups" not in value or "quant_method" in value:
        refuse_method(checkpoint.model_id, place, value.get("quant_method"))
    for key in _BEYOND:
        if value.get(key):
            raise UnsupportedError(f"config.json: {place}.{key} changes weights in a way that no scheme can say")
    return _validated(place, value)


def _blocks(config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Dotted path and value of what may be the block: on top, or within the config of the text model."""
    holders: list[tuple[str, Any]] = [("", config), *((f"{name}.", config.get(name)) for name in _HOLDERS)]
    for prefix, holder in holders:
        for key in _KEYS if isinstance(holder, Mapping) else ():
            value = holder.get(key)
            if isinstance(value, Mapping) and isinstance(value.get("quantization_config"), Mapping):
                yield f"{prefix}{key}.quantization_config", value["quantization_config"]
            elif value:
                yield f"{prefix}{key}", value


def _validated(place: str, value: Mapping[str, Any]) -> Block:
    try:
        return Block.model_validate(value)
    except ValidationError as error:
        faults = [_fault(place, item) for item in error.errors()]
        more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
        raise CheckpointError(f"config.json: {'; '.join(faults[:_SHOWN])}{more}") from None


def _fault(place: str, item: Any) -> str:
    message = _MESSAGES.get(item["type"]) or str(item["msg"]).removeprefix("Value error, ")
    where = ".".join([place, *(shown(str(part)) for part in item["loc"])])
    return f"{where}: {message[:1].lower()}{message[1:]}"
