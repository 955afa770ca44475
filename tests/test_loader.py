"""Scheme and policy files: strict YAML, every fault named with file and field."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from schemegen import builtin
from schemegen.catalog import load_catalog
from schemegen.data import schemes_folder
from schemegen.errors import SchemeFileError
from schemegen.loader import kind_of, load_file, load_policies, load_policy, load_scheme, load_schemes, load_shipped
from schemegen.policy import Policy
from schemegen.registry import NAME_RULE
from schemegen.scheme import Scheme

GOOD = """\
schema_version: 1
name: mine
summary: INT4 on routed experts
formats:
  int4: {num_bits: 4, group_size: 32}
policy: experts-only
"""


def write(folder: Path, text: str | bytes, name: str = "mine.yaml") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_scheme_file_is_read(tmp_path: Path) -> None:
    assert load_scheme(write(tmp_path, GOOD)).formats["int4"].weights.strategy == "group"


def test_every_shipped_file_loads() -> None:
    assert {scheme.name for scheme in load_schemes(schemes_folder())} >= {"kimi-k2-int4"}
    assert {policy.name for policy in load_policies(schemes_folder() / "policies")} >= {"experts-only", "keep-mtp"}


def test_they_hold_the_same_whoever_parses_them() -> None:
    """libyaml takes what the strict reader refuses, so that the shipped files are read both ways here."""
    folder = schemes_folder()
    assert load_shipped(folder) == (load_schemes(folder), load_policies(folder / "policies"))


def test_what_ships_is_read_once_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = load_catalog()
    monkeypatch.setattr("schemegen.builtin.load_shipped", None)
    again = load_catalog()
    assert list(again.schemes) == list(catalog.schemes)
    shipped = [name for name in catalog.schemes.names() if catalog.schemes.origin(name) == "schemegen"]
    assert all(again.scheme(name) is catalog.scheme(name) for name in shipped)
    assert shipped
    builtin.schemegen_register_schemes().clear()
    assert load_catalog().schemes.names() == catalog.schemes.names()


def test_shipped_files_are_named_after_what_they_hold() -> None:
    for path in schemes_folder().glob("*.yaml"):
        assert load_scheme(path).name == path.stem
    for path in (schemes_folder() / "policies").glob("*.yaml"):
        assert load_policy(path).name == path.stem


def test_all_faults_of_a_file_stand_in_one_error_as_file_field_message(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD.replace("num_bits: 4", "num_bits: four").replace("summary", "sumary"))
    with pytest.raises(SchemeFileError) as caught:
        load_scheme(path)
    fields = {fault.field for fault in caught.value.faults}
    assert fields == {"sumary", "summary", "formats.int4.num_bits"}
    assert str(caught.value).splitlines() == [
        f"{path}: summary: field required",
        f"{path}:3: sumary: unknown field; did you mean summary?",
        f"{path}:5: formats.int4.num_bits: must be a whole number",
    ]


@pytest.mark.parametrize(
    ("line", "field", "message"),
    [
        ("served_bye: {vllm: Marlin}", "served_bye", "unknown field; did you mean served_by?"),
        ("calibration: {dataset: d, num_sample: 3}", "calibration.num_sample", "unknown field; did you mean"),
        ("method: {dampening: 0.1}", "method.name", "field required"),
        ("kv_cache: {num_bits: 8, scale_dtype: e8m0}", "kv_cache.scale_dtype", "must be 'float8_e4m3fn', "),
        ("method: 3", "method", "must be a mapping of fields"),
        ("served_by: [vllm]", "served_by", "must be a mapping"),
        ("kv_cache: {num_bits: 8, dynamic: 3}", "kv_cache.dynamic", "must be true or false or 'local'"),
        ("kv_cache: {num_bits: 8, block_structure: 3}", "kv_cache.block_structure", "must be a list"),
        ("kv_cache: {num_bits: 8, strategy: group}", "kv_cache", "strategy 'group' needs group_size"),
        ("kv_cache: {num_bits: 8, use: 3}", "kv_cache.use", "unknown field; known are num_bits, type, strategy"),
    ],
)
def test_fields_beside_formats_and_policy_are_strict_too(tmp_path: Path, line: str, field: str, message: str) -> None:
    with pytest.raises(SchemeFileError) as caught:
        load_scheme(write(tmp_path, f"{GOOD}{line}\n"))
    (fault,) = caught.value.faults
    assert fault.field == field
    assert fault.message.startswith(message)


def test_faults_of_rules_are_told_in_a_persons_words(tmp_path: Path) -> None:
    rules = """\
policy:
  - {role: routed_exprt, use: default}
  - {layers: 2, use: keep}
  - keep mtp
  - {rol: mlp, use: keep}
"""
    with pytest.raises(SchemeFileError) as caught:
        load_scheme(write(tmp_path, GOOD.replace("policy: experts-only\n", rules)))
    assert [(fault.line, fault.field, fault.message) for fault in caught.value.faults] == [
        (7, "policy.0.role", "'routed_exprt' is no role; did you mean routed_expert?"),
        (8, "policy.1.layers", '2 names no layers; write text such as "3" or "0-2,-1"'),
        (9, "policy.2", f"'keep mtp' cannot be a name; {NAME_RULE}"),
        (10, "policy.3.rol", "unknown field; did you mean role?"),
    ]


@pytest.mark.parametrize(
    ("format", "field", "message"),
    [
        ("{num_bits: 4, group_size: 0}", "group_size", "must be greater than or equal to 1"),
        ("{weights: {num_bits: 4, group_size: 0}}", "weights.group_size", "must be greater than or equal to 1"),
        ("{num_bits: 4, strategy: group}", "", "strategy 'group' needs group_size"),
        ("{weights: {num_bits: 4, strategy: group}}", "weights", "strategy 'group' needs group_size"),
        ("{storage: pack-quantized}", "weights", "field required"),
        ("{num_bits: 4, weights: {num_bits: 4}}", "", "give either weights or, in short, the fields of weights"),
        ("int4", "", "must be a mapping of fields"),
        ("{num_bits: 4, sort: int}", "sort", "unknown field; known are weights, input_activations, "),
    ],
)
def test_a_field_is_the_one_that_stands_in_the_file(tmp_path: Path, format: str, field: str, message: str) -> None:
    """The short form has no `weights`, although the model has."""
    with pytest.raises(SchemeFileError) as caught:
        load_scheme(write(tmp_path, GOOD.replace("{num_bits: 4, group_size: 32}", format)))
    (fault,) = caught.value.faults
    assert (fault.line, fault.field) == (5, f"formats.int4.{field}".rstrip("."))
    assert fault.message.startswith(message)


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"formats": 1}, Scheme),
        ({"rules": 1}, Policy),
        ({"formats": 1, "rules": 1}, Scheme),
        ({"formats": 1, "rules": 1, "policy": 1}, Scheme),
        ({"name": 1, "format": 1, "policy": 1}, Scheme),
        ({"name": 1, "summary": 1, "rule": 1}, Policy),
        ({"name": 1}, Scheme),
    ],
)
def test_a_file_is_of_the_kind_that_it_is_nearer_to(fields: dict[str, int], kind: type[Scheme | Policy]) -> None:
    assert kind_of(fields) is kind


def test_a_file_is_read_as_what_it_holds(tmp_path: Path) -> None:
    assert isinstance(load_file(write(tmp_path, GOOD)), Scheme)
    assert isinstance(load_file(write(tmp_path, f"{HEAD}rules: [{{use: keep}}]\n")), Policy)
    with pytest.raises(SchemeFileError, match="'nobody' is no role"):
        load_file(write(tmp_path, f"{HEAD}rules: [{{role: nobody, use: keep}}]\n"))


def test_a_file_of_the_other_kind_is_one_fault(tmp_path: Path) -> None:
    with pytest.raises(SchemeFileError, match=r"mine\.yaml: is a scheme, and a policy is wanted$"):
        load_policy(write(tmp_path, GOOD))
    with pytest.raises(SchemeFileError, match=r"mine\.yaml: is a policy, and a scheme is wanted$"):
        load_scheme(write(tmp_path, f"{HEAD}rules: [{{use: keep}}]\n"))


HEAD = "schema_version: 1\nname: mine\nsummary: s\n"
INT4 = "formats: {int4: {num_bits: 4, group_size: 32}}\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("rules: [{role: routed_expertt, use: default}]\n", [("rules.0.role", "'routed_expertt' is no role")]),
        ("rules: []\n", [("rules", "is empty; give at least one")]),
        ("formats: {}\npolicy: x\n", [("formats", "is empty; give at least one")]),
        (
            "formats: {}\npolicy: [{use: int4, part: txt}, {use: int8}, {use: default}, {use: B B}]\n",
            [("formats", "is empty"), ("policy.0.part", "'txt' is no part")],
        ),
        ("formats: 3\npolicy: [{role: mlp, use: int4}]\n", [("formats", "must be a mapping")]),
        ("formats: {A: {num_bits: 4}}\npolicy: x\n", [("formats.A", "'A' cannot be a name")]),
        ("formats: {A: {num_bits: 4}}\npolicy: [{use: A}]\n", [("formats.A", "'A' cannot be a name")]),
        (
            INT4 + "policy: [{use: zz, part: txt}, {use: zy, layers: 3}]\n",
            [
                ("policy.0.part", "'txt' is no part"),
                ("policy.1.layers", "3 names no layers"),
                ("policy.0.use", "zz names no format"),
                ("policy.1.use", "zy names no format"),
            ],
        ),
        # Rules that read like stand-ins, after one that has a stand-in.
        (
            "rules: [{role: nobody, use: keep}, {use: keep, name: 're:(?!)0'}]\n",
            [("rules.0.role", "'nobody' is no role")],
        ),
        (INT4 + "policy: [keep it, faulty, {role: mlp, use: int4}]\n", [("policy.0", "'keep it' cannot be a name")]),
        ("rules: [{role: mlp, use: keep}, {role: nobody, use: q}]\n", [("rules.1.role", "'nobody' is no role")]),
    ],
)
def test_no_fault_is_made_of_another(tmp_path: Path, text: str, told: list[tuple[str, str]]) -> None:
    with pytest.raises(SchemeFileError) as caught:
        load_file(write(tmp_path, HEAD + text))
    found = [(fault.field, fault.message) for fault in caught.value.faults]
    assert [field for field, _ in found] == [field for field, _ in told]
    assert all(message.startswith(start) for (_, message), (_, start) in zip(found, told, strict=True))


BACKWARDS = "layers 3-1 run backwards and name none"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (INT4 + "policy: [{rol: mlp, use: int4, layers: '0,3-1'}]\n", ["policy.0.rol", "policy.0"]),
        (INT4 + "policy: [{role: mlp, use: int5, layers: '3-1'}]\n", ["policy.0.use", "policy.0"]),
        ("formats: {}\npolicy: [{rol: mlp, use: int4, layers: '3-1'}]\n", ["formats", "policy.0.rol", "policy.0"]),
        ("rules: [{role: nobody, use: keep, layers: '3-1'}]\n", ["rules.0.role", "rules.0"]),
    ],
)
def test_layers_that_run_backwards_are_told_beside_other_faults(tmp_path: Path, text: str, told: list[str]) -> None:
    with pytest.raises(SchemeFileError) as caught:
        load_file(write(tmp_path, HEAD + text))
    assert [fault.field for fault in caught.value.faults] == told
    assert caught.value.faults[-1].message.startswith(BACKWARDS)


@pytest.mark.parametrize("layers", ["1-3", "3--1", "x", "[3]"])
def test_layers_that_do_not_run_backwards_are_no_such_fault(tmp_path: Path, layers: str) -> None:
    with pytest.raises(SchemeFileError) as caught:
        load_file(write(tmp_path, f"{HEAD}rules: [{{role: nobody, use: keep, layers: {layers}}}]\n"))
    assert not any("backwards" in fault.message for fault in caught.value.faults)


def test_of_very_many_faults_the_first_are_told_in_time(tmp_path: Path) -> None:
    """Each fault looks for its line and for near names: 20,000 keys took half a minute."""
    path = write(tmp_path, GOOD + "".join(f"x{number}: 1\n" for number in range(20_000)))
    with pytest.raises(SchemeFileError) as caught:
        load_scheme(path)
    assert len(caught.value.faults) == 101
    assert str(caught.value.faults[-1]) == f"{path}:107: here and below are 19900 more faults"


def test_a_folder_without_yaml_is_told(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    write(tmp_path / "below", GOOD)
    for load in (load_schemes, load_policies):
        with pytest.raises(SchemeFileError, match="holds no YAML file; folders inside it are not searched"):
            load(tmp_path)
        with pytest.raises(SchemeFileError, match="none: cannot be read: no such folder"):
            load(tmp_path / "none")
        with pytest.raises(SchemeFileError, match="it is a file, and a folder is wanted"):
            load(tmp_path / "below" / "mine.yaml")
    write(tmp_path, GOOD, "a.yml")
    assert [scheme.name for scheme in load_schemes(tmp_path)] == ["mine"]


def test_the_faults_of_a_folder_stand_in_one_error(tmp_path: Path) -> None:
    write(tmp_path, GOOD.replace("name: mine", "name: Mine"), "a.yaml")
    write(tmp_path, "[]", "b.yaml")
    with pytest.raises(SchemeFileError) as caught:
        load_schemes(tmp_path)
    assert {Path(fault.file).name for fault in caught.value.faults} == {"a.yaml", "b.yaml"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: &x [1]\nb: *x\n", "aliases are not taken"),
        ("a: 1\na: 2\n", "key 'a' stands twice"),
        ("x: !!python/object/apply:os.system [ls]\n", "not determine a constructor|could not"),
        ("a: [", r"mine\.yaml:1: .* \(column 5\)"),
        ("a: 1\nb: {c: 1}}\n", r"mine\.yaml:2: "),
        ("1: a\n", "is not text"),
        ("- a\n", "expected a mapping of fields and found a list"),
        ("", "is empty; expected a mapping"),
        ("# a remark\n", "is empty; expected a mapping"),
        ("int4", "expected a mapping of fields and found one value"),
        ("a: 1\nb: .nan\n", r"mine\.yaml:2: \.nan is no number \(column 4\)"),
        ("a: -.inf\n", r"mine\.yaml:1: -\.inf is no number"),
        ("a: 1\nb: 2026-01-01\n", r"mine\.yaml:2: a date is not taken; put text in quotes \(column 4\)"),
        ("a: 2026-13-41\n", "a date is not taken"),
        ("a: !!set {x}\n", r"mine\.yaml:1: a set is not taken"),
        ("a: !!binary eA==\n", "binary data is not taken"),
        ("a: !!omap [{x: 1}]\n", "an ordered mapping is not taken"),
        ("a: !!pairs [{x: 1}]\n", "a list of pairs is not taken"),
        ("a: " + "1" * 5000 + "\n", r"mine\.yaml:1: this is no number that can be read"),
        ("a: 1\nb: [\n", r"mine\.yaml:2: .* \(column 5\)"),
        ("a: 1\nb: [\n\n\n", r"mine\.yaml:2: "),
        ("a: 1\nb: 'x\nc: y\n", r"mine\.yaml:2: while scanning a quoted scalar, found unexpected end of stream"),
        ("a: 1\n---\nb: 2\n", r"mine\.yaml:2: expected a single document in the stream, but found another document"),
        (b"\x89PNG\r\n\x1a\n\x00", "not plain YAML: .*invalid start byte"),
        (b"a: \x00", "not plain YAML: unacceptable character #x0000"),
        (b"\xff\xfe\x00", "not plain YAML|special characters"),
        (b"a: " + b"x" * (1 << 20), "larger than"),
        ("[" * 100_000, "not plain YAML"),
        ('a: ["\\ud800"]\n', "an escape spells half a character"),
        ('"\\udfff": a\n', "an escape spells half a character"),
    ],
)
def test_hostile_yaml_gets_one_sentence(tmp_path: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(SchemeFileError, match=message):
        load_scheme(write(tmp_path, text))


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_has_no_end_is_not_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "mine.yaml"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(SchemeFileError, match=r"mine\.yaml: cannot be read: it is not a regular file"):
        load_scheme(path)
    with pytest.raises(SchemeFileError, match="not a regular file"):
        load_schemes(tmp_path)


def test_a_huge_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, GOOD)
    os.truncate(path, 1 << 40)
    monkeypatch.setattr(Path, "open", None)
    with pytest.raises(SchemeFileError, match="larger than"):
        load_scheme(path)


def test_a_missing_file_and_a_folder_get_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(SchemeFileError, match=r"none\.yaml: cannot be read: no such file"):
        load_policy(tmp_path / "none.yaml")
    with pytest.raises(SchemeFileError, match="cannot be read: it is a folder, and a YAML file is wanted"):
        load_policy(tmp_path)
