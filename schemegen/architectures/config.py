"""What an architecture reads of a model's config.json."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from typing import Any, Final

from schemegen.errors import CheckpointError

Config = Mapping[str, Any]
_MAX_INT: Final = (1 << 63) - 1


def config_int(config: Config, *path: str, minimum: int = 1, default: int | None = None) -> int:
    """The integer at a path of config.json, or `default` where the path or a part of it is missing or null.

    CheckpointError when it is missing without a default, below `minimum`, or something else.
    """
    value: Any = config
    for position, key in enumerate(path):
        if not isinstance(value, Mapping):
            raise CheckpointError(f"config.json: {'.'.join(path[:position])} is {reprlib.repr(value)}, not an object")
        value = value.get(key)
        if value is None:
            break
    if value is None and default is not None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= _MAX_INT:
        raise CheckpointError(
            f"config.json: {'.'.join(path)} is {reprlib.repr(value)}; "
            f"the architecture needs a whole number there, at least {minimum}"
        )
    return value
