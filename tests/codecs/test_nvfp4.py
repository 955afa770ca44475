"""NVFP4: the bits of compressed-tensors' compressor under the global scale of the fused layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemegen.codecs.nvfp4 import NvFp4
from schemegen.formats import DTYPE_BITS
from schemegen.kernels.floats import FLOAT_BITS
from schemegen.scheme import Format

Array = npt.NDArray[Any]
Convert = Callable[[Array, str], Array]
Check = Callable[..., None]

FORMAT = Format.model_validate({"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16})
CODEC = NvFp4(FORMAT)
UINTS: dict[str, Any] = {dtype: np.dtype(f"u{DTYPE_BITS[dtype] // 8}").type for dtype in FLOAT_BITS}
INFINITY = {dtype: bits.infinity for dtype, bits in FLOAT_BITS.items()}
dtypes = st.sampled_from(list(UINTS))


def buffers(weights: Array) -> dict[str, Array]:
    matrices, rows, columns = weights.shape
    return {
        "weight_packed": np.full((matrices, rows, columns // 2), 0xAD, np.uint8),
        "weight_scale": np.full((matrices, rows, columns // 16), 0xAD, np.uint8),
        "weight_global_scale": np.full((matrices, 1), 0xAD, np.uint32),
    }


def encoded(weights: Array, dtype: str, shared: Array, device: str = "cpu") -> dict[str, Array]:
    out = buffers(weights)
    assert CODEC.encode(weights, dtype, out, shared, device) == -1
    return out


def peer(raw: Array, dtype: str, largest: np.float32) -> tuple[dict[str, Array], Array]:
    """compressed-tensors' tensors of one matrix and the BF16 bits it restores, given the layer's largest magnitude."""
    import torch
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam

    kept = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32}[dtype]
    args = QuantizationArgs(
        num_bits=4,
        type="float",
        strategy="tensor_group",
        group_size=16,
        scale_dtype="float8_e4m3fn",
        zp_dtype="float8_e4m3fn",
    )
    weight = torch.from_numpy(raw.view(f"i{raw.itemsize}")).view(kept)
    top = torch.tensor([float(largest)], dtype=kept)
    whole = generate_gparam(-top, top)
    groups = weight.unflatten(-1, (-1, 16))
    scale, _ = calculate_qparams(groups.amin(-1), groups.amax(-1), args, global_scale=whole)
    scheme = QuantizationScheme(targets=["Linear"], weights=args)
    compressor = BaseCompressor.load_from_registry("nvfp4-pack-quantized")
    # A module's scale has the weights' dtype.
    state = {"weight": weight, "weight_scale": scale.to(kept), "weight_global_scale": whole}
    made = compressor.compress(state, scheme)
    found = {
        "weight_packed": made["weight_packed"].numpy().copy(),
        "weight_scale": made["weight_scale"].view(torch.uint8).numpy().copy(),
        "weight_global_scale": made["weight_global_scale"].numpy().view(np.uint32).copy(),
    }
    return found, compressor.decompress(made, scheme)["weight"].view(torch.int16).numpy().view(np.uint16)


@pytest.fixture(scope="session")
def check_against_peer(widened: Convert, narrowed: Convert) -> Check:
    """Fails unless the bits, and the weights they stand for, are compressed-tensors'."""

    def check(weights: Array, dtype: str, shared: Array) -> None:
        out = encoded(weights, dtype, shared)
        restored = np.empty_like(weights)
        CODEC.decode(out, dtype, restored)
        assert CODEC.recode(weights, dtype, out) is None
        for matrix, largest in enumerate(shared):
            theirs, decoded = peer(weights[matrix], dtype, largest)
            for suffix, items in theirs.items():
                np.testing.assert_array_equal(out[suffix][matrix], items, suffix)
            np.testing.assert_array_equal(restored[matrix], narrowed(widened(decoded, "BF16"), dtype))

    return check


@st.composite
def problems(draw: st.DrawFn, widened: Convert, narrowed: Convert) -> tuple[Array, str, Array]:
    """Weights of any bits or of any size, finite, and a largest magnitude that may be another matrix's."""
    dtype = draw(dtypes)
    shape = draw(st.tuples(st.integers(1, 2), st.integers(1, 4), st.integers(1, 4).map(lambda groups: 16 * groups)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    if draw(st.booleans()):
        bits = rng.integers(0, np.iinfo(UINTS[dtype]).max, shape, UINTS[dtype], endpoint=True)
    else:
        powers = rng.integers(-40, 20, (*shape[:2], 1)) if draw(st.booleans()) else draw(st.integers(-40, 15))
        bits = narrowed(rng.standard_normal(shape) * np.ldexp(1.0, powers), dtype)
    bits = np.where(bits & INFINITY[dtype] == INFINITY[dtype], bits & ~UINTS[dtype](INFINITY[dtype]), bits)
    blank = rng.random((*shape[:2], 1)) < draw(st.sampled_from([0, 0, 0.5, 1]))
    bits = np.ascontiguousarray(np.where(blank, bits & ~UINTS[dtype](INFINITY[dtype] * 2 - 1), bits), UINTS[dtype])
    own = np.abs(widened(bits, dtype)).reshape(shape[0], -1).max(-1)
    with np.errstate(over="ignore"):
        wider = widened(narrowed(own * np.float32(draw(st.sampled_from([1, 1, 3, 300]))), dtype), dtype)
    return bits, dtype, np.where(np.isfinite(wider) & (wider >= own), wider, own)


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_bits_equal_compressed_tensors(
    check_against_peer: Check, widened: Convert, narrowed: Convert, data: st.DataObject
) -> None:
    pytest.importorskip("compressed_tensors")
    check_against_peer(*data.draw(problems(widened, narrowed)))


@settings(deadline=None, max_examples=50)
@given(st.data())
def test_torch_gives_the_same_bits(widened: Convert, narrowed: Convert, data: st.DataObject) -> None:
    pytest.importorskip("torch")
    problem = data.draw(problems(widened, narrowed))
    here, there = encoded(*problem), encoded(*problem, device="torch:cpu")
    for suffix, items in here.items():
        np.testing.assert_array_equal(there[suffix], items, suffix)


def test_ties_and_negative_zero_equal_compressed_tensors(
    check_against_peer: Check, widened: Convert, narrowed: Convert
) -> None:
    pytest.importorskip("compressed_tensors")
    rows = np.resize(np.arange(-24, 25, dtype=np.float32) / 4, (1, 49, 16))
    rows[..., 0], rows[0, ::3, 5] = 6, -0.0
    for dtype in UINTS:
        for power in (-9, 0, 8):
            bits = narrowed(np.ldexp(rows, power), dtype)
            check_against_peer(bits, dtype, np.abs(widened(bits, dtype)).reshape(1, -1).max(-1))


@pytest.mark.parametrize("absent", [True, False])
def test_the_global_scale_comes_with_the_first_block_of_rows_only(narrowed: Convert, absent: bool) -> None:
    weights = narrowed(np.random.default_rng(1).standard_normal((1, 8, 32)), "BF16")
    shared = np.array([5.0], np.float32)
    whole = encoded(weights, "BF16", shared)
    later = buffers(weights[:, 5:])
    later["weight_global_scale"] = later["weight_global_scale"][:, :0].reshape(-1)
    if absent:
        del later["weight_global_scale"]
    assert CODEC.encode(np.ascontiguousarray(weights[:, 5:]), "BF16", later, shared) == -1
    for suffix in ("weight_packed", "weight_scale"):
        np.testing.assert_array_equal(later[suffix], whole[suffix][:, 5:])


def test_the_first_weight_that_is_not_finite_is_told() -> None:
    weights = np.zeros((2, 3, 32), np.uint16)
    weights.flat[100:] = 0x7F80
    assert CODEC.encode(weights, "BF16", buffers(weights), np.ones(2, np.float32)) == 100


def test_what_is_wrong_is_named(narrowed: Convert) -> None:
    weights = narrowed(np.random.default_rng(2).standard_normal((3, 4, 64)), "BF16")
    out = encoded(weights, "BF16", np.full(3, 6, np.float32))
    changed = {suffix: items.copy() for suffix, items in out.items()}
    changed["weight_packed"][2, 1, 7] ^= 0x10
    wrong = CODEC.recode(weights, "BF16", changed)
    assert wrong is not None
    assert wrong[:2] == ("weight_packed", (2, 1, 15))
    for suffix, place, bits in (
        ("weight_scale", (1, 3, 2), 0x7F),
        ("weight_scale", (1, 3, 2), 0x80),
        ("weight_global_scale", (2, 0), 0x7F800000),
        ("weight_global_scale", (1, 0), 0),
    ):
        changed = {name: items.copy() for name, items in out.items()}
        changed[suffix][place] = bits
        wrong = CODEC.recode(weights, "BF16", changed)
        assert wrong is not None
        assert wrong[:2] == (suffix, place)
    for suffix, place, bits in (("weight_scale", (1, 3, 2), 8), ("weight_global_scale", (1, 0), 1 << 23)):
        changed = {name: items.copy() for name, items in out.items()}
        changed[suffix][place] ^= np.asarray(bits, changed[suffix].dtype)
        wrong = CODEC.recode(weights, "BF16", changed)
        assert wrong is not None
        assert wrong.suffix == "weight_packed"
        assert wrong.place[: len(place)][0] == 1


def test_no_torch_is_needed() -> None:
    assert not CODEC.needs_torch()
    assert not CODEC.needs_torch("F32", 4096)


def test_warm_up_makes_the_kernel_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []
    monkeypatch.setattr("schemegen.kernels.native.address", lambda *name: asked.append(name))
    CODEC.warm_up("F16", 4096)
    assert asked == [("fp4", "quantize", "nvfp4", "F16")]
