"""int-quantized: a code a byte, a scale a row, a group or the whole matrix."""

from __future__ import annotations

from schemegen.codecs.base import Codec


class PlainInt(Codec):
    """int-quantized: a code a byte, a scale a row, a group or the whole matrix."""
