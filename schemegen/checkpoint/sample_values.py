"""The bytes of the sample's tensors: the same on every platform and with every numpy, in each dtype and layout."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Final, Literal

from schemegen.checkpoint.sample_tensors import Stored, Values

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Dtype = Literal["BF16", "F16", "F32"]
_ITEM_BYTES: Final = {"BF16": 2, "F16": 2, "F32": 4}


def data_bytes(tensors: Iterable[Stored], dtype: Dtype) -> int:
    """Bytes of the tensors' data."""
    return sum(prod(tensor.shape) for tensor in tensors) * _ITEM_BYTES[dtype]


def header_bytes(tensors: Sequence[Stored], dtype: Dtype) -> bytes:
    """The safetensors header, length word included, of tensors stored one after another, padded to 8 bytes."""
    entries: dict[str, object] = {"__metadata__": {"format": "pt"}}
    position = 0
    for tensor in tensors:
        end = position + data_bytes([tensor], dtype)
        entries[tensor.name] = {"dtype": dtype, "shape": tensor.shape, "data_offsets": [position, end]}
        position = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def tensor_bytes(tensor: Stored, dtype: Dtype) -> bytes:
    """The tensor's data, little endian, rounded half to even from the F32 values that all layouts share."""
    values = _values(tensor.source, tensor.source_shape, tensor.values)
    if tensor.block is not None:
        expert, first, end = tensor.block
        values = values[expert, first:end]
    if dtype == "BF16":
        return _bfloat16(values).tobytes()
    return values.astype("<f2" if dtype == "F16" else "<f4").tobytes()


def _bfloat16(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    import numpy as np

    bits = values.view(np.uint32)
    half = ((bits >> np.uint32(16)) & np.uint32(1)) + np.uint32(0x7FFF)
    return ((bits + half) >> np.uint32(16)).astype("<u2")


@lru_cache(maxsize=1)
def _values(name: str, shape: tuple[int, ...], values: Values) -> NDArray[np.float32]:
    """F32 values of a whole tensor: sums of two 16-bit numbers, centred and scaled without rounding.

    Only the raw output of PCG64 is used, which numpy keeps from version to version.
    """
    import numpy as np

    count = prod(shape)
    raw = np.random.PCG64(zlib.crc32(name.encode())).random_raw((count + 1) // 2)
    halves = raw.astype("<u8", copy=False).view("<u2").astype(np.int32)
    noise = (halves[0::2] + halves[1::2] - 0xFFFF)[:count].astype(np.float32)
    centre, exponent = values.value
    return (noise * np.float32(2.0**exponent) + np.float32(centre)).reshape(shape)
