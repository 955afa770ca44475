"""Whether what is stored stands for the weights: codes that `verify --against` expects, and scales that lose little."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

from schemegen.codecs import Wrong, codec_of
from schemegen.formats import DTYPE_BITS, SIGNED_MSE, observer_of
from schemegen.formats.words import in_short
from schemegen.kernels.floats import FLOAT_BITS
from schemegen.planner import Chunk, PlannedTensor
from schemegen.scheme import Format
from schemegen.testing.findings import Findings
from schemegen.testing.probe_model import AWKWARD_ROWS, NOISE
from schemegen.testing.probe_weights import AWKWARD
from schemegen.testing.trial import Stored, Trial
from schemegen.testing.wrong_codes import told_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Items = NDArray[np.unsignedinteger[Any]]

#: How much more of the squared error than plain rounding leaves is still somebody's choice of scales.
_MOST_LOST: Final = 4.0


def check_values(trial: Trial, stored: Stored, findings: Findings) -> None:
    """Every code is the nearest to its weight under the stored scale, and the scales are fit for the weights."""
    for chunk in trial.chunks():
        tensor = chunk.tensor
        if not findings.spares(tensor):
            continue
        format, items = trial.plan.format_of(tensor), _items(stored, tensor)
        weights = trial.model.weights[tensor.name].reshape(chunk.shape)
        if wrong := codec_of(format).recode(weights, tensor.source.dtype, items):
            told = told_of(format, tensor.source.dtype, weights, items, wrong)
            findings.add_of(
                trial.plan, tensor, f"{wrong.suffix} {wrong.fault}", f"{_place(tensor, wrong)}{told and ': '}{told}"
            )
        elif suffix := _below_zero(format, tensor, items):
            fault = f"stores {suffix}s below zero, as observer signed_mse alone does; take their magnitudes"
            findings.add_of(trial.plan, tensor, fault)
        elif tensor.name.endswith(NOISE):
            _check_loss(trial, chunk, items, findings)
    _check_fused(trial, stored, findings)
    _check_observers(trial, stored, findings)


def _items(stored: Stored, tensor: PlannedTensor) -> dict[str, Items]:
    """The stored pieces [matrices, …] as the codec reads them."""
    pieces = {piece.suffix: piece for piece in tensor.pieces}
    return {
        suffix: made.view(f"u{DTYPE_BITS[pieces[suffix].dtype] // 8}").reshape(tensor.matrices, *pieces[suffix].shape)
        for suffix, made in stored.of(tensor).items()
    }


def _below_zero(format: Format, tensor: PlannedTensor, items: Mapping[str, Items]) -> str | None:
    """The piece that holds scales below zero, where the format's own are above."""
    if observer_of(format.weights) == SIGNED_MSE:
        return None
    signs = {**{dtype: bits.magnitude + 1 for dtype, bits in FLOAT_BITS.items()}, "F8_E4M3": 0x80}
    dtypes = {piece.suffix: piece.dtype for piece in tensor.pieces if piece.suffix.endswith("scale")}
    return next((name for name, dtype in dtypes.items() if (items[name] & signs.get(dtype, 0)).any()), None)


def _place(tensor: PlannedTensor, wrong: Wrong) -> str:
    row = wrong.place[1] if len(wrong.place) == 3 and tensor.name.endswith(AWKWARD_ROWS) else None
    kind = "" if row is None or row >= len(AWKWARD) else f", a row of {list(AWKWARD)[row]}"
    return f"at {list(wrong.place[-2:])}{kind}"


def _check_loss(trial: Trial, chunk: Chunk, items: Mapping[str, Items], findings: Findings) -> None:
    format, tensor = trial.plan.format_of(chunk.tensor), chunk.tensor
    weights = trial.memory.read(chunk)
    plain = {suffix: made.copy() for suffix, made in items.items()}
    # Scales from the extremes, whichever observer is asked for.
    reference = codec_of(_plain(format))
    reference.encode(weights.bits, weights.dtype, plain, weights.shared)
    lost, least = (_loss(format, weights.bits, weights.dtype, made) for made in (items, plain))
    if lost > _MOST_LOST * least:
        told = f"{lost / least:.1f} times the squared error of plain rounding"
        findings.add_of(trial.plan, tensor, "its scales lose too much of ordinary weights", told)


def _plain(format: Format) -> Format:
    return format.model_copy(update={"weights": format.weights.model_copy(update={"observer": "minmax"})})


def _loss(format: Format, weights: Items, dtype: str, items: Mapping[str, Items]) -> float:
    import numpy as np

    from schemegen.kernels.arrays import widened

    decoded = np.empty_like(weights)
    codec_of(format).decode(items, dtype, decoded)
    return float(np.square(widened(decoded, dtype) - widened(weights, dtype), dtype=np.float64).mean())


def _check_fused(trial: Trial, stored: Stored, findings: Findings) -> None:
    """Matrices that engines build one layer from have one global scale."""
    layers: dict[str, PlannedTensor] = {}
    for tensor in filter(findings.spares, trial.plan.tensors):
        scale = stored.of(tensor).get("weight_global_scale")
        if scale is not None and tensor.matrices == 1:
            other = layers.setdefault(trial.plan.layer_of(tensor.modules[0]), tensor)
            if (stored.of(other)["weight_global_scale"] != scale).any():
                told = "gives matrices of a fused layer different global scales; make them from weights.shared"
                findings.add_of(trial.plan, tensor, told)


def _check_observers(trial: Trial, stored: Stored, findings: Findings) -> None:
    """A format that asks for other scales is not computed as if it did not."""
    noises = [t for t in trial.plan.tensors if t.name.endswith(NOISE) and findings.spares(t)]
    for left, right in combinations(noises, 2):
        formats = trial.plan.format_of(left), trial.plan.format_of(right)
        if left.source.dtype == right.source.dtype and _differ_in_scales(*formats) and _same(stored, left, right):
            plain, asked = sorted(map(in_short, formats), key=len)
            findings.add(asked, f"makes of it what it makes of {plain}; refuse what is not computed")


def _differ_in_scales(left: Format, right: Format) -> bool:
    def rest(format: Format) -> Format:
        weights = format.weights.model_copy(update={"observer": None, "narrow_range": False})
        return format.model_copy(update={"weights": weights})

    return left != right and rest(left) == rest(right)


def _same(stored: Stored, left: PlannedTensor, right: PlannedTensor) -> bool:
    made, other = stored.of(left), stored.of(right)
    return bool(made) and all(suffix in other and (other[suffix] == made[suffix]).all() for suffix in made)
