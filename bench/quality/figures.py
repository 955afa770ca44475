"""Figures that the README of a checkpoint's folder gives, to print beside measured ones."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_NUMBER = r"(\d+(?:\.\d+)?)"
_CELL = rf" *{_NUMBER} *\|"
#: | checkpoint | nats per byte | KL per byte | same top-1 |
_ROW = re.compile(rf"^\|([^|\n]+)\|{_CELL}{_CELL}{_CELL} *$", re.ASCII | re.MULTILINE)
_SHARE = re.compile(rf"{_NUMBER} % of the BF16 MTP block's drafts and {_NUMBER} % after ([\w-]+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Given:
    """What is given of a checkpoint: nats per byte, KL per byte, share of the same top byte, accepted drafts in %."""

    nats: float | None = None
    kl: float | None = None
    same_top: float | None = None
    accepted: float | None = None


def given_figures(readme: Path) -> dict[str, Given]:
    """By scheme, and for the source by `BF16`; empty where there is no README or none of it is understood."""
    text = readme.read_bytes().decode(errors="replace") if readme.is_file() else ""
    shares: dict[str, float] = {}
    if share := _SHARE.search(text):
        shares = {"BF16": float(share[1]), share[3]: float(share[2])}
    found = {}
    for row in _ROW.finditer(text):
        name = _scheme(row[1])
        found[name] = Given(float(row[2]), float(row[3]), float(row[4]), shares.get(name))
    return found


def _scheme(name: str) -> str:
    """A row's name, or what it has in brackets, where that is how schemes are named."""
    bracketed = re.search(r"\(([\w-]+)\)", name)
    return bracketed[1] if bracketed else name.strip()
