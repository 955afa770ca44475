"""Starts: a plugin or a scheme that works and whose own tests pass, written for somebody to change."""

from schemegen.starts.kinds import Start, plugin_start, scheme_start
from schemegen.starts.writing import write_start

__all__ = ["Start", "plugin_start", "scheme_start", "write_start"]
