"""The engine table: engine, what became of the MTP block, how experts were stored, what was compared, the result."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests_engines.cases import Case

_HEAD = ("engine", "MTP block", "experts", "compared", "result")


@dataclass(slots=True)
class Table:
    """Rows in the order they were added, and notes below them."""

    rows: list[tuple[str, ...]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, engine: str, case: Case, compared: str, result: str) -> None:
        """A row of what a test has just shown."""
        self.rows.append((engine, case.mtp, case.layout, compared, result))

    def note(self, text: str) -> None:
        """A paragraph below the table, once."""
        if text not in self.notes:
            self.notes.append(text)

    def to_markdown(self) -> str:
        """The table and its notes; nothing where no row is."""
        if not self.rows:
            return ""
        lines = [_HEAD, tuple("---" for _ in _HEAD), *sorted(self.rows, key=lambda row: row[0])]
        table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
        return table + "".join(f"\n{note}\n" for note in self.notes)
