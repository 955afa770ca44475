"""float-quantized: FP8 E4M3, a scale a row, a block or the whole matrix."""

from __future__ import annotations

from schemegen.codecs.base import Codec


class Float8(Codec):
    """float-quantized: FP8 E4M3, a scale a row, a block or the whole matrix."""
