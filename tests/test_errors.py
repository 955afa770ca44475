"""Messages stay a size that a person reads."""

from __future__ import annotations

import pytest

from schemegen.errors import (
    DuplicateNameError,
    PluginError,
    SchemeFault,
    SchemeFileError,
    UnknownNameError,
    plain,
    raised,
    shortened,
)


@pytest.mark.parametrize(("length", "cut"), [(80, False), (81, True), (5_000_000, True)])
def test_a_long_name_is_cut(length: int, cut: bool) -> None:
    name = "x" * length
    error = UnknownNameError("scheme", name, ["kimi"])
    assert str(error) == f"unknown scheme 'x{'x' * 79}'{'…' if cut else ''}: known are kimi"
    assert error.name == name


@pytest.mark.parametrize(
    ("kind", "count", "told"),
    [
        ("scheme", 8, "known are n00, n01, n02, n03, n04, n05, n06, n07"),
        ("scheme", 9, "schemegen list schemes shows the 9 known"),
        ("policy", 20, "schemegen list policies shows the 20 known"),
        ("model_type", 10, "known are n00, n01, n02, n03, n04, n05, n06, n07 and 2 more"),
        ("scheme", 0, "none is registered"),
    ],
)
def test_many_names_are_no_wall(kind: str, count: int, told: str) -> None:
    assert (
        str(UnknownNameError(kind, "x", [f"n{number:02}" for number in range(count)])) == f"unknown {kind} 'x': {told}"
    )


def test_one_origin_that_registers_twice_is_named_once() -> None:
    assert str(DuplicateNameError("scheme", "a", "x 1", "x 1")) == "scheme 'a' is registered twice by x 1; take one out"


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


def test_a_fault_stands_at_its_line() -> None:
    assert str(SchemeFault("a.yaml", "rules.0", "is wrong", 3)) == "a.yaml:3: rules.0: is wrong"
    assert str(SchemeFault("a.yaml", "", "is wrong", 3)) == "a.yaml:3: is wrong"
    assert str(SchemeFault("a.yaml", "", "is wrong")) == "a.yaml: is wrong"


def test_strangers_texts_are_one_plain_line() -> None:
    assert plain("a\n  b\x1b[31m\x00c é") == r"a b\x1b[31m\x00c é"
    assert plain("x" * 1000) == "x" * 300 + "…"
    assert raised(ValueError("a\nb")) == "ValueError: a b"
    assert raised(ValueError()) == "ValueError"
    error = PluginError("bad\x1b", "bad\ndist", "1\x1b", "fails")
    assert str(error) == r"plugin 'bad\x1b' of bad dist 1\x1b: fails"
