"""What `schemegen.testing` offers, and what it costs to import."""

from __future__ import annotations

import subprocess
import sys

import schemegen.testing


def test_every_name_is_there_and_documented() -> None:
    assert schemegen.testing.__all__ == sorted(schemegen.testing.__all__)
    assert all(getattr(schemegen.testing, name).__doc__ for name in schemegen.testing.__all__)


def test_importing_it_needs_no_test_framework_and_nothing_numerical() -> None:
    code = (
        "import schemegen.testing, sys; print(*{'pytest', 'numpy', 'numba', 'torch', 'hypothesis'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
