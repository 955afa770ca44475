"""Documents: where the values of a YAML file stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from schemegen.documents import Place, is_file_name, read_document

TEXT = """\
# a remark
name: mine
formats:
  a.b: {num_bits: 4,
        group_size: 32}
policy:
- keep-mtp
-
  role: mlp
  use: a.b
summary: |
  two
  lines
"""


@pytest.mark.parametrize(
    ("place", "field", "line"),
    [
        (("name",), "name", 2),
        (("formats", "a.b"), "formats.a.b", 4),
        (("formats", "a.b", "num_bits"), "formats.a.b.num_bits", 4),
        (("formats", "a.b", "weights", "group_size"), "formats.a.b.group_size", 5),
        (("formats", "a.b", "weights"), "formats.a.b", 4),
        (("policy", 0, "name"), "policy.0", 7),
        (("policy", 1, "rule", "use"), "policy.1.use", 10),
        (("policy", "1"), "policy.1", 9),
        (("policy", 2), "policy", 6),
        (("policy", "²"), "policy", 6),
        (("summary",), "summary", 11),
        (("name", "deeper"), "name", 2),
        ((), "", None),
    ],
)
def test_a_fault_stands_where_its_value_does(tmp_path: Path, place: Place, field: str, line: int | None) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(TEXT, encoding="utf-8")
    fault = read_document(path).fault(place, "is wrong")
    assert (fault.file, fault.field, fault.line, fault.message) == (str(path), field, line, "is wrong")


def test_what_is_missing_is_told_by_its_name_and_the_line_of_what_lacks_it(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(TEXT, encoding="utf-8")
    document = read_document(path)
    assert str(document.fault(("policy", 1, "rule", "part"), "x", is_missing=True)) == f"{path}:9: policy.1.part: x"
    assert str(document.fault(("rules",), "x", is_missing=True)) == f"{path}: rules: x"


@pytest.mark.parametrize(
    ("given", "is_file"), [("a.yaml", True), ("a.yml", True), (Path("a"), True), ("a", False), ("a.yaml2", False)]
)
def test_files_are_told_from_names(given: str | Path, is_file: bool) -> None:
    assert is_file_name(given) is is_file
