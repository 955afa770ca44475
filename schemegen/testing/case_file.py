"""What a case file says, read as strictly as a scheme."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from schemegen.loader import load_model
from schemegen.rule import Line, StrictModel

Fate = tuple[Line, Line]


class Case(StrictModel):
    """What a scheme makes of a model: role and format, or `keep`, of tensors by name.

    `scheme` and `policies` are names or YAML files beside the case; `model` is a Hub id, a sample, or a folder beside
    the case, given as `./` or `../`. `rest: keep` says that every kind (part and role) of which no tensor is named is
    kept; without it, each kind needs one.
    """

    scheme: Line
    architecture: Line
    model: Line = "sample:qwen3.6-moe"
    policies: tuple[Line, ...] = Field((), strict=False)
    rest: Literal["keep"] | None = None
    tensors: Annotated[dict[str, Annotated[Fate, Field(strict=False)]], Field(min_length=1)]


def load_case(path: Path) -> Case:
    """The case in a YAML file; SchemeFileError lists all its faults."""
    return load_model(path, Case)
