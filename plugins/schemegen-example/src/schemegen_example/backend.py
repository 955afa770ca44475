"""Round to nearest in plain numpy, into one format."""

from __future__ import annotations

from schemegen import Buffers, Format, WeightBackend, Weights

_TOKENS = {"num_bits": 8, "strategy": "token", "dynamic": True, "observer": None}
FORMAT = Format.model_validate({"weights": {"num_bits": 8, "strategy": "channel"}, "input_activations": _TOKENS})


class PlainInt8(WeightBackend):
    """INT8 codes with a scale a row, in the weights' dtype: the row's largest magnitude / 127.5."""

    name = "example-int8"
    summary = "INT8 per channel, in plain numpy"
    versions = ("numpy",)

    def refuses(self, format: Format) -> str | None:
        """Why the format cannot be computed here, or None."""
        return None if format == FORMAT else "computes INT8 per channel, INT8 activations by token, and no other format"

    def quantize(self, weights: Weights, format: Format, out: Buffers) -> None:
        """Fill weight and weight_scale."""
        import numpy as np

        weights.require_finite()
        values = weights.values_of(weights.bits)
        # No scale may be zero: the smallest number stands in.
        scales = np.maximum(weights.bits_of(np.abs(values).max(-1, keepdims=True) / np.float32(127.5)), 1)
        quotients = weights.bits_of(values / weights.values_of(scales))
        out["weight"][...] = np.rint(weights.values_of(quotients)).clip(-128, 127).astype(np.int8).view(np.uint8)
        out["weight_scale"][...] = scales
