"""Tools for the tests of schemes, policies, plugins and backends; no test framework is needed to import them.

from schemegen.testing import cases, check_backend, check_case, check_plugin, sample_checkpoint
"""

from __future__ import annotations

from schemegen.testing.cases import cases, check_case
from schemegen.testing.conformance import check_backend
from schemegen.testing.plugin_checks import check_plugin
from schemegen.testing.samples import sample_checkpoint

__all__ = ["cases", "check_backend", "check_case", "check_plugin", "sample_checkpoint"]
