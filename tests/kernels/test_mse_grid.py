from __future__ import annotations

import numpy as np
import pytest

from schemegen.kernels.mse_grid import PATIENCE, RATIOS, STEPS, bf16_powers, steps_taken


def test_ratios_shrink_by_hundredths() -> None:
    assert RATIOS[:3] == (1.0, 0.99, 0.98)
    assert len(RATIOS) == STEPS


@pytest.mark.parametrize(
    ("improved", "steps", "taken"),
    [
        (0b1, STEPS, 1 + PATIENCE),
        (0b1, 5, None),
        (0b111, 8, 8),
        (0b111, 7, None),
        (0b100001, STEPS, 11),
        (0b1000001, STEPS, 6),
        ((1 << STEPS) - 1, STEPS, STEPS),
        (0b1111 | 1 << 8 | 1 << 13 | 1 << 18, STEPS, STEPS),
        (0, STEPS, PATIENCE),
    ],
)
def test_a_search_ends_after_five_steps_without_gain(improved: int, steps: int, taken: int | None) -> None:
    assert steps_taken(improved, steps) == taken


def test_powers_are_those_of_torch_for_every_bf16() -> None:
    torch = pytest.importorskip("torch")
    values = torch.arange(0x7F81, dtype=torch.int16).view(torch.bfloat16)
    np.testing.assert_array_equal(bf16_powers()[:0x7F81], values.pow(2.4).float().numpy())
    # What torch computes one by one, without vectors.
    some = [values[place : place + 1].clone().pow(2.4).item() for place in range(0, 0x7F81, 61)]
    np.testing.assert_array_equal(bf16_powers()[:0x7F81:61], np.array(some, np.float32))


def test_no_power_is_near_the_middle_of_two_bf16() -> None:
    """Else a pow that is right but for its last places would make another table."""
    values = (np.arange(0x7F80, dtype=np.uint32) << 16).view(np.float32).astype(np.float64)
    with np.errstate(over="ignore", under="ignore"):
        powers = (values**2.40625).astype(np.float32).view(np.uint32).astype(np.int64)
    past = powers & 0xFFFF
    is_plain = (powers >= 0x00800000) & (powers < 0x7F800000)
    assert np.abs(past[is_plain] - 0x8000).min() > 4
