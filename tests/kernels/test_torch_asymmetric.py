"""Asymmetric integers in torch: the bits of the fused kernels and of compressed-tensors, on torch's CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from schemegen.kernels import cpu_asymmetric

torch = pytest.importorskip("torch")

Array = npt.NDArray[Any]
Weights = Callable[[str, int, int, int, int], Array]

every_dtype = pytest.mark.parametrize("dtype", ["BF16", "F16", "F32"])
every_width = pytest.mark.parametrize("num_bits", range(2, 9))


def quantized(
    kernels: Any, weights: Array, dtype: str, num_bits: int, group_size: int, **options: bool
) -> tuple[int, list[Array]]:
    matrices, rows, cols = weights.shape
    packed = np.full((matrices, rows, cols * num_bits // 32), 0xDEADBEEF, np.uint32)
    scales = np.full((matrices, rows, cols // group_size), 0xDEAD, weights.dtype)
    zeros = np.full((matrices, -(-rows * num_bits // 32), cols // group_size), 0xDEADBEEF, np.uint32)
    where = kernels.quantize_asymmetric(weights, dtype, num_bits, group_size, packed, scales, zeros, **options)
    return where, [packed, scales, zeros]


def in_torch() -> Any:
    from schemegen.kernels import torch_asymmetric

    return torch_asymmetric


def peer(raw: Array, dtype: str, num_bits: int, group_size: int) -> tuple[list[Array], Array]:
    """Words, scales and words of zero points of a matrix by compressed-tensors, and the weights it restores."""
    quantization = pytest.importorskip("compressed_tensors.quantization")
    compressors = pytest.importorskip("compressed_tensors.compressors")
    packer = compressors.BaseCompressor.load_from_registry("pack-quantized")
    size = None if group_size == raw.shape[1] else group_size
    args = quantization.QuantizationArgs(
        num_bits=num_bits, strategy="group" if size else "channel", group_size=size, symmetric=False
    )
    scheme = quantization.QuantizationScheme(targets=["Linear"], weights=args)
    signed = {2: torch.int16, 4: torch.int32}[raw.itemsize]
    torch_dtype = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32}[dtype]
    weight = torch.from_numpy(raw.view(f"i{raw.itemsize}")).view(torch_dtype)
    groups = weight.unflatten(-1, (-1, group_size))
    scale, zero = quantization.utils.calculate_qparams(groups.amin(-1), groups.amax(-1), args)
    made = packer.compress({"weight": weight, "weight_scale": scale, "weight_zero_point": zero}, scheme)
    words, zeros = (made[name].numpy().view(np.uint32).copy() for name in ("weight_packed", "weight_zero_point"))
    restored = packer.decompress(made, scheme)["weight"].view(signed).numpy().view(raw.dtype)
    return [words, scale.view(signed).numpy().view(raw.dtype), zeros], restored


@every_dtype
@every_width
@pytest.mark.parametrize(("group_size", "rows"), [(32, 61), (96, 8), (672, 13)])
def test_bits_equal_compressed_tensors(
    dtype: str, num_bits: int, group_size: int, rows: int, weight_bits: Weights, plain_int: Any
) -> None:
    raw = weight_bits(dtype, rows, 672, group_size, num_bits)
    expected, restored = peer(raw, dtype, num_bits, group_size)
    where, found = quantized(in_torch(), raw[None], dtype, num_bits, group_size)
    assert where == -1
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours[0], theirs)
    weights = np.empty_like(raw)[None]
    in_torch().decode_asymmetric(found[0], dtype, num_bits, group_size, *found[1:], weights)
    # A range beyond what the dtype holds has an infinite scale, and no weight comes back.
    usable = (found[1][0] < plain_int(dtype, num_bits).infinity).repeat(group_size, axis=1)
    assert usable.any()
    np.testing.assert_array_equal(weights[0][usable], restored[usable])


@every_dtype
@pytest.mark.parametrize("num_bits", [4, 8])
@pytest.mark.parametrize(("group_size", "cols"), [(32, 416), (352, 352)])
def test_bits_equal_the_fused_kernels(
    dtype: str, num_bits: int, group_size: int, cols: int, weight_bits: Weights
) -> None:
    weights = weight_bits(dtype, 3 * 13, cols, group_size, num_bits).reshape(3, 13, cols)
    ours, theirs = (
        quantized(kernels, weights, dtype, num_bits, group_size) for kernels in (in_torch(), cpu_asymmetric)
    )
    assert ours[0] == theirs[0] == -1
    for one, other in zip(ours[1], theirs[1], strict=True):
        np.testing.assert_array_equal(one, other)


@every_dtype
@pytest.mark.parametrize("num_bits", [3, 4, 5])
def test_recode_finds_every_changed_code(dtype: str, num_bits: int, plain_int: Any) -> None:
    weights = plain_int(dtype, num_bits).narrow(np.random.default_rng(3).standard_normal((2, 3, 32)))
    _, (packed, scales, zeros) = quantized(in_torch(), weights, dtype, num_bits, 32)
    assert in_torch().recode_asymmetric(weights, dtype, num_bits, 32, packed, scales, zeros) == -1
    for bit in range(packed.size * 32):
        changed = packed.copy()
        changed.flat[bit // 32] ^= np.uint32(1 << bit % 32)
        where = in_torch().recode_asymmetric(weights, dtype, num_bits, 32, changed, scales, zeros)
        assert where == bit // num_bits


@every_dtype
def test_recode_finds_every_changed_zero_point(dtype: str, plain_int: Any) -> None:
    """INT3, whose zero points lie across words."""
    weights = plain_int(dtype, 3).narrow(np.random.default_rng(4).standard_normal((1, 33, 32)))
    _, (packed, scales, zeros) = quantized(in_torch(), weights, dtype, 3, 32)
    for bit in range(33 * 3):
        changed = zeros.copy()
        changed.flat[bit // 32] ^= np.uint32(1 << bit % 32)
        where = in_torch().recode_asymmetric(weights, dtype, 3, 32, packed, scales, changed)
        assert where // 32 == bit // 3


@every_dtype
def test_recode_answers_as_the_fused_kernels_do(dtype: str, plain_int: Any) -> None:
    plain = plain_int(dtype, 4)
    weights = plain.narrow(np.random.default_rng(5).standard_normal((1, 40, 96)))
    _, (packed, scales, zeros) = quantized(in_torch(), weights, dtype, 4, 32)
    answers = set()
    for group in range(120):
        for bad in (0, plain.infinity, 1, plain.infinity - 1):
            changed = scales.copy()
            changed.flat[group] = bad
            given = (weights, dtype, 4, 32, packed, changed, zeros)
            answers.add(cpu_asymmetric.recode_asymmetric(*given))
            assert in_torch().recode_asymmetric(*given) == cpu_asymmetric.recode_asymmetric(*given)
    assert len(answers) > 100


@every_dtype
@pytest.mark.parametrize("searched", [False, True])
def test_the_first_weight_that_is_not_finite_is_named(dtype: str, searched: bool, plain_int: Any) -> None:
    plain = plain_int(dtype, 3)
    good = np.full((1, 4, 96), plain.infinity - 1, plain.uint)
    _, (packed, scales, zeros) = quantized(in_torch(), good, dtype, 3, 96)
    for position in (0, 95, 96, 383):
        weights = good.copy()
        weights.flat[position:] = plain.infinity
        assert quantized(in_torch(), weights, dtype, 3, 96, searched=searched)[0] == position
        assert in_torch().recode_asymmetric(weights, dtype, 3, 96, packed, scales, zeros) == position


@every_dtype
def test_tensors_of_the_device_are_what_divides(dtype: str, plain_int: Any) -> None:
    """By a number, or a tensor of the CPU, CUDA would multiply with the reciprocal."""
    from torch.utils._python_dispatch import TorchDispatchMode

    divisions = []

    class Watch(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if "div" in str(func) or "reciprocal" in str(func):
                divisions.append([isinstance(arg, torch.Tensor) and arg.dim() > 0 for arg in args])
            return func(*args, **kwargs or {})

    weights = plain_int(dtype, 4).narrow(np.random.default_rng(6).standard_normal((1, 8, 64)))
    with Watch():
        quantized(in_torch(), weights, dtype, 4, 32)
    assert divisions == [[True, True]] * 3
