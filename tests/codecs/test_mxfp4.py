"""MXFP4: the bits of compressed-tensors' compressor, but where its own scale is infinite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemegen.codecs.mxfp4 import MxFp4
from schemegen.errors import UnsupportedError
from schemegen.formats import DTYPE_BITS
from schemegen.kernels.floats import FLOAT_BITS
from schemegen.scheme import Format

Array = npt.NDArray[Any]
Convert = Callable[[Array, str], Array]
Check = Callable[..., None]

FIELDS: dict[str, Any] = {"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32, "scale_dtype": "uint8"}
CODEC = MxFp4(Format.model_validate(FIELDS))
SEARCHING = MxFp4(Format.model_validate(FIELDS | {"observer": "mse"}))
UINTS: dict[str, Any] = {dtype: np.dtype(f"u{DTYPE_BITS[dtype] // 8}").type for dtype in FLOAT_BITS}
INFINITY = {dtype: bits.infinity for dtype, bits in FLOAT_BITS.items()}
# From here on a group's largest magnitude rounds up to a power of two that the dtype does not have.
HUGE = {"BF16": 0x7F60, "F16": 0x7B00, "F32": 0x7F600000}


def buffers(weights: Array) -> dict[str, Array]:
    matrices, rows, columns = weights.shape
    return {
        "weight_packed": np.full((matrices, rows, columns // 2), 0xAD, np.uint8),
        "weight_scale": np.full((matrices, rows, columns // 32), 0xAD, np.uint8),
    }


def encoded(weights: Array, dtype: str, device: str = "cpu") -> dict[str, Array]:
    out = buffers(weights)
    assert CODEC.encode(weights, dtype, out, None, device) == -1
    return out


def peer(raw: Array, dtype: str) -> tuple[dict[str, Array], Array]:
    """compressed-tensors' tensors of one matrix and the BF16 bits it restores."""
    import torch
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    from compressed_tensors.quantization.utils import calculate_qparams

    kept = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32}[dtype]
    args = QuantizationArgs(**FIELDS, zp_dtype="uint8")
    weight = torch.from_numpy(raw.view(f"i{raw.itemsize}")).view(kept)
    groups = weight.unflatten(-1, (-1, 32))
    scale, _ = calculate_qparams(groups.amin(-1), groups.amax(-1), args)
    scheme = QuantizationScheme(targets=["Linear"], weights=args)
    compressor = BaseCompressor.load_from_registry("mxfp4-pack-quantized")
    made = compressor.compress({"weight": weight, "weight_scale": scale.to(kept)}, scheme)
    found = {suffix: made[suffix].numpy().copy() for suffix in ("weight_packed", "weight_scale")}
    return found, compressor.decompress(made, scheme)["weight"].view(torch.int16).numpy().view(np.uint16)


@pytest.fixture(scope="session")
def check_against_peer(widened: Convert, narrowed: Convert) -> Check:
    """Fails unless the bits, and the weights they stand for, are compressed-tensors'."""

    def check(weights: Array, dtype: str) -> None:
        out = encoded(weights, dtype)
        restored = np.empty_like(weights)
        CODEC.decode(out, dtype, restored)
        assert CODEC.recode(weights, dtype, out) is None
        for matrix, raw in enumerate(weights):
            theirs, decoded = peer(raw, dtype)
            for suffix, items in theirs.items():
                np.testing.assert_array_equal(out[suffix][matrix], items, suffix)
            np.testing.assert_array_equal(restored[matrix], narrowed(widened(decoded, "BF16"), dtype))

    return check


@st.composite
def problems(draw: st.DrawFn, narrowed: Convert) -> tuple[Array, str]:
    """Finite weights of any bits or of any size, below what `HUGE` says."""
    dtype = draw(st.sampled_from(list(UINTS)))
    uint, sign = UINTS[dtype], 1 << np.dtype(UINTS[dtype]).itemsize * 8 - 1
    shape = draw(st.tuples(st.integers(1, 2), st.integers(1, 4), st.integers(1, 3).map(lambda groups: 32 * groups)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    if draw(st.booleans()):
        most = draw(st.integers(0, HUGE[dtype] - 1))
        bits = rng.integers(0, most, shape, uint, endpoint=True) | rng.choice(np.array([0, sign], uint), shape)
    else:
        powers = rng.integers(-40, 12, (*shape[:2], 1)) if draw(st.booleans()) else draw(st.integers(-40, 12))
        bits = narrowed(rng.standard_normal(shape) * np.ldexp(1.0, powers), dtype)
    blank = rng.random((*shape[:2], 1)) < draw(st.sampled_from([0, 0, 0.5, 1]))
    return np.ascontiguousarray(np.where(blank, bits & uint(sign), bits), uint), dtype


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_bits_equal_compressed_tensors(check_against_peer: Check, narrowed: Convert, data: st.DataObject) -> None:
    pytest.importorskip("compressed_tensors")
    check_against_peer(*data.draw(problems(narrowed)))


@settings(deadline=None, max_examples=50)
@given(st.data())
def test_torch_gives_the_same_bits(narrowed: Convert, data: st.DataObject) -> None:
    pytest.importorskip("torch")
    problem = data.draw(problems(narrowed))
    here, there = encoded(*problem), encoded(*problem, device="torch:cpu")
    for suffix, items in here.items():
        np.testing.assert_array_equal(there[suffix], items, suffix)


@pytest.mark.parametrize("dtype", list(UINTS))
def test_scales_equal_compressed_tensors_for_magnitudes_of_every_size(check_against_peer: Check, dtype: str) -> None:
    pytest.importorskip("compressed_tensors")
    step = 1 if dtype != "F32" else 1 << 16
    tops = np.arange(0, HUGE[dtype], step)
    tops = np.unique(np.concatenate([tops, tops[1:] - 1])).astype(UINTS[dtype])
    weights = np.zeros((1, tops.size, 32), UINTS[dtype])
    weights[0, :, 3] = tops
    # Half of the least that has a sign, and what is just above.
    weights[0, :, 4] = 1 | 1 << weights.itemsize * 8 - 1
    check_against_peer(weights, dtype)


@pytest.mark.parametrize("dtype", list(UINTS))
def test_the_largest_weights_keep_a_scale(dtype: str) -> None:
    """There compressed-tensors divides by infinity, and stores zeros and a scale of 1 they were not made with."""
    pytest.importorskip("compressed_tensors")
    weights = np.full((1, 1, 32), INFINITY[dtype] - 1, UINTS[dtype])
    theirs, _ = peer(weights[0], dtype)
    assert not theirs["weight_packed"].any()
    assert theirs["weight_scale"].tolist() == [[127]]
    out = encoded(weights, dtype)
    assert CODEC.recode(weights, dtype, out) is None
    assert set(out["weight_packed"].ravel().tolist()) == {0x66}
    assert out["weight_scale"].tolist() == [[[{"BF16": 253, "F16": 141, "F32": 253}[dtype]]]]


def test_the_first_weight_that_is_not_finite_is_told() -> None:
    weights = np.zeros((2, 3, 32), np.uint16)
    weights.flat[100:] = 0x7F80
    assert CODEC.encode(weights, "BF16", buffers(weights)) == 100


def test_what_is_wrong_is_named(narrowed: Convert) -> None:
    weights = narrowed(np.random.default_rng(2).standard_normal((3, 4, 64)), "BF16")
    out = encoded(weights, "BF16")
    for suffix, place, flipped, expected in (
        ("weight_packed", (2, 1, 7), 0x10, (2, 1, 15)),
        ("weight_packed", (2, 1, 7), 0x01, (2, 1, 14)),
        ("weight_scale", (1, 3, 1), int(out["weight_scale"][1, 3, 1]) ^ 0xFF, (1, 3, 1)),
    ):
        changed = {name: items.copy() for name, items in out.items()}
        changed[suffix][place] ^= np.uint8(flipped)
        wrong = CODEC.recode(weights, "BF16", changed)
        assert wrong is not None
        assert wrong[:2] == (suffix, expected)
    changed = {name: items.copy() for name, items in out.items()}
    changed["weight_scale"][1, 3, 1] ^= 1
    wrong = CODEC.recode(weights, "BF16", changed)
    assert wrong is not None
    assert (wrong.suffix, wrong.place[:2], wrong.place[2] // 32) == ("weight_packed", (1, 3), 1)


def test_torch_is_needed_for_the_search_only(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []
    monkeypatch.setattr("schemegen.kernels.native.address", lambda *name: asked.append(name))
    assert not CODEC.needs_torch("F16", 64)
    assert SEARCHING.needs_torch("F16", 64)
    SEARCHING.warm_up("F16", 64)
    assert asked == []
    CODEC.warm_up("F16", 64)
    assert asked == [("fp4", "quantize", "mxfp4", "F16")]


def test_a_search_gives_other_scales_and_codes_that_are_theirs(narrowed: Convert) -> None:
    pytest.importorskip("torch")
    weights = narrowed(np.random.default_rng(4).standard_normal((2, 16, 64)), "BF16")
    out = buffers(weights)
    assert SEARCHING.encode(weights, "BF16", out) == -1
    assert SEARCHING.recode(weights, "BF16", out) is None
    assert (out["weight_scale"] != encoded(weights, "BF16")["weight_scale"]).any()


def test_without_torch_a_search_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schemegen.kernels.torch_check.torch_fault", lambda: "is not installed: pip install torch")
    weights = np.zeros((1, 2, 32), np.uint16)
    told = "MXFP4 is computed with torch, which is not installed: pip install torch"
    with pytest.raises(UnsupportedError, match=told):
        SEARCHING.encode(weights, "BF16", buffers(weights))
    with pytest.raises(UnsupportedError, match=told):
        CODEC.encode(weights, "BF16", buffers(weights), device="torch:cpu")
