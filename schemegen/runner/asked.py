"""What a library call asks for, checked before anything starts."""

from __future__ import annotations

import os
from collections.abc import Iterable

from schemegen.errors import UnsupportedError


def revision_of(revision: object) -> str | None:
    """A branch, tag or commit, or None for the default; UnsupportedError for anything else."""
    if revision is None or (isinstance(revision, str) and revision):
        return revision
    raise UnsupportedError(f"revision {revision!r:.80} is no branch, tag or commit; give its name as text, or None")


def devices_of(device: object) -> tuple[str, ...]:
    """The names of one device or several; UnsupportedError where they are none or no text."""
    names = (device,) if isinstance(device, str) else tuple(device) if isinstance(device, Iterable) else ()
    if names and all(isinstance(name, str) for name in names):
        return names
    raise UnsupportedError(
        f"device {device!r:.80} names no device; give cpu, cuda:N, several of those in a list, or auto"
    )


def workers_of(jobs: object) -> int:
    """How many workers: as asked, or one for each CPU this process may use; UnsupportedError for no such number."""
    if jobs is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if isinstance(jobs, int) and not isinstance(jobs, bool) and jobs > 0:
        return jobs
    raise UnsupportedError(f"jobs {jobs!r:.80} is no number of workers; give a whole number from 1, or None")
