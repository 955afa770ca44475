"""Which codec a format has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from schemegen.codecs.base import Codec
from schemegen.codecs.float8 import Float8
from schemegen.codecs.mxfp4 import MxFp4
from schemegen.codecs.mxfp8 import MxFp8
from schemegen.codecs.nvfp4 import NvFp4
from schemegen.codecs.packed_int import PackedInt
from schemegen.codecs.plain_int import PlainInt
from schemegen.errors import UnsupportedError
from schemegen.formats import storage_fault, storage_of
from schemegen.scheme import Format

_CODECS: Final[Mapping[str, type[Codec]]] = {
    "pack-quantized": PackedInt,
    "int-quantized": PlainInt,
    "float-quantized": Float8,
    "nvfp4-pack-quantized": NvFp4,
    "mxfp4-pack-quantized": MxFp4,
    "mxfp8-quantized": MxFp8,
}


def codec_of(format: Format) -> Codec:
    """The codec of a format; UnsupportedError where its storage does not hold such weights."""
    if fault := storage_fault(format):
        raise UnsupportedError(fault)
    return _CODECS[storage_of(format)](format)
