"""Where schemegen keeps what it can make or fetch again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_home() -> Path | None:
    """The user's cache, or None for a user without a home."""
    if home := os.environ.get("SCHEMEGEN_CACHE"):
        return Path(home)
    from platformdirs import user_cache_path

    try:
        return user_cache_path("schemegen")
    except RuntimeError:
        # Neither the environment nor the system's list of users names a home.
        return None
