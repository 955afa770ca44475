"""Files as they are read for a check: what they hold, and the faults that they have by themselves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from schemegen.documents import Document, Place, read_document, yaml_files
from schemegen.errors import SchemeFault, SchemeFileError
from schemegen.loader import in_order, kind_of, parse
from schemegen.policy import Policy
from schemegen.scheme import Scheme

_KINDS: Final = {Scheme: "scheme", Policy: "policy"}
Fault = tuple[Place, str]
"""A place in a file, and what is wrong there."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A file, its faults, and what it holds: None, where it is no scheme or policy.

    What is faulty has stand-ins at `stand_ins`. Remarks are what this machine lacks, and no faults of the file.
    """

    path: Path
    found: Scheme | Policy | None = None
    faults: tuple[SchemeFault, ...] = ()
    document: Document | None = None
    stand_ins: frozenset[Place] = frozenset()
    remarks: tuple[SchemeFault, ...] = ()

    @property
    def kind(self) -> str | None:
        """What the file was taken for; None where it holds no fields."""
        return None if self.document is None else _KINDS[kind_of(self.document.data)]

    @property
    def name(self) -> str | None:
        """The name that stands in the file."""
        name = None if self.document is None else self.document.data.get("name")
        return name if isinstance(name, str) else None

    @property
    def policy(self) -> Policy | None:
        """The policy that it holds, if it holds one."""
        return self.found if isinstance(self.found, Policy) else None

    def with_faults(self, faults: Iterable[Fault], remarks: Iterable[Fault] = ()) -> Checked:
        """The same with more faults and remarks, in the order of their lines."""
        document = self.document
        if document is None:
            return self
        told = in_order(dict.fromkeys([*self.faults, *(document.fault(*fault) for fault in faults)]))
        more = in_order(document.fault(*remark) for remark in remarks)
        return replace(self, faults=tuple(told), remarks=(*self.remarks, *more))


def read(path: Path) -> Checked:
    """The file, with the faults that it has by itself."""
    try:
        document = read_document(path)
    except SchemeFileError as error:
        return Checked(path, faults=error.faults)
    kind: type[Scheme | Policy] = kind_of(document.data)
    parsed = parse(document, kind)
    return Checked(path, parsed.found, tuple(in_order(parsed.faults)), document, parsed.stand_ins)


def read_all(path: Path) -> list[Checked]:
    """The file, or those in a folder; a folder without any is a fault."""
    if not path.is_dir():
        return [read(path)]
    try:
        return [read(file) for file in yaml_files(path)]
    except SchemeFileError as error:
        return [Checked(path, faults=error.faults)]
