"""Dense words: codes at their bits, as compressed-tensors has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

every_width = pytest.mark.parametrize("num_bits", range(1, 9))


def some_codes(num_bits: int, rows: int = 7) -> Any:
    codes = np.random.default_rng(num_bits).integers(0, 2**num_bits, (rows, 96)).astype(np.uint8)
    codes[0], codes[1] = 0, 2**num_bits - 1
    return torch.from_numpy(codes)


@every_width
def test_a_code_stands_at_its_bit_of_the_row(num_bits: int) -> None:
    from schemegen.kernels.torch_words import packed_words

    codes = some_codes(num_bits)
    words = packed_words(codes.clone().view(-1), num_bits).view(7, -1)
    assert words.shape == (7, 96 * num_bits // 32)
    for row, stored in zip(codes.tolist(), words.numpy(), strict=True):
        expected = sum(code << num_bits * position for position, code in enumerate(row))
        assert int.from_bytes(stored.astype("<i4").tobytes(), "little") == expected


@every_width
def test_unpacking_takes_packing_back(num_bits: int) -> None:
    from schemegen.kernels.torch_words import packed_words, unpacked_codes

    codes = some_codes(num_bits)
    words = packed_words(codes.clone().view(-1), num_bits)
    before = words.clone()
    assert torch.equal(unpacked_codes(words, num_bits).view(7, -1), codes)
    assert torch.equal(words, before)


@every_width
def test_words_equal_compressed_tensors(num_bits: int) -> None:
    from schemegen.kernels.torch_words import packed_words

    helpers = pytest.importorskip("compressed_tensors.compressors.pack_quantized.helpers")
    codes = some_codes(num_bits)
    theirs = helpers.pack_to_int32((codes.to(torch.int32) - 2 ** (num_bits - 1)).to(torch.int8), num_bits)
    assert torch.equal(packed_words(codes.clone().view(-1), num_bits).view(theirs.shape), theirs)
