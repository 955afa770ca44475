"""Every integer codec: cuts and devices that change nothing, what recode finds, what comes back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemegen.codecs import Codec, codec_of
from schemegen.formats import pieces, row_step
from schemegen.scheme import Format

Array = npt.NDArray[Any]
Formats = Callable[..., Format]
Buffers = Callable[[Format, str, tuple[int, int, int]], dict[str, Array]]
Weights = Callable[..., Array]

CHANNEL = {"strategy": "channel", "group_size": None}
WHOLE = {"strategy": "tensor", "group_size": None}
PLAIN = {"storage": "int-quantized"}
FORMATS: list[dict[str, Any]] = [
    {},
    {"num_bits": 8, **CHANNEL},
    {"narrow_range": True},
    {"narrow_range": True, "num_bits": 8, **CHANNEL},
    {"symmetric": False},
    {"symmetric": False, "num_bits": 8},
    {"symmetric": False, **CHANNEL},
    {"num_bits": 8, **CHANNEL, **PLAIN},
    {"num_bits": 8, **PLAIN},
    {"num_bits": 8, **WHOLE, **PLAIN},
    {"num_bits": 4, **WHOLE, **PLAIN},
]
TORCH: list[dict[str, Any]] = [
    {"num_bits": 3},
    {"num_bits": 5, "symmetric": False},
    {"num_bits": 3, "symmetric": False, **CHANNEL},
    {"num_bits": 6, "narrow_range": True},
]
every_format = pytest.mark.parametrize("fields", FORMATS, ids=str)
every_size = pytest.mark.parametrize("dtype", ["BF16", "F32"])


def magnitudes(weights: Array, dtype: str) -> npt.NDArray[np.float32]:
    """[matrices] of the largest magnitude."""
    top = (weights & (2 ** (weights.itemsize * 8 - 1) - 1)).reshape(len(weights), -1).max(1)
    if dtype == "F16":
        return np.asarray(top.astype(np.uint16).view(np.float16), np.float32)
    bits = top.astype(np.uint32) << np.uint32(16) if dtype == "BF16" else top.astype(np.uint32)
    return np.asarray(bits.view(np.float32))


def encode(codec: Codec, weights: Array, dtype: str, out: dict[str, Array], device: str = "cpu") -> int:
    return codec.encode(weights, dtype, out, magnitudes(weights, dtype), device)


@every_format
@every_size
def test_row_blocks_change_nothing(
    fields: dict[str, Any], dtype: str, format_of: Formats, buffers: Buffers, random_weights: Weights
) -> None:
    format = format_of(**fields)
    codec, weights = codec_of(format), random_weights(dtype, (1, 29, 64))
    whole = buffers(format, dtype, weights.shape)
    assert encode(codec, weights, dtype, whole) == -1
    step = row_step(format, dtype, 29, 64)
    for first in range(0, 29, step):
        rows = weights[:, first : first + step]
        part, kept = buffers(format, dtype, rows.shape), {}
        for piece in pieces(format, dtype, 29, 64):
            if piece.suffix not in part:
                continue
            if piece.per_rows:
                kept[piece.suffix] = slice(piece.rows_before(first), piece.rows_before(min(first + step, 29)))
            elif first:
                part[piece.suffix] = part[piece.suffix][:, :0]
        assert codec.encode(rows, dtype, part, magnitudes(weights, dtype)) == -1
        for suffix, items in part.items():
            expected = whole[suffix][:, kept[suffix]] if suffix in kept else whole[suffix][:, : items.shape[1]]
            np.testing.assert_array_equal(items, expected)


@every_format
@every_size
def test_torch_gives_the_same_bits(
    fields: dict[str, Any], dtype: str, format_of: Formats, buffers: Buffers, random_weights: Weights
) -> None:
    pytest.importorskip("torch")
    format = format_of(**fields)
    codec, weights = codec_of(format), random_weights(dtype, (3, 13, 64))
    weights[1, 2] = 0
    made = []
    for device in ("cpu", "torch:cpu"):
        out = buffers(format, dtype, weights.shape)
        assert encode(codec, weights, dtype, out, device) == -1
        made.append({suffix: items.tobytes() for suffix, items in out.items()})
    assert made[0] == made[1]


@pytest.mark.parametrize("fields", [*FORMATS, *TORCH], ids=str)
@every_size
def test_recode_takes_what_encode_wrote_and_finds_what_is_not_so(
    fields: dict[str, Any], dtype: str, format_of: Formats, buffers: Buffers, random_weights: Weights
) -> None:
    format = format_of(**fields)
    codec, weights = codec_of(format), random_weights(dtype, (2, 3, 64))
    if codec.needs_torch(dtype, 64):
        pytest.importorskip("torch")
    out = buffers(format, dtype, weights.shape)
    assert encode(codec, weights, dtype, out) == -1
    assert codec.recode(weights, dtype, out) is None
    codes = next(suffix for suffix in ("weight_packed", "weight") if suffix in out)
    bits = format.weights.num_bits if codes == "weight_packed" else 8
    for place in range(weights.size):
        changed = {suffix: items.copy() for suffix, items in out.items()}
        flat = changed[codes].view(np.uint8).reshape(-1)
        flat[place * bits // 8] ^= 1 << place * bits % 8
        wrong = codec.recode(weights, dtype, changed)
        assert wrong is not None
        assert (wrong.suffix, wrong.place) == (codes, tuple(map(int, np.unravel_index(place, weights.shape))))
    for place in range(out["weight_scale"].size):
        changed = {suffix: items.copy() for suffix, items in out.items()}
        changed["weight_scale"].flat[place] = 0
        wrong = codec.recode(weights, dtype, changed)
        assert wrong is not None
        assert wrong.suffix == "weight_scale"
        assert wrong.place == tuple(map(int, np.unravel_index(place, out["weight_scale"].shape)))


@pytest.mark.parametrize("num_bits", range(2, 9))
def test_recode_finds_every_bit_of_zero_points(
    num_bits: int, format_of: Formats, buffers: Buffers, random_weights: Weights
) -> None:
    pytest.importorskip("torch")
    format = format_of(num_bits=num_bits, symmetric=False)
    codec, weights = codec_of(format), random_weights("BF16", (2, 5, 64))
    out = buffers(format, "BF16", weights.shape)
    assert encode(codec, weights, "BF16", out) == -1
    zeros, used = out["weight_zero_point"], 5 * num_bits
    for place in range(zeros.size * 32):
        changed = zeros.copy()
        changed.flat[place // 32] ^= np.uint32(1 << place % 32)
        matrix, line, group = map(int, np.unravel_index(place // 32, zeros.shape))
        wrong = codec.recode(weights, "BF16", {**out, "weight_zero_point": changed})
        bit = line * 32 + place % 32
        assert wrong is not None
        if bit < used:
            assert (wrong.suffix, *wrong.place[:2]) == ("weight_packed", matrix, bit // num_bits)
        else:
            assert (wrong.suffix, wrong.place) == ("weight_zero_point", (matrix, line, group))


@pytest.mark.parametrize("fields", [*FORMATS, *TORCH], ids=str)
@every_size
def test_the_first_weight_that_is_not_finite_is_named(
    fields: dict[str, Any], dtype: str, format_of: Formats, buffers: Buffers, random_weights: Weights
) -> None:
    format = format_of(**fields)
    codec, infinity = codec_of(format), {"BF16": 0x7F80, "F16": 0x7C00, "F32": 0x7F800000}[dtype]
    if codec.needs_torch(dtype, 64):
        pytest.importorskip("torch")
    for place in (0, 31, 100, 383):
        weights = random_weights(dtype, (2, 3, 64))
        shared = magnitudes(weights, dtype)
        weights.flat[place:] = infinity + place % 2
        assert codec.encode(weights, dtype, buffers(format, dtype, weights.shape), shared) == place


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_what_comes_back_is_near(
    data: st.DataObject, format_of: Formats, buffers: Buffers, random_weights: Weights
) -> None:
    """Within a step: half of one for rounding, and codes end half a step before the range does."""
    format = format_of(**data.draw(st.sampled_from(FORMATS)))
    shape = (data.draw(st.integers(1, 3)), data.draw(st.integers(1, 19)), 32 * data.draw(st.integers(2, 3)))
    codec, weights = codec_of(format), random_weights("F32", shape, data.draw(st.integers(0, 99)))
    out = buffers(format, "F32", shape)
    assert encode(codec, weights, "F32", out) == -1
    restored = np.empty_like(weights)
    codec.decode(out, "F32", restored)
    scales = out["weight_scale"].view(np.float32).reshape(shape[0], -1, out["weight_scale"].shape[-1])
    steps = np.repeat(np.broadcast_to(scales, (shape[0], shape[1], scales.shape[-1])), shape[2] // scales.shape[-1], 2)
    assert (np.abs(restored.view(np.float32) - weights.view(np.float32)) <= steps * 1.0001).all()


def test_one_scale_a_matrix_needs_its_magnitude(format_of: Formats, buffers: Buffers, random_weights: Weights) -> None:
    format = format_of(num_bits=8, **WHOLE, **PLAIN)
    weights = random_weights("BF16", (1, 4, 32))
    with pytest.raises(ValueError, match="largest magnitude"):
        codec_of(format).encode(weights, "BF16", buffers(format, "BF16", weights.shape))


@every_format
def test_a_kernel_is_warm_after_warm_up(
    fields: dict[str, Any],
    format_of: Formats,
    buffers: Buffers,
    random_weights: Weights,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a first encode would compile is there already."""
    from schemegen.kernels import native

    format = format_of(**fields)
    codec, weights = codec_of(format), random_weights("BF16", (1, 8, 64))
    codec.warm_up("BF16", 64)
    monkeypatch.setattr(native, "_read", lambda name: pytest.fail(f"{name} was not loaded"))
    assert encode(codec, weights, "BF16", buffers(format, "BF16", weights.shape)) == -1
