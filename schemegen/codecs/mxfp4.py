"""mxfp4-pack-quantized: FP4 E2M1 in groups of 32 with E8M0 scales."""

from __future__ import annotations

from schemegen.codecs.base import Codec


class MxFp4(Codec):
    """mxfp4-pack-quantized: FP4 E2M1 in groups of 32 with E8M0 scales."""
