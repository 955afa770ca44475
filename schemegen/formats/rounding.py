"""What data-free rounding of weights computes, whoever does it: formats and observers that need no activations."""

from __future__ import annotations

from typing import Final

from schemegen.formats.storage import MSE_OBSERVERS, is_searched, storage_fault, storage_of
from schemegen.scheme import Format, Quantization

#: How the range of a group is found: its extremes, a search of the clip ratio, a search over scales of both signs.
MINMAX: Final = "minmax"
SIGNED_MSE: Final = "signed_mse"
OBSERVERS: Final = (MINMAX, *MSE_OBSERVERS, SIGNED_MSE)
# Scales that are made from the extremes of more than a search sees at a time.
_WIDE: Final[dict[str, str]] = {"tensor": "a tensor", "tensor_group": "a fused layer"}


def rounding_fault(format: Format) -> str | None:
    """Why no rounding without data gives the format, or None. A predicate: "offers …", "does not offer …"."""
    return storage_fault(format) or _activation_fault(format) or _observer_fault(format) or _odd_fault(format.weights)


def observer_of(weights: Quantization) -> str:
    """The observer, `minmax` where none is named."""
    return weights.observer or MINMAX


def _activation_fault(format: Format) -> str | None:
    if format.output_activations is not None:
        return "quantizes no output activations"
    if format.input_activations is not None and format.input_activations.dynamic is not True:
        return "has no data to find the range of static activations; take dynamic: true"
    return None


def _observer_fault(format: Format) -> str | None:
    weights, observer = format.weights, observer_of(format.weights)
    if observer not in OBSERVERS:
        return f"does not offer the observer {observer}; {', '.join(OBSERVERS)} are"
    if is_searched(weights) and weights.strategy in _WIDE:
        return f"does not offer the observer {observer} with one scale {_WIDE[weights.strategy]}"
    packed = storage_of(format) == "pack-quantized" and weights.symmetric
    if observer == SIGNED_MSE and not packed:
        return "offers the observer signed_mse for symmetric pack-quantized integers only"
    if weights.narrow_range and not (packed and observer == MINMAX):
        return "offers narrow_range for symmetric pack-quantized integers with the observer minmax only"
    return None


def _odd_fault(weights: Quantization) -> str | None:
    given = {
        "actorder: it sees no activations": weights.actorder is not None,
        "observer_kwargs": bool(weights.observer_kwargs),
        "zp_dtype": weights.zp_dtype is not None,
    }
    return next((f"does not offer {name}" for name, is_given in given.items() if is_given), None)
