"""vLLM's INT4 emulation for experts, which only runs on a GPU, on the CPU: its dequantizer, its BF16 CPU experts."""

from __future__ import annotations

from types import ModuleType
from typing import Any


def apply(module: ModuleType) -> None:
    """Replace the class under its name: vLLM takes no other for its EMULATION backend."""
    from vllm.model_executor.layers.fused_moe.experts import cpu_moe

    arithmetic = _unquantized_experts(cpu_moe)

    class Int4EmulationTritonExperts(arithmetic):  # type: ignore[misc, valid-type]
        """Experts that were decoded to BF16 after loading; packed for the kernel when they are first needed.

        Not earlier, so that what was decoded can be read from the layer.
        """

        _packed: tuple[Any, Any] | None = None

        def apply(self, output: Any, hidden_states: Any, w1: Any, w2: Any, *rest: Any, **named: Any) -> None:
            if self._packed is None:
                self._packed = tuple(cpu_moe.cpu_prepack_moe_weight(weight, self.isa) for weight in (w1, w2))
            super().apply(output, hidden_states, *self._packed, *rest, **named)

    module.Int4EmulationTritonExperts = Int4EmulationTritonExperts  # type: ignore[attr-defined]


def _unquantized_experts(cpu_moe: ModuleType) -> type:
    """The class that runs BF16 experts on this CPU, so that decoded experts give the same bits."""
    amx: type = cpu_moe.X86CPUUnquantizedExperts
    return amx if amx._supports_current_device() else cpu_moe.CPUUnquantizedExperts  # type: ignore[attr-defined]
