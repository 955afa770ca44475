"""FP4 in torch: the bits of the fused kernels, and with a search those of llm-compressor's observer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from schemegen.kernels import cpu_fp4
from schemegen.kernels.fp4_numbers import MXFP4, NVFP4, SIZES, global_scales

torch = pytest.importorskip("torch")

Array = npt.NDArray[Any]
Weights = Callable[[str, int, int, int, int], Array]

DTYPES = ("BF16", "F16", "F32")
every = pytest.mark.parametrize(("kind", "dtype"), [(kind, dtype) for kind in SIZES for dtype in DTYPES])
TORCH = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32}


def in_torch(kind: str, weights: Array, dtype: str, wholes: Array, **options: Any) -> tuple[int, Array, Array]:
    from schemegen.kernels.torch_fp4 import quantize_fp4

    return quantized(quantize_fp4, kind, weights, dtype, wholes, **options)


def quantized(
    kernel: Any, kind: str, weights: Array, dtype: str, wholes: Array, **options: Any
) -> tuple[int, Array, Array]:
    matrices, rows, cols = weights.shape
    packed = np.full((matrices, rows, cols // 2), 0xAD, np.uint8)
    scales = np.full((matrices, rows, cols // SIZES[kind]), 0xAD, np.uint8)
    return kernel(kind, weights, dtype, packed, scales, wholes, **options), packed, scales


@every
def test_bits_equal_the_fused_kernels(kind: str, dtype: str, weight_bits: Weights, plain_int: Any) -> None:
    weights = np.stack([weight_bits(dtype, 65, 416, SIZES[kind], seed) for seed in (1, 2, 3)])
    largest = np.abs(plain_int(dtype, 4).widen(weights)).reshape(3, -1).max(-1)
    for wholes in (global_scales(largest, dtype), np.array([1, 300, 2e-5], np.float32)):
        where, packed, scales = in_torch(kind, weights, dtype, wholes)
        expected = quantized(cpu_fp4.quantize_fp4, kind, weights, dtype, wholes)
        assert where == expected[0] == -1
        np.testing.assert_array_equal(scales, expected[2])
        np.testing.assert_array_equal(packed, expected[1])


@every
def test_quotients_between_two_codes_are_the_fused_kernels(kind: str, dtype: str, plain_int: Any) -> None:
    rows = np.resize(np.arange(-24, 25, dtype=np.float32) / 4, (49, SIZES[kind]))
    rows[:, 0] = 6
    weights = plain_int(dtype, 4).narrow(rows)[None]
    wholes = np.full(1, 448, np.float32)
    np.testing.assert_array_equal(
        in_torch(kind, weights, dtype, wholes)[1],
        quantized(cpu_fp4.quantize_fp4, kind, weights, dtype, wholes)[1],
    )


@every
def test_the_first_weight_that_is_not_finite_is_named(kind: str, dtype: str, plain_int: Any) -> None:
    plain = plain_int(dtype, 4)
    good = np.full((2, 2, 96), plain.infinity - 1, plain.uint)
    for bad in (plain.infinity, plain.infinity + 1):
        for position in (0, 95, 192, 383):
            weights = good.copy()
            weights.flat[position:] = bad
            assert in_torch(kind, weights, dtype, np.ones(2, np.float32))[0] == position


def test_a_weight_that_is_not_finite_is_named_before_any_search() -> None:
    weights = np.zeros((1, 1, 32), np.uint16)
    weights[0, 0, 7] = 0x7FC0
    assert in_torch(MXFP4, weights, "BF16", np.ones(1, np.float32), searches=True)[0] == 7


def test_what_is_only_read_may_be_read_only_and_stays_as_it_is(weight_bits: Weights) -> None:
    for kind in SIZES:
        weights = weight_bits("F32", 8, 64, 32, 1)[None]
        before = weights.copy()
        weights.flags.writeable = False
        in_torch(kind, weights, "F32", np.ones(1, np.float32))
        np.testing.assert_array_equal(weights, before)


def test_tensors_of_the_device_are_what_divides(weight_bits: Weights) -> None:
    """By a number, or a tensor of the CPU, CUDA would multiply with the reciprocal."""
    from torch.utils._python_dispatch import TorchDispatchMode

    divisions = []

    class Watch(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if "div" in str(func) or "reciprocal" in str(func):
                divisions.append([isinstance(arg, torch.Tensor) and arg.dim() > 0 for arg in args])
            return func(*args, **kwargs or {})

    with Watch():
        in_torch(NVFP4, weight_bits("BF16", 8, 64, 16, 1)[None], "BF16", np.ones(1, np.float32))
    assert divisions == [[True, True]] * 3


@pytest.mark.parametrize("dtype", DTYPES)
def test_searched_scales_and_codes_are_llm_compressors(dtype: str, plain_int: Any) -> None:
    pytest.importorskip("llmcompressor")
    rng = np.random.default_rng(3)
    values = rng.standard_normal((2, 24, 96)) * np.ldexp(1.0, rng.integers(-9, 3, (2, 24, 1)))
    values[0, :2] = 0
    values[0, 2:4] = np.abs(values[0, 2:4])
    weights = np.ascontiguousarray(plain_int(dtype, 4).narrow(values.astype(np.float32))).reshape(2, 24, 96)
    where, packed, scales = in_torch(MXFP4, weights, dtype, np.ones(2, np.float32), searches=True)
    assert where == -1
    plainly = in_torch(MXFP4, weights, dtype, np.ones(2, np.float32))
    assert (scales != plainly[2]).any()
    for matrix in range(2):
        theirs = peer_searched(weights[matrix], dtype)
        np.testing.assert_array_equal(scales[matrix], theirs["weight_scale"])
        np.testing.assert_array_equal(packed[matrix], theirs["weight_packed"])


def peer_searched(raw: Array, dtype: str) -> dict[str, Array]:
    """What llm-compressor's observer and compressed-tensors' compressor make of a matrix."""
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    from llmcompressor.observers import Observer

    args = QuantizationArgs(
        num_bits=4,
        type="float",
        strategy="group",
        group_size=32,
        scale_dtype="uint8",
        zp_dtype="uint8",
        observer="memoryless_mse",
    )
    weight = torch.from_numpy(raw.view(f"i{raw.itemsize}")).view(TORCH[dtype])
    observer = Observer.load_from_registry("memoryless_mse", base_name="weight", args=args)
    found = observer(weight).get_qparams()
    state = {"weight": weight, "weight_scale": found["scale"].to(TORCH[dtype])}
    compressor = BaseCompressor.load_from_registry("mxfp4-pack-quantized")
    made = compressor.compress(state, QuantizationScheme(targets=["Linear"], weights=args))
    return {name: made[name].numpy() for name in ("weight_packed", "weight_scale")}
