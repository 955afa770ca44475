"""nvfp4-pack-quantized: FP4 E2M1 in groups of 16, FP8 scales, a global scale a fused layer."""

from __future__ import annotations

from schemegen.codecs.base import Codec


class NvFp4(Codec):
    """nvfp4-pack-quantized: FP4 E2M1 in groups of 16, FP8 scales, a global scale a fused layer."""
