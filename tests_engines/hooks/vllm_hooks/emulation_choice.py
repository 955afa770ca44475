"""Lets vLLM fall back to its INT4 emulation where no kernel of its CPU build runs a checkpoint's INT4 experts."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

REFUSALS: list[str] = []
"""What vLLM said each time it had no kernel."""


def apply(module: ModuleType) -> None:
    """Wrap the choice of a backend; vLLM's own choice stands wherever it makes one."""
    select = module.select_wna16_moe_backend

    def select_wna16_moe_backend(*args: Any, **named: Any) -> tuple[Any, type]:
        try:
            return select(*args, **named)  # type: ignore[no-any-return]
        except NotImplementedError as error:
            if not REFUSALS:
                print(f"vLLM: {error} Its EMULATION backend takes over.", file=sys.stderr)
            REFUSALS.append(str(error))
            from vllm.model_executor.layers.fused_moe.experts.int4_emulation_moe import Int4EmulationTritonExperts

            return module.WNA16MoEBackend.EMULATION, Int4EmulationTritonExperts

    module.select_wna16_moe_backend = select_wna16_moe_backend  # type: ignore[attr-defined]
