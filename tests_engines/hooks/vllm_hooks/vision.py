"""Two operators that torchvision's binary registers: linked to CUDA it cannot be loaded beside a CPU torch."""

from __future__ import annotations

from importlib.metadata import version

import torch

_BOXES = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"

if not version("torchvision").endswith("+cpu"):
    # Kept alive, for the operators go with it.
    LIBRARY = torch.library.Library("torchvision", "DEF")
    LIBRARY.define(f"nms{_BOXES}")
    LIBRARY.define(f"qnms{_BOXES}")
