"""mxfp8-quantized: FP8 E4M3 in groups of 32 with E8M0 scales."""

from __future__ import annotations

from schemegen.codecs.base import Codec


class MxFp8(Codec):
    """mxfp8-quantized: FP8 E4M3 in groups of 32 with E8M0 scales."""
