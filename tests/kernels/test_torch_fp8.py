"""FP8 in torch: the bits of the fused kernels, on torch's CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from schemegen.kernels import cpu_fp8

torch = pytest.importorskip("torch")

Array = npt.NDArray[Any]
Weights = Callable[[str, int, int, int, int], Array]

every_dtype = pytest.mark.parametrize("dtype", ["BF16", "F16", "F32"])
CELLS = [((1, 160), False), ((8, 32), False), ((7, 33), False), ((64, 200), False), ((1, 32), True)]
every_cell = pytest.mark.parametrize(("cell", "is_mx"), CELLS, ids=str)


def quantized(
    kernel: Any, weights: Array, dtype: str, cell: tuple[int, int], is_mx: bool, **more: Any
) -> tuple[int, Array, Array]:
    matrices, rows, cols = weights.shape
    codes = np.full(weights.shape, 0x55, np.uint8)
    shape = matrices, -(-rows // cell[0]), -(-cols // cell[1])
    scales = np.full(shape, 0x5D, np.uint8 if is_mx else weights.dtype)
    return kernel.quantize_fp8(weights, dtype, cell, codes, scales, is_mx, **more), codes, scales


def in_torch(*given: Any, **more: Any) -> tuple[int, Array, Array]:
    from schemegen.kernels import torch_fp8

    return quantized(torch_fp8, *given, **more)


def matrices(weight_bits: Weights, dtype: str) -> Array:
    return weight_bits(dtype, 3 * 40, 160, 32, 1).reshape(3, 40, 160)


@every_dtype
@every_cell
def test_bits_equal_the_fused_kernels(dtype: str, cell: tuple[int, int], is_mx: bool, weight_bits: Weights) -> None:
    weights = matrices(weight_bits, dtype)
    before = weights.copy()
    where, codes, scales = in_torch(weights, dtype, cell, is_mx)
    expected = quantized(cpu_fp8, weights, dtype, cell, is_mx)
    assert where == expected[0] == -1
    np.testing.assert_array_equal(scales, expected[2])
    np.testing.assert_array_equal(codes, expected[1])
    np.testing.assert_array_equal(weights, before)


@every_dtype
def test_codes_under_given_scales_equal_the_fused_kernels(dtype: str, weight_bits: Weights) -> None:
    from schemegen.kernels import torch_fp8

    weights = matrices(weight_bits, dtype)
    weights.flags.writeable = False
    halves = np.array([0x0123, 0x1234, 0x3C00], np.uint32).reshape(3, 1, 1)
    scales: Array = (halves << 16 if dtype == "F32" else halves).astype(weights.dtype)
    ours, theirs = np.empty(weights.shape, np.uint8), np.empty(weights.shape, np.uint8)
    assert torch_fp8.quantize_fp8_under(weights, dtype, ours, scales) == -1
    assert cpu_fp8.quantize_fp8_under(weights, dtype, theirs, scales) == -1
    np.testing.assert_array_equal(ours, theirs)


@every_dtype
@every_cell
def test_the_first_weight_that_is_not_finite_is_named(dtype: str, cell: tuple[int, int], is_mx: bool) -> None:
    from schemegen.kernels import torch_fp8

    one, infinity = {"BF16": (0x3F80, 0x7F80), "F16": (0x3C00, 0x7C00), "F32": (0x3F800000, 0x7F800000)}[dtype]
    weights = np.full((3, 40, 160), one, np.uint32 if dtype == "F32" else np.uint16)
    weights.flat[[6433, 6434, 19199]] = infinity, infinity + 1, infinity
    for searches in (False, True):
        assert in_torch(weights, dtype, cell, is_mx, searches=searches)[0] == 6433
    scales, codes = np.full((3, 1, 1), one, weights.dtype), np.empty(weights.shape, np.uint8)
    assert torch_fp8.quantize_fp8_under(weights, dtype, codes, scales) == 6433


@every_dtype
@every_cell
def test_tensors_of_the_device_are_what_divides(
    dtype: str, cell: tuple[int, int], is_mx: bool, weight_bits: Weights
) -> None:
    """By a number, or a tensor of the CPU, CUDA would multiply with the reciprocal."""
    from torch.utils._python_dispatch import TorchDispatchMode

    divisions = []

    class Watch(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if "div" in str(func) or "reciprocal" in str(func):
                divisions.append([isinstance(arg, torch.Tensor) and arg.dim() > 0 for arg in args])
            return func(*args, **kwargs or {})

    with Watch():
        in_torch(matrices(weight_bits, dtype), dtype, cell, is_mx)
    assert divisions == [[True, True]] * (1 if is_mx else 2)


@every_cell
def test_a_search_lessens_the_error_and_changes_matrices_alone(cell: tuple[int, int], is_mx: bool) -> None:
    values = np.random.default_rng(3).standard_normal((2, 40, 160)).astype(np.float32)
    weights = values.view(np.uint32)

    def error(codes: Array, scales: Array) -> float:
        restored = np.empty_like(weights)
        cpu_fp8.decode_fp8(codes, "F32", cell, scales, restored, is_mx)
        return float((np.abs(restored.view(np.float32) - values) ** 2.4).sum())

    _, codes, scales = in_torch(weights, "F32", cell, is_mx, searches=True)
    _, plain_codes, plain_scales = in_torch(weights, "F32", cell, is_mx)
    assert error(codes, scales) <= error(plain_codes, plain_scales)
    assert is_mx or (scales != plain_scales).any()
    assert cpu_fp8.recode_fp8(weights, "F32", cell, codes, scales, is_mx) == -1
    apart = [in_torch(weights[i : i + 1], "F32", cell, is_mx, searches=True) for i in range(2)]
    np.testing.assert_array_equal(scales, np.concatenate([made[2] for made in apart]))
    np.testing.assert_array_equal(codes, np.concatenate([made[1] for made in apart]))
