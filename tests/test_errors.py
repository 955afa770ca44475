"""Messages stay a size that a person reads."""

from __future__ import annotations

import pytest

from schemegen.errors import SchemeFault, SchemeFileError, UnknownNameError, shortened


@pytest.mark.parametrize(("length", "cut"), [(80, False), (81, True), (5_000_000, True)])
def test_a_long_name_is_cut(length: int, cut: bool) -> None:
    name = "x" * length
    error = UnknownNameError("scheme", name, ["kimi"])
    assert str(error) == f"unknown scheme 'x{'x' * 79}'{'…' if cut else ''}: known are kimi"
    assert error.name == name


def test_a_name_stands_in_quotes_with_escapes() -> None:
    assert shortened("a\n\ud800") == r"'a\n\ud800'"


@pytest.mark.parametrize(("count", "lines"), [(1, 1), (20, 20), (21, 21), (5000, 21)])
def test_a_file_with_many_faults_lists_the_first_twenty(count: int, lines: int) -> None:
    faults = [SchemeFault("a.yaml", f"rules.{number}", "is wrong") for number in range(count)]
    error = SchemeFileError(faults)
    shown = str(error).splitlines()
    assert len(error.faults) == count
    assert len(shown) == lines
    assert shown[:20] == [str(fault) for fault in faults[:20]]
    assert count <= 20 or shown[20] == f"and {count - 20} more faults"
