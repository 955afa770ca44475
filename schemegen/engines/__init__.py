"""What inference engines read: the quantization_config, generated from the stored tensors and checked against them."""

from schemegen.engines.declaration import block_faults, check_declaration, declaration_faults, declare
from schemegen.engines.ignore import is_ignore_list
from schemegen.engines.limits import engine_notes
from schemegen.engines.modules import Module, engine_modules, first_expert, spellings
from schemegen.engines.patterns import is_entry, matches
from schemegen.engines.serving import serve_command, servings, untried_notes
from schemegen.engines.targets import LINEAR

__all__ = [
    "LINEAR",
    "Module",
    "block_faults",
    "check_declaration",
    "declaration_faults",
    "declare",
    "engine_modules",
    "engine_notes",
    "first_expert",
    "is_entry",
    "is_ignore_list",
    "matches",
    "serve_command",
    "servings",
    "spellings",
    "untried_notes",
]
