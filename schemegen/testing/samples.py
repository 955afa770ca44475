"""Small checkpoints to test on."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal, get_args

from schemegen.checkpoint.sample import SAMPLE_NAMES, write_sample
from schemegen.checkpoint.sample_tensors import ExpertsAs
from schemegen.checkpoint.sample_values import Dtype
from schemegen.errors import OutputError, UnknownNameError

Layout = Literal["stacked", "one-by-one"]
_EXPERTS: Final[dict[Layout, ExpertsAs]] = {"stacked": "fused", "one-by-one": "separate"}


def sample_checkpoint(
    folder: str | Path, layout: Layout = "stacked", dtype: Dtype = "BF16", name: str = SAMPLE_NAMES[0]
) -> Path:
    """Write the sample `name` into a folder, new or empty, and return its path: 18 MB in BF16, 36 MB in F32.

    `layout` says how experts are stored, in 3-D stacks or one by one; every layout and dtype holds the same numbers,
    rounded to the dtype. UnknownNameError for another layout, dtype or name, OutputError where something lies there.
    """
    for kind, given, known in (("layout", layout, _EXPERTS), ("dtype", dtype, get_args(Dtype))):
        if given not in known:
            raise UnknownNameError(f"{kind} of a sample", str(given), known)
    path = Path(folder)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise OutputError(f"{path} is not an empty folder; a sample goes into one of its own")
    write_sample(name, path, experts=_EXPERTS[layout], dtype=dtype)
    return path
