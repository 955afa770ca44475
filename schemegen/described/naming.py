"""Names for what a config leaves unnamed: its formats, the scheme, and modules that only their names tell apart."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count
from typing import Final

from schemegen.formats.words import kind_of
from schemegen.scheme import Format

_NUMBER: Final = re.compile(r"(?<=\.)\d+(?=\.)")
_UNFIT: Final = re.compile(r"[^a-z0-9._-]+")
_LONGEST: Final = 100
_DOT: Final = r"\."


def shown(text: str) -> str:
    """A name from anywhere on one line: control characters escaped, cut where it is long, "" where it is empty."""
    plain = text if text.isprintable() else repr(text)[1:-1]
    return (plain if len(plain) <= _LONGEST else f"{plain[:_LONGEST]}…") or '""'


def scheme_name(model_id: str) -> str:
    """A name for the scheme of a model: its own, and that it is a description."""
    own = _UNFIT.sub("-", model_id.rpartition("/")[2].rpartition(":")[2].lower()).strip("._-")[:_LONGEST]
    return f"{own or 'model'}-described"


def format_names(formats: Iterable[Format]) -> list[str]:
    """A name for each format, equal ones having one name: its kind, and what tells it from others of that kind."""
    named: list[tuple[str, Format]] = []
    for format in formats:
        taken = {name for name, _ in named}
        known = next((name for name, other in named if other == format), None)
        named.append((known or next(name for name in _proposals(format) if name not in taken), format))
    return [name for name, _ in named]


def _proposals(format: Format) -> Iterator[str]:
    kind, weights = kind_of(format).lower(), format.weights
    size = f"g{weights.group_size}" if weights.group_size else weights.strategy
    yield kind
    yield f"{kind}_{size}"
    activations = format.input_activations
    yield f"{kind}_{size}_{'a16' if activations is None else f'a{activations.num_bits}'}"
    yield from (f"{kind}_{number}" for number in count(2))


def pattern_of(names: Iterable[str]) -> str:
    """A regex for these names and no others: "re:…", matched from the start."""
    templates: dict[str, list[tuple[str, ...]]] = {}
    for name in names:
        templates.setdefault(_NUMBER.sub("#", name), []).append(tuple(_NUMBER.findall(name)))
    found = [_filled(template, part) for template, rows in templates.items() for part in _products(rows)]
    return f"re:{_folded([pattern.split(_DOT) for pattern in found])}$"


def _folded(found: Sequence[Sequence[str]]) -> str:
    """Patterns in words between dots as one: what they begin and end with stands once."""
    if len(found) == 1:
        return _DOT.join(found[0])
    least = min(map(len, found)) - 1
    head = next((n for n in range(least) if len({words[n] for words in found}) > 1), least)
    tail = next((n for n in range(least - head) if len({words[-1 - n] for words in found}) > 1), least - head)
    middle = _either(_DOT.join(words[head : len(words) - tail]) for words in found)
    return _DOT.join([*found[0][:head], middle, *found[0][len(found[0]) - tail :]])


def _products(rows: Sequence[tuple[str, ...]]) -> list[tuple[tuple[str, ...], ...]]:
    """The rows of numbers as few products of sets: by place, what may stand there."""
    if not rows or not rows[0]:
        return [()] if rows else []
    tails: dict[str, list[tuple[str, ...]]] = {}
    for first, *rest in rows:
        tails.setdefault(first, []).append(tuple(rest))
    firsts: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    for first, tail in tails.items():
        firsts.setdefault(tuple(sorted(tail)), []).append(first)
    return [(tuple(found), *part) for tail, found in firsts.items() for part in _products(tail)]


def _filled(template: str, product: Sequence[Sequence[str]]) -> str:
    words = template.split("#")
    numbers = [places[0] if len(places) == 1 else _either(sorted(places, key=int)) for places in product]
    escaped = [re.escape(word) for word in words]
    return "".join(chain.from_iterable(zip(escaped, [*numbers, ""], strict=True)))


def _either(texts: Iterable[str]) -> str:
    return f"({'|'.join(texts)})"
