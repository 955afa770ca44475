"""What model_free_ptq knows of models: stacks that its `split_fused_moe_experts` takes apart, layers it fuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from schemegen import UnsupportedError
from schemegen.peer import fusion_difference

if TYPE_CHECKING:
    from schemegen.planner import Plan
    from schemegen.planner.tensors import PlannedTensor

_STACKS: Final = {"gate_up_proj": ("gate_proj", "up_proj"), "down_proj": ("down_proj",)}


def check_layouts(plan: Plan) -> None:
    """UnsupportedError for a stack that model_free_ptq would leave whole, or name otherwise than the plan does."""
    for tensor in plan.tensors:
        if tensor.format is not None and len(tensor.source.shape) > 2 and _modules(tensor) != tensor.modules:
            raise UnsupportedError(
                f"model_free_ptq does not take {tensor.name} apart as the plan does; choose another --backend"
            )


def check_fusions(plan: Plan) -> None:
    """UnsupportedError where it would make a global scale over other matrices than the plan does."""
    if difference := fusion_difference(plan):
        raise UnsupportedError(f"model_free_ptq {difference}; choose another --backend")


def _modules(tensor: PlannedTensor) -> tuple[str, ...]:
    """The modules that model_free_ptq makes of a stack, in storage order."""
    experts = tensor.source.shape[0]
    for stack, projections in _STACKS.items():
        if stack in tensor.name:
            names = [f"{expert}.{projection}" for expert in range(experts) for projection in projections]
            return tuple(tensor.name.replace(stack, name).removesuffix(".weight") for name in names)
    return ()
