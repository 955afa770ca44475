"""Integers in torch: the bits of the fused kernels, of plain numpy and of compressed-tensors, on torch's CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from schemegen.kernels import cpu

torch = pytest.importorskip("torch")

Array = npt.NDArray[Any]
Weights = Callable[[str, int, int, int, int], Array]

DTYPES = ("BF16", "F16", "F32")
every_dtype = pytest.mark.parametrize("dtype", DTYPES)
every_width = pytest.mark.parametrize("num_bits", range(2, 9))
fused_width = pytest.mark.parametrize("num_bits", [4, 8])


def quantized(kernel: Any, weights: Array, num_bits: int, group_size: int, dtype: str) -> tuple[int, Array, Array]:
    rows, cols = weights.shape
    packed = np.full((rows, cols * num_bits // 32), 0xDEADBEEF, np.uint32)
    scales = np.full((rows, cols // group_size), 0xDEAD, weights.dtype)
    return kernel(weights, dtype, num_bits, group_size, packed, scales), packed, scales


def in_torch(weights: Array, num_bits: int, group_size: int, dtype: str) -> tuple[int, Array, Array]:
    from schemegen.kernels.torch_int import quantize_int

    return quantized(quantize_int, weights, num_bits, group_size, dtype)


@every_dtype
@fused_width
@pytest.mark.parametrize(("group_size", "cols"), [(32, 416), (96, 672), (128, 1024), (672, 672), (8, 64)])
def test_bits_equal_the_fused_kernels(
    dtype: str, num_bits: int, group_size: int, cols: int, weight_bits: Weights
) -> None:
    weights = weight_bits(dtype, 257, cols, group_size, num_bits)
    where, packed, scales = in_torch(weights, num_bits, group_size, dtype)
    expected = quantized(cpu.quantize_int, weights, num_bits, group_size, dtype)
    assert where == expected[0] == -1
    np.testing.assert_array_equal(scales, expected[2])
    np.testing.assert_array_equal(packed, expected[1])


@every_dtype
@fused_width
def test_restored_bits_equal_the_fused_kernels(dtype: str, num_bits: int, weight_bits: Weights) -> None:
    from schemegen.kernels.torch_int import decode_int

    weights = weight_bits(dtype, 64, 416, 32, 3)
    _, packed, scales = in_torch(weights, num_bits, 32, dtype)
    ours, theirs = np.empty_like(weights), np.empty_like(weights)
    decode_int(packed, dtype, num_bits, 32, scales, ours)
    cpu.decode_int(packed, dtype, num_bits, 32, scales, theirs)
    np.testing.assert_array_equal(ours, theirs)


@every_dtype
@every_width
@pytest.mark.parametrize("group_size", [16, 32, 96])
def test_every_width_equals_plain_numpy(
    dtype: str, num_bits: int, group_size: int, weight_bits: Weights, plain_int: Any
) -> None:
    from schemegen.kernels.torch_int import decode_int

    plain = plain_int(dtype, num_bits)
    weights = weight_bits(dtype, 61, 480, group_size, num_bits)
    where, packed, scales = in_torch(weights, num_bits, group_size, dtype)
    expected_packed, expected_scales = plain.quantize(weights, group_size)
    assert where == -1
    np.testing.assert_array_equal(scales, expected_scales)
    np.testing.assert_array_equal(packed, expected_packed)
    restored = np.empty_like(weights)
    decode_int(packed, dtype, num_bits, group_size, scales, restored)
    codes = plain.codes(weights, scales).reshape(*scales.shape, -1).astype(np.float32)
    with np.errstate(over="ignore", under="ignore"):
        np.testing.assert_array_equal(restored, plain.narrow(codes * plain.widen(scales)[..., None]).reshape(61, -1))


@every_dtype
@pytest.mark.parametrize("num_bits", [3, 4])
def test_the_first_weight_that_is_not_finite_is_named(dtype: str, num_bits: int, plain_int: Any) -> None:
    from schemegen.kernels.torch_int import recode_int

    plain = plain_int(dtype, num_bits)
    sign = 1 << np.dtype(plain.uint).itemsize * 8 - 1
    good = np.full((4, 96), plain.infinity - 1, plain.uint)
    _, packed, scales = in_torch(good, num_bits, 96, dtype)
    for bad in (plain.infinity, plain.infinity | sign, plain.infinity + 1, sign - 1, 2 * sign - 1):
        for position in (0, 95, 96, 383):
            weights = good.copy()
            weights.flat[position:] = bad
            assert in_torch(weights, num_bits, 96, dtype)[0] == position
            assert recode_int(weights, dtype, num_bits, 96, packed, scales) == position


@every_dtype
@pytest.mark.parametrize("num_bits", [3, 4, 5])
def test_recode_finds_every_changed_code(dtype: str, num_bits: int, weight_bits: Weights) -> None:
    from schemegen.kernels.torch_int import recode_int

    weights = weight_bits(dtype, 2, 64, 32, 5)
    _, packed, scales = in_torch(weights, num_bits, 32, dtype)
    assert recode_int(weights, dtype, num_bits, 32, packed, scales) == -1
    for bit in range(packed.size * 32):
        changed = packed.copy()
        changed.flat[bit // 32] ^= np.uint32(1 << bit % 32)
        assert recode_int(weights, dtype, num_bits, 32, changed, scales) == bit // num_bits


@every_dtype
def test_recode_refuses_a_scale_that_divides_to_nothing(dtype: str, plain_int: Any) -> None:
    from schemegen.kernels.torch_int import recode_int

    plain = plain_int(dtype, 4)
    weights = np.tile(plain.narrow([1.0]), (4, 96))
    _, packed, scales = in_torch(weights, 4, 32, dtype)
    sign = 1 << scales.itemsize * 8 - 1
    for bad in (0, sign, plain.infinity, plain.infinity | sign, plain.infinity + 1):
        for group in (0, 4, 11):
            changed = scales.copy()
            changed.flat[group] = bad
            assert recode_int(weights, dtype, 4, 32, packed, changed) == group * 32


@every_dtype
@fused_width
def test_recode_answers_as_the_fused_kernels_do(
    dtype: str, num_bits: int, weight_bits: Weights, plain_int: Any
) -> None:
    from schemegen.kernels.torch_int import recode_int

    plain = plain_int(dtype, num_bits)
    weights = weight_bits(dtype, 40, 96, 32, 6)
    scales = np.random.default_rng(7).integers(1, plain.infinity, (40, 3)).astype(plain.uint)
    _, packed, own = in_torch(weights, num_bits, 32, dtype)
    answers = set()
    for row in range(40):
        for chosen in (scales, own):
            given = (weights[row : row + 1], dtype, num_bits, 32, packed[row : row + 1], chosen[row : row + 1])
            answers.add(cpu.recode_int(*given))
            assert recode_int(*given) == cpu.recode_int(*given)
    assert len(answers) > 3


def test_no_rows_are_nothing_to_do() -> None:
    from schemegen.kernels.torch_int import recode_int

    weights = np.empty((0, 64), np.uint16)
    where, packed, scales = in_torch(weights, 3, 32, "BF16")
    assert where == -1
    assert recode_int(weights, "BF16", 3, 32, packed, scales) == -1


def test_what_is_only_read_may_be_read_only_and_stays_as_it_is(weight_bits: Weights) -> None:
    from schemegen.kernels.torch_int import recode_int

    for dtype in DTYPES:
        weights = weight_bits(dtype, 8, 64, 32, 1)
        before = weights.copy()
        _, packed, scales = in_torch(weights, 3, 32, dtype)
        np.testing.assert_array_equal(weights, before)
        for array in (weights, packed, scales):
            array.flags.writeable = False
        assert recode_int(weights, dtype, 3, 32, packed, scales) == -1


@every_dtype
def test_tensors_of_the_device_are_what_divides(dtype: str, weight_bits: Weights) -> None:
    """By a number, or a tensor of the CPU, CUDA would multiply with the reciprocal."""
    from torch.utils._python_dispatch import TorchDispatchMode

    divisions = []

    class Watch(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if "div" in str(func) or "reciprocal" in str(func):
                divisions.append((str(func), [isinstance(arg, torch.Tensor) and arg.dim() > 0 for arg in args]))
            return func(*args, **kwargs or {})

    with Watch():
        in_torch(weight_bits(dtype, 8, 64, 32, 1), 4, 32, dtype)
    assert divisions == [("aten.div.Tensor", [True, True]), ("aten.div_.Tensor", [True, True])]


@every_dtype
@every_width
@pytest.mark.parametrize("strategy", ["group", "channel"])
def test_bits_equal_compressed_tensors(
    dtype: str, num_bits: int, strategy: str, weight_bits: Weights, peer_int: Callable[..., Any]
) -> None:
    from schemegen.kernels.torch_int import decode_int

    group_size = 32 if strategy == "group" else 672
    raw = weight_bits(dtype, 65, 672, group_size, num_bits)
    theirs = peer_int(raw, dtype, num_bits, group_size)
    _, packed, scales = in_torch(raw, num_bits, group_size, dtype)
    np.testing.assert_array_equal(scales, theirs.scales)
    np.testing.assert_array_equal(packed, theirs.packed)
    restored = np.empty_like(raw)
    decode_int(packed, dtype, num_bits, group_size, scales, restored)
    np.testing.assert_array_equal(restored, theirs.restored)


@every_dtype
@every_width
@pytest.mark.parametrize("cols", [416, 26])
def test_a_code_a_byte_is_the_plain_code(
    dtype: str, num_bits: int, cols: int, weight_bits: Weights, plain_int: Any
) -> None:
    from schemegen.kernels.torch_int import apply_int, decode_int, quantize_int, recode_int

    plain, size = plain_int(dtype, num_bits), cols // 13
    weights = weight_bits(dtype, 61, cols, size, num_bits)
    codes, scales = np.full((61, cols), 99, np.uint8), np.zeros((61, 13), weights.dtype)
    assert quantize_int(weights, dtype, num_bits, size, codes, scales, style="bytes") == -1
    with np.errstate(over="ignore", under="ignore"):
        np.testing.assert_array_equal(scales, plain.scales(weights, size))
        np.testing.assert_array_equal(codes.view(np.int8), plain.codes(weights, scales))
    again, restored = np.zeros_like(codes), np.empty_like(weights)
    assert apply_int(weights, dtype, num_bits, size, again, scales, style="bytes") == -1
    np.testing.assert_array_equal(again, codes)
    decode_int(codes, dtype, num_bits, size, scales, restored, style="bytes")
    products = codes.view(np.int8).reshape(61, 13, size).astype(np.float32)
    with np.errstate(over="ignore", under="ignore"):
        products *= plain.widen(scales)[..., None]
        np.testing.assert_array_equal(restored, plain.narrow(products.reshape(61, cols)))
    assert recode_int(weights, dtype, num_bits, size, codes, scales, style="bytes") == -1
    for place in range(0, codes.size, 97):
        changed = codes.copy()
        changed.flat[place] ^= 1 << place % 8
        assert recode_int(weights, dtype, num_bits, size, changed, scales, style="bytes") == place
