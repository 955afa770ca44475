"""Microscaling (MX): groups whose scale is a power of two, E8M0. Nothing heavy is imported."""

from __future__ import annotations

from typing import Final

#: Exponents of the largest powers of two of E4M3 (448 = 1.75 * 2**8) and of FP4 E2M1 (6 = 1.5 * 2**2).
E4M3_OFFSET: Final = 8
E2M1_OFFSET: Final = 2
