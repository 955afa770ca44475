from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemegen.errors import UnsupportedError
from schemegen.kernels.cpu import apply_int, decode_int, quantize_int, recode_int, warm_up

Array = npt.NDArray[Any]
Weights = Callable[[str, int, int, int, int], Array]

FORMATS = [(dtype, num_bits) for dtype in ("BF16", "F16", "F32") for num_bits in (4, 8)]
every_format = pytest.mark.parametrize(("dtype", "num_bits"), FORMATS, ids=lambda value: str(value))
# One block, several blocks, and blocks of other lengths: of these every dtype needs its own machine code.
GROUPS = {4: {"BF16": (32, 64, 8, 48)}, 8: {"BF16": (32, 128, 4, 40)}}


def groups(dtype: str, num_bits: int) -> tuple[int, ...]:
    return GROUPS[num_bits].get(dtype, (32, 96))


def quantized(weights: Array, dtype: str, num_bits: int, group_size: int) -> tuple[int, Array, Array]:
    rows, cols = weights.shape
    packed = np.full((rows, cols * num_bits // 32), 0xDEADBEEF, np.uint32)
    scales = np.full((rows, cols // group_size), 0xDEAD, weights.dtype)
    return quantize_int(weights, dtype, num_bits, group_size, packed, scales), packed, scales


def decoded(packed: Array, dtype: str, num_bits: int, group_size: int, scales: Array) -> Array:
    weights = np.empty((packed.shape[0], packed.shape[1] * 32 // num_bits), scales.dtype)
    decode_int(packed, dtype, num_bits, group_size, scales, weights)
    return weights


@every_format
def test_quantize_equals_plain_numpy(dtype: str, num_bits: int, weight_bits: Weights, plain_int: Any) -> None:
    for group_size in groups(dtype, num_bits):
        weights = weight_bits(dtype, 61, group_size * 13, group_size, group_size)
        where, packed, scales = quantized(weights, dtype, num_bits, group_size)
        expected_packed, expected_scales = plain_int(dtype, num_bits).quantize(weights, group_size)
        assert where == -1
        np.testing.assert_array_equal(scales, expected_scales)
        np.testing.assert_array_equal(packed, expected_packed)


@settings(deadline=None, max_examples=80)
@given(data=st.data())
def test_quantize_equals_plain_numpy_for_any_bits(data: st.DataObject, plain_int: Any) -> None:
    dtype, num_bits = data.draw(st.sampled_from(FORMATS))
    group_size = data.draw(st.sampled_from(groups(dtype, num_bits)))
    plain = plain_int(dtype, num_bits)
    rows, size = data.draw(st.integers(1, 3)), np.dtype(plain.uint).itemsize * group_size
    weights = np.frombuffer(data.draw(st.binary(min_size=rows * size, max_size=rows * size)), plain.uint).copy()
    weights[weights & plain.infinity == plain.infinity] ^= plain.infinity
    places = st.tuples(st.integers(0, weights.size - 1), st.sampled_from(plain.specials()))
    for place, special in data.draw(st.lists(places, max_size=9)):
        weights[place] = special
    weights = weights.reshape(rows, group_size)
    where, packed, scales = quantized(weights, dtype, num_bits, group_size)
    expected_packed, expected_scales = plain.quantize(weights, group_size)
    assert where == -1
    assert scales.tolist() == expected_scales.tolist()
    assert packed.tolist() == expected_packed.tolist()


@every_format
def test_a_channel_is_a_group_of_all_columns(dtype: str, num_bits: int, weight_bits: Weights, plain_int: Any) -> None:
    weights = weight_bits(dtype, 5, 672, 672, 1)
    where, packed, scales = quantized(weights, dtype, num_bits, 672)
    expected_packed, expected_scales = plain_int(dtype, num_bits).quantize(weights, 672)
    assert (where, scales.shape) == (-1, (5, 1))
    np.testing.assert_array_equal(scales, expected_scales)
    np.testing.assert_array_equal(packed, expected_packed)


def test_a_group_of_zeros_has_scale_epsilon_and_zero_codes() -> None:
    for dtype, epsilon in (("BF16", 0x3C00), ("F16", 0x1400), ("F32", 0x34000000)):
        weights = np.zeros((2, 64), np.uint32 if dtype == "F32" else np.uint16)
        weights[1] = 1 << weights.itemsize * 8 - 1  # -0.0
        _, packed, scales = quantized(weights, dtype, 4, 32)
        assert set(scales.ravel().tolist()) == {epsilon}
        assert set(packed.ravel().tolist()) == {0x88888888}


@every_format
def test_no_rows_are_nothing_to_do(dtype: str, num_bits: int) -> None:
    weights = np.empty((0, 64), np.uint32 if dtype == "F32" else np.uint16)
    where, packed, scales = quantized(weights, dtype, num_bits, 32)
    assert where == -1
    assert recode_int(weights, dtype, num_bits, 32, packed, scales) == -1


@every_format
def test_the_first_weight_that_is_not_finite_is_named(dtype: str, num_bits: int, plain_int: Any) -> None:
    plain = plain_int(dtype, num_bits)
    sign = 1 << np.dtype(plain.uint).itemsize * 8 - 1
    good = np.full((4, 96), plain.infinity - 1, plain.uint)
    _, packed, scales = quantized(good, dtype, num_bits, 96)
    for bad in (plain.infinity, plain.infinity | sign, plain.infinity + 1, sign - 1, 2 * sign - 1):
        for position in (0, 31, 95, 96, 200, 383):
            weights = good.copy()
            weights.flat[position:] = bad
            assert quantized(weights, dtype, num_bits, 96)[0] == position
            assert recode_int(weights, dtype, num_bits, 96, packed, scales) == position


@every_format
def test_recode_finds_every_changed_code(dtype: str, num_bits: int, weight_bits: Weights) -> None:
    weights = weight_bits(dtype, 3, 96, 32, 5)
    _, packed, scales = quantized(weights, dtype, num_bits, 32)
    assert recode_int(weights, dtype, num_bits, 32, packed, scales) == -1
    for position in range(weights.size):
        for bit in range(num_bits):
            changed = packed.copy()
            changed.flat[position * num_bits // 32] ^= np.uint32(1 << (position * num_bits % 32 + bit))
            assert recode_int(weights, dtype, num_bits, 32, changed, scales) == position


@every_format
def test_recode_rounds_under_the_stored_scale(dtype: str, num_bits: int, weight_bits: Weights, plain_int: Any) -> None:
    plain = plain_int(dtype, num_bits)
    weights = weight_bits(dtype, 40, 96, 32, 6)
    rng = np.random.default_rng(7)
    scales = rng.integers(1, plain.infinity, (40, 3)).astype(plain.uint)
    scales |= rng.choice(np.array([0, 1 << scales.itemsize * 8 - 1], plain.uint), scales.shape)
    with np.errstate(over="ignore", under="ignore"):
        own = plain.pack(plain.codes(weights, scales))
    assert recode_int(weights, dtype, num_bits, 32, own, scales) == -1
    _, packed, _ = quantized(weights, dtype, num_bits, 32)
    differ = np.flatnonzero((packed != own).any(1))
    assert differ.size > 20
    for row in differ:
        where = recode_int(weights[row : row + 1], dtype, num_bits, 32, packed[row : row + 1], scales[row : row + 1])
        shifts = np.arange(96) * num_bits % 32
        stored, right = ((words[row].repeat(32 // num_bits) >> shifts) % 2**num_bits for words in (packed, own))
        assert where == np.flatnonzero(stored != right)[0]


@every_format
def test_recode_refuses_a_scale_that_divides_to_nothing(dtype: str, num_bits: int, plain_int: Any) -> None:
    plain = plain_int(dtype, num_bits)
    weights = np.tile(plain.narrow([1.0]), (4, 96))  # the highest code, as 1 / 0 has it when it is clamped
    _, packed, scales = quantized(weights, dtype, num_bits, 32)
    sign = 1 << scales.itemsize * 8 - 1
    for bad in (0, sign, plain.infinity, plain.infinity | sign, plain.infinity + 1):
        for group in (0, 4, 11):
            changed = scales.copy()
            changed.flat[group] = bad
            assert recode_int(weights, dtype, num_bits, 32, packed, changed) == group * 32


@every_format
def test_decode_multiplies_code_and_scale(dtype: str, num_bits: int, plain_int: Any) -> None:
    plain = plain_int(dtype, num_bits)
    scales = np.random.default_rng(9).integers(0, plain.infinity, (300, 4)).astype(plain.uint)
    codes = np.resize(np.arange(-(2 ** (num_bits - 1)), 2 ** (num_bits - 1)), (300, 256))
    with np.errstate(over="ignore", under="ignore"):
        products = codes.reshape(300, 4, 64).astype(np.float32) * plain.widen(scales)[..., None]
        expected = plain.narrow(products.reshape(300, 256))
    np.testing.assert_array_equal(decoded(plain.pack(codes), dtype, num_bits, 64, scales), expected)


def test_what_the_kernels_cannot_do_is_refused_by_name() -> None:
    def call(cols: int, dtype: str, num_bits: int, group_size: int) -> int:
        words, weights = np.empty((2, 8), np.uint32), np.empty((2, cols), np.uint16)
        return quantize_int(weights, dtype, num_bits, group_size, words, weights)

    with pytest.raises(UnsupportedError, match=r"'I8'.*BF16, F16, F32"):
        call(64, "I8", 4, 32)
    with pytest.raises(UnsupportedError, match="5 bits"):
        call(64, "BF16", 5, 32)
    with pytest.raises(UnsupportedError, match=r"group size 4 .*multiple of 8"):
        call(64, "BF16", 4, 4)
    with pytest.raises(UnsupportedError, match="group size 0 "):
        warm_up("BF16", 4, 0)
    with pytest.raises(UnsupportedError, match="does not divide the width 72"):
        call(72, "BF16", 4, 32)


def test_arrays_that_do_not_fit_are_refused_before_an_address_is_used() -> None:
    weights, packed, scales = np.zeros((4, 64), np.uint16), np.zeros((4, 8), np.uint32), np.zeros((4, 2), np.uint16)
    frozen = scales.copy()
    frozen.flags.writeable = False
    misfits: list[tuple[Any, Any, Any]] = [
        (weights.astype(np.uint32), packed, scales),
        (np.asfortranarray(weights), packed, scales),
        (weights, packed[:3], scales),
        (weights, packed.view(np.int32), scales),
        (weights, packed, scales[:, :1]),
        (weights, packed, frozen),
    ]
    for misfit in misfits:
        with pytest.raises(ValueError, match="must be"):
            quantize_int(misfit[0], "BF16", 4, 32, misfit[1], misfit[2])


def test_what_is_only_read_may_be_read_only() -> None:
    weights = np.full((4, 64), 0x3F80, np.uint16)
    weights.flags.writeable = False
    _, packed, scales = quantized(weights, "BF16", 4, 32)
    packed.flags.writeable = scales.flags.writeable = False
    assert recode_int(weights, "BF16", 4, 32, packed, scales) == -1
    assert decoded(packed, "BF16", 4, 32, scales).shape == (4, 64)


@every_format
@pytest.mark.parametrize("strategy", ["group", "channel"])
def test_bits_equal_compressed_tensors(
    dtype: str, num_bits: int, strategy: str, weight_bits: Weights, peer_int: Callable[..., Any]
) -> None:
    group_size = 32 if strategy == "group" else 672
    raw = weight_bits(dtype, 257, 672, group_size, num_bits)
    theirs = peer_int(raw, dtype, num_bits, group_size)
    where, packed, scales = quantized(raw, dtype, num_bits, group_size)
    assert where == -1
    np.testing.assert_array_equal(scales, theirs.scales)
    np.testing.assert_array_equal(packed, theirs.packed)
    assert recode_int(raw, dtype, num_bits, group_size, packed, scales) == -1
    np.testing.assert_array_equal(decoded(packed, dtype, num_bits, group_size, scales), theirs.restored)


@pytest.mark.parametrize("num_bits", [3, 4, 8])
@pytest.mark.parametrize("dtype", ["BF16", "F16", "F32"])
def test_a_code_a_byte_is_the_plain_code(dtype: str, num_bits: int, weight_bits: Weights, plain_int: Any) -> None:
    plain = plain_int(dtype, num_bits)
    weights = weight_bits(dtype, 61, 416, 32, num_bits)
    codes, scales = np.full((61, 416), 99, np.uint8), np.zeros((61, 13), weights.dtype)
    assert quantize_int(weights, dtype, num_bits, 32, codes, scales, "bytes") == -1
    with np.errstate(over="ignore", under="ignore"):
        np.testing.assert_array_equal(scales, plain.scales(weights, 32))
        np.testing.assert_array_equal(codes.view(np.int8), plain.codes(weights, scales))
        expected = plain.codes(weights, scales).reshape(61, 13, 32) * plain.widen(scales)[..., None]
    restored = np.empty_like(weights)
    decode_int(codes, dtype, num_bits, 32, scales, restored, "bytes")
    with np.errstate(over="ignore", under="ignore"):
        np.testing.assert_array_equal(restored, plain.narrow(expected.astype(np.float32).reshape(61, 416)))
    assert recode_int(weights, dtype, num_bits, 32, codes, scales, "bytes") == -1
    for place in range(0, codes.size, 97):
        changed = codes.copy()
        changed.flat[place] ^= 1 << place % 8
        assert recode_int(weights, dtype, num_bits, 32, changed, scales, "bytes") == place


@every_format
def test_apply_rounds_under_the_scales_given(dtype: str, num_bits: int, weight_bits: Weights, plain_int: Any) -> None:
    plain = plain_int(dtype, num_bits)
    weights = weight_bits(dtype, 12, 416, 32, 3)
    scales = np.random.default_rng(5).integers(1, plain.infinity, (12, 1)).astype(plain.uint)
    before = scales.copy()
    codes = np.zeros((12, 416), np.uint8)
    assert apply_int(weights, dtype, num_bits, 416, codes, scales, "bytes") == -1
    with np.errstate(over="ignore", under="ignore"):
        np.testing.assert_array_equal(codes.view(np.int8), plain.codes(weights, scales))
    np.testing.assert_array_equal(scales, before)
    weights.flat[77:] = plain.infinity
    assert apply_int(weights, dtype, num_bits, 416, codes, scales, "bytes") == 77


def test_bytes_that_fill_no_words_are_refused() -> None:
    weights, codes, scales = np.zeros((2, 66), np.uint16), np.zeros((2, 66), np.uint8), np.zeros((2, 1), np.uint16)
    with pytest.raises(UnsupportedError, match=r"group size 66 .*multiple of 4"):
        quantize_int(weights, "BF16", 8, 66, codes, scales, "bytes")
    with pytest.raises(ValueError, match="packed must be"):
        quantize_int(weights[:, :64].copy(), "BF16", 8, 64, codes, scales, "bytes")
