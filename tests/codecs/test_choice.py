"""Which codec a format has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from schemegen.codecs import codec_of
from schemegen.errors import UnsupportedError
from schemegen.scheme import Format

CHANNEL = {"strategy": "channel", "group_size": None}
TOKENS = {"num_bits": 8, "strategy": "token", "dynamic": True}


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({}, "PackedInt"),
        ({"observer": None}, "PackedInt"),
        ({"narrow_range": True}, "NarrowInt"),
        ({"symmetric": False}, "AsymmetricInt"),
        ({"symmetric": False, "observer": "mse"}, "AsymmetricInt"),
        ({"observer": "mse"}, "MseInt"),
        ({"observer": "signed_mse"}, "SignedMseInt"),
        ({"observer": "of-a-guest"}, "PackedInt"),
        ({"num_bits": 8, **CHANNEL, "input_activations": TOKENS}, "PlainInt"),
        ({"input_activations": TOKENS | {"type": "float"}, "storage": "pack-quantized"}, "PackedInt"),
    ],
    ids=str,
)
def test_integers(fields: dict[str, Any], name: str, format_of: Callable[..., Format]) -> None:
    assert type(codec_of(format_of(**fields))).__name__ == name


def test_what_no_storage_holds_has_no_codec(format_of: Callable[..., Format]) -> None:
    with pytest.raises(UnsupportedError, match="holds symmetric weights only"):
        codec_of(format_of(symmetric=False, storage="int-quantized"))


@pytest.mark.parametrize(
    ("fields", "columns", "torch"),
    [
        ({}, 64, False),
        ({"num_bits": 3}, 64, True),
        ({"narrow_range": True}, 64, False),
        ({"narrow_range": True, "num_bits": 5}, 64, True),
        ({"symmetric": False}, 64, False),
        ({"symmetric": False, "num_bits": 8, **CHANNEL}, 64, False),
        ({"symmetric": False, "num_bits": 6}, 64, True),
        ({"symmetric": False, "observer": "mse"}, 64, True),
        ({"num_bits": 8, **CHANNEL, "storage": "int-quantized"}, 64, False),
        ({"num_bits": 8, **CHANNEL, "storage": "int-quantized"}, 66, True),
        ({"num_bits": 8, **CHANNEL, "storage": "int-quantized"}, None, False),
        ({"num_bits": 5, "storage": "int-quantized"}, 64, False),
        ({"num_bits": 8, **CHANNEL, "storage": "int-quantized", "observer": "mse"}, 64, True),
    ],
    ids=str,
)
def test_what_needs_torch(
    fields: dict[str, Any], columns: int | None, torch: bool, format_of: Callable[..., Format]
) -> None:
    assert codec_of(format_of(**fields)).needs_torch("BF16", columns) is torch
