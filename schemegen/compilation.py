"""Kernels that a plan needs, compiled once on a machine: which, and said when it happens, for it takes seconds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from schemegen.codecs import Codec, codec_of
from schemegen.formats.words import in_short
from schemegen.kernels.native import Compilation, watching
from schemegen.planner import Plan
from schemegen.progress import Progress, remark


def uses_of(plan: Plan) -> Iterator[tuple[Codec, str, int]]:
    """Every (codec, dtype, columns) of the matrices to quantize, once."""
    seen = {(t.format, t.source.dtype, t.matrix_shape[1]) for t in plan.tensors if t.format is not None}
    for name, dtype, columns in sorted(seen):
        yield codec_of(plan.scheme.formats[name]), dtype, columns


@contextmanager
def compiling(plan: Plan, progress: Progress) -> Iterator[Compilation]:
    """Say so once where this thread compiles kernels meanwhile, and count the seconds: they are no part of the work."""
    formats = ", ".join(dict.fromkeys(map(in_short, plan.formats_used.values())))
    line = f"compiling kernels for {formats}, once on this machine"
    with watching(lambda: remark(progress, line)) as found:
        yield found
