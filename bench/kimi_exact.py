"""How exactly weights on Kimi's grid are found again: `python -m bench.kimi_exact [--groups N]`.

Groups of 32 codes -7 … 7 with BF16 scales are made to BF16 weights as compressed-tensors makes them, and quantized
once more: with narrow_range, which tries the neighbours of absmax / 7, with absmax / 7 alone, and as plain INT4, whose
scale is absmax / 7.5.
Each group has a code of 7 or -7, as Kimi's have. Of groups of nothing but 0, 7 and -7 several scales give the same
weights, so that none can say which it was: they are counted apart, and drawn on purpose, one for every 100 others.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Final

import numpy as np
from numpy.typing import NDArray

from schemegen.kernels import cpu
from schemegen.kernels.arrays import scales_of
from schemegen.kernels.grids import NARROW, PACKED, grid_of

GROUPS: Final = 10_000_000
CHUNK: Final = 1 << 17
SIZE: Final = 32
#: One group of nothing but 0, 7 and -7 for so many others.
APART: Final = 100
#: Scales are drawn evenly by exponent and mantissa, from 2**-14 up to 2**-4: experts' weights are 0.01 to 0.1 wide.
EXPONENTS: Final = (127 - 14, 127 - 4)
EXACT, ALONE, PLAIN = "narrow_range", "absmax / 7 alone", "plain INT4"
ORDINARY, ENDS_ONLY = "groups", "groups of 0, 7 and -7"

Codes = NDArray[np.uint8]
Words = NDArray[np.uint32]
Bits = NDArray[np.uint16]


@dataclass
class Tally:
    """Groups in all; those that came back with the same codes, scale, both, and weights; squared error and weights."""

    groups: int = 0
    same_codes: int = 0
    same_scale: int = 0
    same_both: int = 0
    same_weights: int = 0
    error: float = 0.0
    power: float = 0.0

    def add(self, other: Tally) -> None:
        """Count another's groups too."""
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))

    @property
    def relative_error(self) -> float:
        """Root mean square of the difference over that of the weights."""
        return float((self.error / self.power) ** 0.5) if self.power else 0.0


@dataclass(frozen=True, slots=True)
class Groups:
    """Words [n, 4] and scales [n, 1] that groups are made of, and their weights [n, 32], as BF16 bits."""

    words: Words
    scales: Bits
    weights: Bits


def measure(groups: int, seed: int = 0) -> Mapping[tuple[str, str], Tally]:
    """Tallies by way of quantizing and kind of group; the same for the same count and seed."""
    tallies = {(way, kind): Tally() for way in (EXACT, ALONE, PLAIN) for kind in (ORDINARY, ENDS_ONLY)}
    for number, count in enumerate(_counts(groups)):
        rng = np.random.default_rng((seed, number))
        for kind, some in ((ORDINARY, _ordinary(rng, count)), (ENDS_ONLY, _ends_only(rng, -(-count // APART)))):
            drawn = _weights_of(some, _scales(rng, len(some)))
            for way, words, scales in _again(drawn):
                tallies[way, kind].add(_compared(drawn, words, scales))
    return tallies


def _counts(groups: int) -> Iterator[int]:
    for first in range(0, groups, CHUNK):
        yield min(CHUNK, groups - first)


def _ordinary(rng: np.random.Generator, count: int) -> Codes:
    """Stored codes [count, 32] of -7 … 7, the first of each -7 or 7: 8 is added."""
    codes = rng.integers(1, 16, (count, SIZE), np.uint8)
    codes[:, 0] = rng.choice(np.array([1, 15], np.uint8), count)
    return codes


def _ends_only(rng: np.random.Generator, count: int) -> Codes:
    """Stored codes [count, 32] of -7, 0 and 7, not all of them 0."""
    codes = rng.choice(np.array([1, 8, 15], np.uint8), (count, SIZE))
    codes[:, 0] = rng.choice(np.array([1, 15], np.uint8), count)
    return codes


def _scales(rng: np.random.Generator, count: int) -> Bits:
    exponents = rng.integers(*EXPONENTS, (count, 1)).astype(np.uint16)
    scales: Bits = exponents << np.uint16(7) | rng.integers(0, 128, (count, 1), np.uint16)
    return scales


def _weights_of(codes: Codes, scales: Bits) -> Groups:
    words = (codes[:, ::2] | codes[:, 1::2] << np.uint8(4)).view(np.uint32)
    return Groups(words, scales, _restored(words, scales))


def _restored(words: Words, scales: Bits) -> Bits:
    weights = np.empty((len(words), SIZE), np.uint16)
    cpu.decode_int(words, "BF16", 4, SIZE, scales, weights)
    return weights


def _again(drawn: Groups) -> Iterator[tuple[str, Words, Bits]]:
    """The weights quantized in every way: its name, words and scales."""
    words, scales = np.empty_like(drawn.words), np.empty_like(drawn.scales)
    for way, style in ((EXACT, NARROW), (PLAIN, PACKED)):
        cpu.quantize_int(drawn.weights, "BF16", 4, SIZE, words, scales, style)
        yield way, words, scales
    tops = _values(drawn.weights & np.uint16(0x7FFF)).max(1, keepdims=True)
    alone = scales_of(tops, "BF16", grid_of(4, NARROW).divisor).astype(np.uint16)
    cpu.apply_int(drawn.weights, "BF16", 4, SIZE, words, alone, NARROW)
    yield ALONE, words, alone


def _compared(drawn: Groups, words: Words, scales: Bits) -> Tally:
    codes, scale = (words == drawn.words).all(1), (scales == drawn.scales).all(1)
    restored, weights = _restored(words, scales), _values(drawn.weights)
    difference = (_values(restored) - weights).ravel()
    return Tally(
        len(words),
        int(codes.sum()),
        int(scale.sum()),
        int((codes & scale).sum()),
        int((restored == drawn.weights).all(1).sum()),
        float(np.dot(difference, difference)),
        float(np.dot(weights.ravel(), weights.ravel())),
    )


def _values(bits: Bits) -> NDArray[np.float32]:
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=GROUPS, help="how many ordinary groups (default: %(default)s)")
    tallies = measure(parser.parse_args().groups)
    print(f"{'':18}{'':23}{'groups':>12}{'same codes':>12}{'scale':>12}{'both':>12}{'weights':>12}{'error':>9}")
    for (way, kind), tally in tallies.items():
        counts = (tally.groups, tally.same_codes, tally.same_scale, tally.same_both, tally.same_weights)
        print(f"{way:18}{kind:23}" + "".join(f"{count:12,}" for count in counts) + f"{tally.relative_error:9.2%}")


if __name__ == "__main__":
    main()
