"""One way to say that llm-compressor, or what it made, is at fault."""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

from schemegen import PluginError

BACKEND: Final = "llmcompressor-rtn"
_DISTRIBUTION: Final = "schemegen-llmcompressor"


def fault(reason: str) -> PluginError:
    """A PluginError of this distribution."""
    return PluginError(f"backend {BACKEND}", _DISTRIBUTION, version(_DISTRIBUTION), reason)
