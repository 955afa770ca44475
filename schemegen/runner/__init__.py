"""Carries a plan out: chunks over workers, bounded memory, a journal, and one rename at the end."""

from schemegen.runner.execute import Execution, run
from schemegen.runner.place import check_output_place
from schemegen.runner.workspace import Workspace

__all__ = ["Execution", "Workspace", "check_output_place", "run"]
