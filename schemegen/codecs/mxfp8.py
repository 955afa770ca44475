"""mxfp8-quantized: FP8 E4M3 in groups of 32 with E8M0 scales."""

from __future__ import annotations

from typing import ClassVar

from schemegen.codecs.float8 import Float8


class MxFp8(Float8):
    """FP8 as float-quantized has it, with a power of two for every 32 weights of a row.

    llm-compressor's bits, but for groups that reach 1.75 times the dtype's largest power of two (57344 in F16): there
    it stores codes of 0 and a scale of 1, having divided by infinity; we store the power of two that fits.
    """

    is_mx: ClassVar[bool] = True
