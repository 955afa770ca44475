"""Formats bound to the kernels that compute them: encode, check what is stored, decode. Nothing heavy is imported."""

from schemegen.codecs.base import Codec, Items, Stored, Wrong
from schemegen.codecs.choice import codec_of

__all__ = ["Codec", "Items", "Stored", "Wrong", "codec_of"]
