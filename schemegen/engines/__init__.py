"""What inference engines read: the quantization_config, generated from the stored tensors and checked against them."""

from schemegen.engines.declaration import config_groups, declare
from schemegen.engines.modules import Module, engine_modules, first_expert, spellings

__all__ = ["Module", "config_groups", "declare", "engine_modules", "first_expert", "spellings"]
