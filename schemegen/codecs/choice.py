"""Which codec a format has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from schemegen.codecs.asymmetric_int import AsymmetricInt
from schemegen.codecs.base import Codec
from schemegen.codecs.float8 import Float8
from schemegen.codecs.mxfp4 import MxFp4
from schemegen.codecs.mxfp8 import MxFp8
from schemegen.codecs.nvfp4 import NvFp4
from schemegen.codecs.packed_int import NarrowInt, PackedInt
from schemegen.codecs.plain_int import PlainInt
from schemegen.codecs.searched_int import MseInt, SignedMseInt
from schemegen.errors import UnsupportedError
from schemegen.formats import MSE_OBSERVERS, SIGNED_MSE, observer_of, storage_fault, storage_of
from schemegen.scheme import Format


def _packed(format: Format) -> Codec:
    """Integers in words: with zero points, without the lowest code, under searched scales, or none of these.

    Scales of an observer that is not ours are another backend's; what is stored reads like all others.
    """
    if not format.weights.symmetric:
        return AsymmetricInt(format)
    if format.weights.narrow_range:
        return NarrowInt(format)
    return _BY_OBSERVER.get(observer_of(format.weights), PackedInt)(format)


_BY_OBSERVER: Final[Mapping[str, type[Codec]]] = {
    **dict.fromkeys(MSE_OBSERVERS, MseInt),
    SIGNED_MSE: SignedMseInt,
}

_CODECS: Final[Mapping[str, Callable[[Format], Codec]]] = {
    "pack-quantized": _packed,
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
