"""NVFP4's global scales against compressed-tensors' own, for every BF16 and F16 and for F32 of every size."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from schemegen.kernels.fp4_numbers import global_scales

Array = npt.NDArray[Any]


def magnitudes(dtype: str, plain_int: Any) -> Array:
    """Every finite magnitude of BF16 or F16, and F32 of every exponent."""
    plain = plain_int(dtype, 4)
    if dtype != "F32":
        return np.asarray(plain.widen(np.arange(plain.infinity, dtype=np.uint16)))
    rng = np.random.default_rng(1)
    bits = (np.arange(255, dtype=np.uint32) << 23)[:, None] + rng.integers(0, 1 << 23, (255, 40), np.uint32)
    edges = np.array([0, 1, 0x7FFFFF, 0x800000, 0x7F7FFFFF], np.uint32)
    return np.concatenate([bits.ravel(), edges]).view(np.float32)


@pytest.mark.parametrize("dtype", ["BF16", "F16", "F32"])
def test_global_scales_equal_compressed_tensors(dtype: str, plain_int: Any) -> None:
    torch = pytest.importorskip("torch")
    generate = pytest.importorskip("compressed_tensors.quantization.utils").generate_gparam
    largest = magnitudes(dtype, plain_int)
    kept = torch.from_numpy(largest).to({"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32}[dtype])
    # One a call as there, of a sample where they are many.
    chosen = np.unique(np.linspace(0, largest.size - 1, 3000).astype(int))
    theirs = np.concatenate([generate(-kept[i : i + 1], kept[i : i + 1]).numpy() for i in chosen])
    np.testing.assert_array_equal(global_scales(largest[chosen], dtype), theirs)


@pytest.mark.parametrize(
    ("dtype", "largest", "expected"),
    [
        ("F32", 2.0, 1344.0),
        # 1 / 3 has no exact value: what it is rounded to counts.
        # In one step it would be 536.
        ("BF16", 5.0, 540.0),
        ("F16", 9.0, 298.5),
        ("BF16", 0.0, 1.0),
        ("F16", 0.04, 1.0),
        ("F32", 1e-36, 1.0),
        ("F32", 2.0**127, 2688 * 2.0**-127),
    ],
)
def test_global_scales_are_rounded_twice_and_never_infinite(dtype: str, largest: float, expected: float) -> None:
    given = np.array([largest], np.float16 if dtype == "F16" else np.float32).astype(np.float32)
    assert global_scales(given, dtype).tolist() == [expected]
