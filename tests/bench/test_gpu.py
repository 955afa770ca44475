"""The check of a device's bits finds none on torch's CPU, and finds a wrong one."""

from __future__ import annotations

import numpy as np
import pytest

from bench import gpu_bits
from schemegen.kernels.floats import FLOAT_BITS

pytest.importorskip("torch")
ROWS = 32


@pytest.mark.parametrize("dtype", gpu_bits.UINTS)
@pytest.mark.parametrize("group_size", gpu_bits.GROUPS)
def test_its_weights_are_finite_and_of_every_kind(dtype: str, group_size: int) -> None:
    bits = gpu_bits.weights_of(dtype, group_size, 2048, 1)
    magnitudes = bits & bits.dtype.type((1 << bits.itemsize * 8 - 1) - 1)
    infinity, smallest = FLOAT_BITS[dtype].infinity, 1 << gpu_bits.MANTISSA[dtype]
    assert magnitudes.max() < infinity
    assert (magnitudes == 0).any()
    assert ((magnitudes > 0) & (magnitudes < smallest)).any()
    assert (magnitudes > infinity - smallest).any()
    if group_size == 32 and dtype != "F32":
        tops = magnitudes.reshape(-1, group_size).max(1)
        assert np.unique(tops).size > 0.8 * infinity


def test_torchs_cpu_differs_nowhere() -> None:
    found = list(gpu_bits.differences("torch:cpu", ROWS))
    assert len(found) == 3 * 3 * 7
    assert {difference for _, _, difference in found} == {None}


def test_a_scale_by_the_reciprocal_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a division by a number would be on CUDA."""
    from schemegen.kernels import torch_codes, torch_int

    def by_reciprocal(bits: object, dtype: str, num_bits: int) -> object:
        scales, top = scales_of(bits, dtype, num_bits)
        values = torch_codes.values(top, dtype).mul(1 / ((2**num_bits - 1) / 2))
        other = values.to(torch_codes.DTYPES[dtype]).view(torch_codes.SIGNED[dtype])
        return scales.where(scales == FLOAT_BITS[dtype].epsilon, other), top

    scales_of = torch_int._scales
    monkeypatch.setattr(torch_int, "_scales", by_reciprocal)
    found = {name: difference for name, _, difference in gpu_bits.differences("torch:cpu", ROWS)}
    assert "weight_" in str(found["INT4 group 32, F32"])
