"""A wrong code is told with the right one, whatever the storage."""

from __future__ import annotations

import re

import numpy as np
import pytest

from schemegen import Format
from schemegen.codecs import codec_of
from schemegen.formats import DTYPE_BITS, pieces
from schemegen.testing.probe_formats import probe_formats
from schemegen.testing.probe_weights import noise
from schemegen.testing.wrong_codes import told_of

SHAPE = (2, 16, 256)


@pytest.mark.parametrize("format", probe_formats(), ids=str)
def test_the_code_that_was_there_is_the_expected_one(format: Format) -> None:
    codec, weights = codec_of(format), noise("BF16", SHAPE, 1)
    stored = {
        piece.suffix: np.zeros((SHAPE[0], *piece.shape), f"u{DTYPE_BITS[piece.dtype] // 8}")
        for piece in pieces(format, "BF16", *SHAPE[1:])
        if piece.suffix != "weight_shape"
    }
    codec.encode(weights, "BF16", stored, np.full(2, 0.1, np.float32))
    codes = stored["weight" if "weight" in stored else "weight_packed"]
    assert codec.recode(weights, "BF16", stored) is None
    # The lowest bit of the first code of a row.
    codes[1, 3, 0] ^= 1
    wrong = codec.recode(weights, "BF16", stored)
    assert wrong is not None
    assert wrong.place == (1, 3, 0)
    told = told_of(format, "BF16", weights, stored, wrong)
    found = re.match(r"stored (\S+), expected (\S+) \(weight \S+, scale [^ ;)]+", told)
    assert found is not None, told
    left, right = (int(word, 0) for word in found.groups())
    assert abs(left - right) == 1
    assert ("quotient is rounded to BF16" in told) != ("scale 0x" in told)
