"""The policies that schemes under check may name: those of files checked with them, of the catalog, of files beside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from schemegen.catalog import Catalog
from schemegen.checking.reading import Checked
from schemegen.errors import SchemeFileError, SchemegenError
from schemegen.policy import Policy


class Named(NamedTuple):
    """A policy that a scheme names: itself, None where it cannot be had, and whether that is the file's own fault.

    `fault` is what is wrong with the name; a policy that is `faulty` is there, and told of at its own file.
    """

    policy: Policy | None
    fault: str | None = None
    faulty: bool = False


@dataclass(frozen=True, slots=True)
class Known:
    """The catalog, and the files that are checked together."""

    catalog: Catalog
    files: Sequence[Checked]

    def policy(self, name: str, path: Path) -> Named:
        """The policy that a scheme file at `path` names."""
        own = self._own()
        if name in own:
            return Named(own[name].policy, faulty=bool(own[name].faults))
        try:
            return Named(self.catalog.policies_beside(path)(name))
        except SchemeFileError as error:
            return Named(None, error.in_short)
        except SchemegenError as error:
            return Named(None, str(error))

    def _own(self) -> Mapping[str, Checked]:
        """The policies among the files by name, by the file's where it holds no fields."""
        return {one.name or one.path.stem: one for one in self.files if one.kind == "policy" or one.document is None}
