"""The families that ship with schemegen, and what engines make of names in any of them."""

from __future__ import annotations

from typing import Final

from schemegen.architectures.base import Architecture
from schemegen.architectures.qwen3_5_moe import QWEN3_5_MOE

ARCHITECTURES: Final[tuple[Architecture, ...]] = (QWEN3_5_MOE,)
#: For whoever holds a name of an unknown family, and would rather see a spelling too many than one too few.
RENAMES: Final = tuple(dict.fromkeys(rename for family in ARCHITECTURES for rename in family.renames))
