"""The scheme that an already quantized checkpoint describes: its config's formats, its tensors' roles, a policy."""

from schemegen.described.describer import Description, describe_checkpoint

__all__ = ["Description", "describe_checkpoint"]
