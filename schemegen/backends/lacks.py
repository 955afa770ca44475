"""Refusals that say nothing of a scheme: what this machine lacks."""

from __future__ import annotations


class Lack(str):
    """Why a backend refuses a format, where an installed package would do: `check` makes a remark of it, no fault."""

    __slots__ = ()
