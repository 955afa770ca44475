"""What observer `mse` searches, as llm-compressor's `memoryless_mse` does by default. Nothing heavy is imported.

Ranges shrink by a hundredth at a time, to 0.81 of the extremes; a group keeps the range whose error is least, and the
search of a matrix ends after `PATIENCE` steps in a row that improve none of its groups. An error is the sum of
|difference| to the power of 2.4, all in the weights' dtype, the power too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

STEPS: Final = 20
PATIENCE: Final = 5
POWER: Final = 2.4
#: What the extremes are multiplied with, step by step.
RATIOS: Final = tuple(1 - step / 100.0 for step in range(STEPS))
_BF16_POWER: Final = 2.40625


def steps_taken(improved: int, steps: int) -> int | None:
    """How many steps a search takes whose step i improves where bit i is set; None where `steps` do not tell."""
    stale = 0
    for step in range(steps):
        stale = 0 if improved >> step & 1 else stale + 1
        if stale == PATIENCE:
            return step + 1
    return STEPS if steps == STEPS else None


def bf16_powers() -> NDArray[np.float32]:
    """Every magnitude of a BF16, by its bits, to the power of 2.4, rounded to BF16 as torch rounds it.

    torch takes 2.4 as BF16, and rounds an F32; none of these comes within four units in the last place of the middle of
    two BF16, so that it matters little how either is computed.
    """
    import numpy as np

    from schemegen.kernels.arrays import narrowed, widened

    values = widened(np.arange(1 << 15, dtype=np.uint16), "BF16")
    values = np.where(np.isnan(values), np.float32(np.inf), values)
    with np.errstate(over="ignore", under="ignore"):
        powers = (values.astype(np.float64) ** _BF16_POWER).astype(np.float32)
    return widened(narrowed(powers, "BF16"), "BF16")
