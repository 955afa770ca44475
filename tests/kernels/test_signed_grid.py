from __future__ import annotations

import numpy as np
import pytest

from schemegen.kernels.signed_grid import OTHERS, PLACES, least_top, places_of


@pytest.mark.parametrize("num_bits", range(2, 9))
def test_places_begin_with_that_of_minmax_and_ascend_after_it(num_bits: int) -> None:
    places = places_of(num_bits)
    assert len(places) == PLACES
    assert places[0] == (2**num_bits - 1) / 2
    assert list(places[1:]) == sorted(set(places[1:]))
    assert min(places) < 2 ** (num_bits - 1) < max(places)


@pytest.mark.parametrize("num_bits", range(2, 9))
def test_constants_are_exact_in_f32(num_bits: int) -> None:
    assert all(float(np.float32(place)) == place for place in places_of(num_bits))
    for dtype in ("BF16", "F16", "F32"):
        least = least_top(dtype, num_bits)
        assert float(np.float32(least)) == least > 0


def test_minmaxs_place_is_tried_with_both_signs() -> None:
    assert OTHERS[0] == 0
    assert sorted(set(OTHERS)) == list(OTHERS)
    assert OTHERS[-1] < PLACES
