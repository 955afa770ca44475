"""Codes of 1 to 8 bits to 32-bit words and back, densely: code i of a row stands at bit i * num_bits of its words.

That is compressed-tensors' `pack_to_int32`. Containers of 8 bits are folded pairwise into one of twice the size until
their fields fill whole bytes; every step goes over contiguous memory once. Importing this module imports torch.
"""

from __future__ import annotations

from typing import Any, Final

import torch

_CONTAINERS: Final = {8: torch.uint8, 16: torch.int16, 32: torch.int32, 64: torch.int64}


def packed_words(codes: Any, num_bits: int) -> Any:
    """int32 words, flat, of uint8 codes, flat, which fill whole words; what `codes` held is lost."""
    size, width, values = 8, num_bits, codes
    while width % 8:
        values, low = values.view(_CONTAINERS[2 * size]), (1 << width) - 1
        high = (values >> (size - width)).bitwise_and_(low << width)
        values.bitwise_and_(low).bitwise_or_(high)
        size, width = 2 * size, 2 * width
    fields = values.view(torch.uint8).view(-1, size // 8)[:, : width // 8]
    return fields.contiguous().view(-1).view(torch.int32)


def unpacked_codes(words: Any, num_bits: int) -> Any:
    """uint8 codes, flat, of int32 words."""
    size, width = 8, num_bits
    while width % 8:
        size, width = 2 * size, 2 * width
    fields = words.reshape(-1).view(torch.uint8).view(-1, width // 8)
    values = torch.zeros((fields.shape[0], size // 8), dtype=torch.uint8, device=words.device)
    values[:, : width // 8] = fields
    while size > 8:
        values = values.view(-1).view(_CONTAINERS[size])
        size, width = size // 2, width // 2
        low = (1 << width) - 1
        values = (values & low).bitwise_or_((values & (low << width)) << (size - width))
    return values.view(-1).view(torch.uint8)
