"""The engine table: engine, what became of the MTP block, how experts were stored, what was compared, the result."""

from __future__ import annotations

from dataclasses import dataclass, field

from schemegen.engines.serving import ENGINES
from tests_engines.cases import Case

_HEAD = ("engine", "MTP block", "experts", "compared", "result")


@dataclass(slots=True)
class Table:
    """Rows in the order they were added, a grid of schemes by engine, and notes below them."""

    rows: list[tuple[str, ...]] = field(default_factory=list)
    schemes: dict[str, dict[str, str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, engine: str, case: Case, compared: str, result: str) -> None:
        """A row of what a test has just shown."""
        self.rows.append((engine, case.mtp, case.layout, compared, result))

    def scheme(self, scheme: str, engine: str, result: str) -> None:
        """What an engine made of a scheme; two layouts with the same result stand once."""
        results = self.schemes.setdefault(scheme, {})
        if result not in results.get(engine, ""):
            results[engine] = "; ".join(filter(None, [results.get(engine), result]))

    def note(self, text: str) -> None:
        """A paragraph below the table, once."""
        if text not in self.notes:
            self.notes.append(text)

    def to_markdown(self) -> str:
        """The table, the grid and the notes; nothing where no row is."""
        rows = sorted(self.rows, key=lambda row: row[0])
        engines = tuple(ENGINES.values())
        grid = [(name, *(results.get(engine, "") for engine in engines)) for name, results in self.schemes.items()]
        tables = [_table(_HEAD, rows), _table(("scheme", *engines), sorted(grid))]
        return "\n".join([*filter(None, tables), *(f"{note}\n" for note in self.notes)]) if any(tables) else ""


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows] if rows else []
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
