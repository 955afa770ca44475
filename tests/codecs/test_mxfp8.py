"""MXFP8 where compressed-tensors' arithmetic leaves the dtype's range, and at zero."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from schemegen.codecs import Codec, codec_of
from schemegen.scheme import Format

Array = npt.NDArray[Any]

LARGEST = {"BF16": 0x7F7F, "F16": 0x7BFF, "F32": 0x7F7FFFFF}
every_dtype = pytest.mark.parametrize("dtype", LARGEST)
devices = pytest.mark.parametrize("device", ["cpu", "torch:cpu"])


@pytest.fixture
def codec() -> Codec:
    weights = {"num_bits": 8, "type": "float", "group_size": 32, "scale_dtype": "uint8"}
    return codec_of(Format.model_validate({"weights": weights}))


def encoded(codec: Codec, weights: Array, dtype: str, device: str) -> tuple[Array, Array, Array]:
    """Codes, scales and what they restore."""
    if device != "cpu":
        pytest.importorskip("torch")
    shape = (*weights.shape[:2], weights.shape[2] // 32)
    out = {"weight": np.empty(weights.shape, np.uint8), "weight_scale": np.empty(shape, np.uint8)}
    assert codec.encode(weights, dtype, out, None, device) == -1
    assert codec.recode(weights, dtype, out) is None
    restored = np.empty_like(weights)
    codec.decode(out, dtype, restored)
    return out["weight"], out["weight_scale"], restored


@every_dtype
@devices
def test_the_largest_weights_keep_their_size(codec: Codec, dtype: str, device: str) -> None:
    """compressed-tensors rounds them to infinity, and stores codes of 0 with a scale of 1."""
    largest = LARGEST[dtype]
    weights = np.full((1, 2, 64), largest, np.uint32 if dtype == "F32" else np.uint16)
    codes, scales, restored = encoded(codec, weights, dtype, device)
    assert set(codes.ravel().tolist()) == {0x78}
    assert set(scales.ravel().tolist()) == {127 + {"F16": 8}.get(dtype, 120)}
    # The nearest E4M3 is 256, and 2**8 times the scale is beyond the dtype.
    assert set(restored.ravel().tolist()) == {{"BF16": 0x7F80, "F16": 0x7C00, "F32": 0x7F800000}[dtype]}
    below = {"BF16": 0x7F6F, "F16": 0x7B7F, "F32": 0x7F6FFFFF}[dtype]
    _, _, restored = encoded(codec, np.full_like(weights, below), dtype, device)
    assert set(restored.ravel().tolist()) == {{"BF16": 0x7F70, "F16": 0x7B80, "F32": 0x7F700000}[dtype]}


@every_dtype
@devices
def test_zeros_take_the_smallest_scale_that_the_dtype_has(codec: Codec, dtype: str, device: str) -> None:
    weights = np.zeros((1, 2, 32), np.uint32 if dtype == "F32" else np.uint16)
    weights[0, 1] = 1 << weights.itemsize * 8 - 1
    codes, scales, restored = encoded(codec, weights, dtype, device)
    assert codes.reshape(2, -1).tolist() == [[0] * 32, [0x80] * 32]
    assert scales.ravel().tolist() == [127 if dtype == "F16" else 0] * 2
    np.testing.assert_array_equal(restored, weights)


@pytest.mark.parametrize("bad", [0x7F, 0xFF])
def test_a_code_that_is_no_number_is_no_weights_code(codec: Codec, bad: int) -> None:
    weights = np.full((1, 1, 32), 0x3F80, np.uint16)
    codes, scales, _ = encoded(codec, weights, "BF16", "cpu")
    codes[0, 0, 7] = bad
    found = codec.recode(weights, "BF16", {"weight": codes, "weight_scale": scales})
    assert found is not None
    assert found.place == (0, 0, 7)
