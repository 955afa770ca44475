"""Python imports this at start where its folder is on PYTHONPATH: it lets vLLM's CPU build run on any CPU.

Import hooks rather than imports, for vLLM starts processes of its own and nothing here may slow the others down.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

BEFORE = {"torchvision": "vllm_hooks.vision"}
"""By a module's name, what to import before it."""
AFTER = {
    "vllm.model_executor.layers.fused_moe.experts.int4_emulation_moe": "vllm_hooks.emulation_experts",
    "vllm.model_executor.layers.fused_moe.oracle.int_wna16": "vllm_hooks.emulation_choice",
}
"""By a module's name, what to import after it, and to hand it to as `apply(module)`."""


class Finder:
    """Finds nothing by itself; sees to it that a hook runs with the module it is for."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec the other finders have, its loader made to run the hook; None for modules without one."""
        if name in BEFORE:
            importlib.import_module(BEFORE.pop(name))
        if name not in AFTER:
            return None
        hook = AFTER.pop(name)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            _run_after(spec.loader, hook)
        return spec


def _run_after(loader: Any, hook: str) -> None:
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        execute(module)
        importlib.import_module(hook).apply(module)

    loader.exec_module = exec_module


sys.meta_path.insert(0, Finder())
