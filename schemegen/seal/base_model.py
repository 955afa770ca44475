"""The Hub id of the model that an output was made from."""

from __future__ import annotations

from schemegen.checkpoint.hub.names import HubName, hub_name
from schemegen.errors import CheckpointError, UnsupportedError, shortened


def hub_id(model_id: str) -> str | None:
    """The id where it is one of the Hub, `org/name`; None for a sample, a folder or a path."""
    found = _named(model_id)
    return model_id if found is not None and found.repo == model_id else None


def base_model_id(given: object) -> str:
    """The Hub id that a person gave as base model: itself, or the address of its page; UnsupportedError otherwise."""
    text = str(given)
    found = _named(text) if isinstance(given, str) else None
    if found is not None and found.revision is not None:
        raise UnsupportedError(
            f"base model {shortened(text)} names a revision, which a card cannot hold; write {found.repo}"
        )
    if found is None:
        raise UnsupportedError(
            f"base model {shortened(text)} is no Hub id of a model; write ORG/NAME, such as Qwen/Qwen3.6-35B-A3B"
        )
    return found.repo


def base_of(named: str | None, model_id: str) -> str | None:
    """The base model's Hub id: as somebody named it, who may know better, else the model's own, else None."""
    return named or hub_id(model_id)


def _named(text: str) -> HubName | None:
    try:
        return hub_name(text)
    except CheckpointError:
        return None
