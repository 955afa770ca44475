"""`check`: what can be told of scheme and policy files without a model, all of it at once."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import BaseModel, ConfigDict

import schemegen
from schemegen.backends.base import Backend, Buffers, Job
from schemegen.catalog import Catalog, load_catalog
from schemegen.checking import check, check_files
from schemegen.data import schemes_folder
from schemegen.errors import PluginError, SchemeFileError, UnknownNameError
from schemegen.planner import Chunk
from schemegen.policy import Policy
from schemegen.registry import Registry
from schemegen.scheme import Format, Scheme

HEAD = "schema_version: 1\nname: mine\nsummary: INT4 on routed experts\n"
FORMATS = "formats:\n  int4: {num_bits: 4, group_size: 32}\n"
POLICY = "policy: experts-only\n"
RULES = "rules:\n  - {part: mtp, use: keep}\n"
INT8 = "weights: {num_bits: 8, strategy: tensor}, input_activations: {num_bits: 8, strategy: token, dynamic: true}"

Told = list[tuple[int | None, str, str]]


def write(folder: Path, text: str, name: str = "mine.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def faults(folder: Path, text: str) -> Told:
    """The faults of a file, as line, field and message."""
    (checked,) = check_files([write(folder, text)])
    return [(fault.line, fault.field, fault.message) for fault in checked.faults]


def test_a_good_file_is_what_it_holds(tmp_path: Path) -> None:
    scheme = schemegen.check(write(tmp_path, HEAD + FORMATS + POLICY))
    assert isinstance(scheme, Scheme)
    assert scheme.name == "mine"
    assert isinstance(check(str(write(tmp_path, HEAD + RULES))), Policy)


def test_every_shipped_file_is_good() -> None:
    checked = check_files([schemes_folder(), schemes_folder() / "policies"])
    assert {one.kind for one in checked} == {"scheme", "policy"}
    assert [str(fault) for one in checked for fault in one.faults] == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (FORMATS + "policy: expert-only\n", (6, "policy", "unknown policy 'expert-only': did you mean experts-only?")),
        (
            FORMATS + "policy:\n  - keep-mtp\n  - kepp-vision\n  - experts-only\n",
            (8, "policy.1", "unknown policy 'kepp-vision': did you mean keep-vision"),
        ),
        (FORMATS + "policy: none.yaml\n", (6, "policy", "none.yaml: cannot be read: no such file")),
        (
            FORMATS + "  int8: {num_bits: 8, strategy: channel}\n" + POLICY,
            (7, "policy", "experts-only[0]: use: default needs a scheme with one format; this one has int4, int8"),
        ),
        (FORMATS.replace("}", ", storage: q4}") + POLICY, (5, "formats.int4", "storage 'q4' is not offered; pack-q")),
        (FORMATS.replace("4,", "9,") + POLICY, (5, "formats.int4", "pack-quantized holds integers of 2 to 8 bits")),
        (
            FORMATS.replace("}", ", observer: percentile}") + POLICY,
            (5, "formats.int4", "no backend takes it: "),
        ),
        (FORMATS + POLICY + "method: gptq\n", (7, "method", "unknown method 'gptq': known are ")),
        (FORMATS + POLICY + "method: {name: gptq, damp: 1}\n", (7, "method.name", "unknown method 'gptq'")),
        (
            FORMATS + POLICY + "method:\n  name: rtn\n  damp: 1\n",
            (9, "method.damp", "this method takes no options; take it out"),
        ),
        (FORMATS + POLICY + "calibration: {dataset: d}\n", (7, "calibration", "no backend looks at data; leave")),
        (FORMATS + POLICY + "kv_cache: {num_bits: 8}\n", (7, "kv_cache", "no backend makes scales for the KV cache")),
        (
            FORMATS + "policy: [{role: [router, norm], use: int4}]\n",
            (6, "policy.0.role", "engines build router and norm unquantized; use keep, or take the rule out"),
        ),
        (FORMATS + "policy: []\n", (6, "policy", "no rule uses a format, so that nothing would be quantized")),
        (FORMATS + "policy: keep-mtp\n", (6, "policy", "no rule uses a format, so that nothing would be quantized")),
        (
            FORMATS + "policy: [experts-only, {role: routed_expert, layers: '3', use: int4}]\n",
            (6, "policy.1", "mine[1] never decides: experts-only[0] takes all that it selects"),
        ),
        (
            f"formats:\n  int8: {{{INT8}}}\n" + POLICY,
            (5, "formats.int8", "no engine takes it for routed experts: vLLM 0.32 runs no int-quantized experts by"),
        ),
        (
            "rules: [{role: fusion, part: mtp, use: int4}]\n",
            (4, "rules.0.role", "engines build fusion unquantized; use keep, or take the rule out"),
        ),
    ],
)
def test_what_no_model_would_mend_is_a_fault(tmp_path: Path, text: str, fault: tuple[int, str, str]) -> None:
    line, field, message = fault
    ((found_line, found_field, found),) = faults(tmp_path, HEAD + text)
    assert (found_line, found_field) == (line, field)
    assert message in found


@pytest.mark.parametrize(
    "text",
    [
        # A model without routed experts has no router either.
        FORMATS + "policy: [{role: [router, attention], use: int4}]\n",
        FORMATS + "policy: [{role: router, use: keep}, {role: '*', use: int4}]\n",
        # Linear layers in such a format are served.
        f"formats:\n  int8: {{{INT8}}}\npolicy: all-linear\n",
    ],
)
def test_what_depends_on_the_model_is_none(tmp_path: Path, text: str) -> None:
    assert faults(tmp_path, HEAD + text) == []


MANY = """\
name: Mine
summary: too many
formats:
  int4: {num_bits: 4, group_size: 0}
  int9: {num_bits: 9, strategy: channel}
  int8: {num_bits: 8, strategy: channel}
policy:
  - keep-mpt
  - {rol: attention, use: int8}
  - {role: mlp, use: int5}
  - {role: router, use: int8}
  - {role: routed_expert, use: int4}
  - {role: routed_expert, use: int8}
kv_cache: {num_bits: 8}
"""


def test_no_fault_hides_another(tmp_path: Path) -> None:
    """pydantic looks at a whole only when its fields are right, and the rest is looked at only when the whole is."""
    assert [(line, field) for line, field, _ in faults(tmp_path, MANY)] == [
        (None, "schema_version"),
        (1, "name"),
        (4, "formats.int4.group_size"),
        (5, "formats.int9"),
        (8, "policy.0"),
        (9, "policy.1.rol"),
        (10, "policy.2.use"),
        (11, "policy.3.role"),
        (13, "policy.5"),
        (14, "kv_cache"),
    ]


@pytest.mark.parametrize("formats", ["formats: {}\n", "formats: 3\n", ""])
def test_a_file_without_formats_is_looked_at_all_the_same(tmp_path: Path, formats: str) -> None:
    text = "policy:\n- nosuch\n- experts-only\n- {role: router, use: int4}\nmethod: {name: gptq}\n"
    found = [(field, told) for _, field, told in faults(tmp_path, HEAD + formats + text)]
    assert [field for field, _ in found] == ["formats", "policy.0", "policy.2.role", "method.name"]
    assert "unknown policy 'nosuch'" in found[1][1]
    assert "unknown method 'gptq'" in found[3][1]


def test_what_a_policy_uses_is_no_fault_without_formats(tmp_path: Path) -> None:
    policy = HEAD.replace("mine", "house") + "rules: [{role: mlp, use: int8}, {role: norm, use: int8}]\n"
    write(tmp_path, policy, "house.yaml")
    found = faults(tmp_path, HEAD + "formats: {}\npolicy: house.yaml\n")
    assert [field for _, field, _ in found] == ["formats", "policy"]
    assert found[1][2].startswith("house.yaml[1]: engines build norm unquantized")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("- a\n", "expected a mapping of fields and found a list"),
        ("\0", "not plain YAML"),
        ("name: [\n", "expected the node content"),
        ("hello: world\n", "unknown field"),
    ],
)
def test_what_is_no_scheme_at_all_is_told_too(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SchemeFileError, match=message):
        check(write(tmp_path, text))


def test_a_folder_stands_for_its_files(tmp_path: Path) -> None:
    good = write(tmp_path, HEAD + FORMATS + POLICY, "a.yaml")
    bad = write(tmp_path, "- a\n", "b.yml")
    write(tmp_path, "no YAML", "notes.txt")
    (tmp_path / "below").mkdir()
    write(tmp_path / "below", "- a\n")
    assert [(one.path, len(one.faults)) for one in check_files([tmp_path, good])] == [(good, 0), (bad, 1)]
    (empty,) = check_files([tmp_path / "none"])
    assert "cannot be read: no such file" in str(empty.faults[0])
    (tmp_path / "none").mkdir()
    (empty,) = check_files([tmp_path / "none"])
    assert str(empty.faults[0]) == f"{tmp_path / 'none'}: holds no YAML file; folders inside it are not searched"
    with pytest.raises(SchemeFileError, match="it is a folder, and a YAML file is wanted"):
        check(tmp_path)


def test_policies_among_the_files_are_known_by_name(tmp_path: Path) -> None:
    scheme = write(tmp_path, HEAD + FORMATS + "policy: [keep-heads, experts-only]\n")
    policy = write(tmp_path, HEAD.replace("mine", "keep-heads") + RULES, "keep-heads.yaml")
    assert [one.faults for one in check_files([scheme, policy])] == [(), ()]
    with pytest.raises(SchemeFileError, match="unknown policy 'keep-heads'"):
        check(scheme)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (HEAD.replace("mine", "house") + "rules: [{role: routed_expertt, use: default}]\n", "a.yaml"),
        (HEAD.replace("mine", "house") + "rules: 3\n", "a.yaml"),
        ("rules: [\n", "house.yaml"),
    ],
)
def test_a_policy_with_faults_is_no_fault_of_the_scheme_that_names_it(tmp_path: Path, text: str, name: str) -> None:
    scheme = write(tmp_path, HEAD + FORMATS + "policy: house\n")
    first, second = check_files([scheme, write(tmp_path, text, name)])
    assert (first.faults, len(second.faults)) == ((), 1)


def test_policies_that_labels_do_not_tell_apart(tmp_path: Path) -> None:
    own = "policy: [{role: attention, use: int4}, keep-mtp]\n"
    ((line, field, told),) = faults(tmp_path, HEAD.replace("mine", "keep-mtp") + FORMATS + own)
    assert (line, field) == (6, "policy")
    assert "called keep-mtp" in told


def test_rules_of_a_named_policy_are_looked_at_too(tmp_path: Path) -> None:
    policy = HEAD.replace("mine", "house") + "rules: [{role: norm, use: int4}, {role: mlp, use: int4}]\n"
    write(tmp_path, policy, "house.yaml")
    ((line, field, told),) = faults(tmp_path, HEAD + FORMATS + "policy: house.yaml\n")
    assert (line, field) == (6, "policy")
    assert told == "house.yaml[0]: engines build norm unquantized; use keep, or take the rule out"


def test_the_faults_of_a_named_file_are_one_line(tmp_path: Path) -> None:
    write(tmp_path, "rules: [{role: nobody, use: keep}]\n", "house.yaml")
    ((_, _, told),) = faults(tmp_path, HEAD + FORMATS + "policy: house.yaml\n")
    assert told == f"{tmp_path / 'house.yaml'}: schema_version: field required, and 3 more; schemegen check tells all"
    ((_, _, told),) = faults(tmp_path, HEAD + FORMATS + "policy: mine.yaml\n")
    assert told == f"{tmp_path / 'mine.yaml'}: is a scheme, and a policy is wanted"


def test_what_only_a_package_lacks_is_a_remark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = "is not installed: pip install torch"
    monkeypatch.setattr("schemegen.backends.native_rtn.torch_fault", lambda: told)
    known = load_catalog()
    backends: Registry[Backend] = Registry("backend", Backend)  # type: ignore[type-abstract]
    backends.add(known.backends.get("native-rtn"), origin="schemegen")
    catalog = Catalog(known.schemes, known.policies, known.architectures, backends, known.plugins, ())
    monkeypatch.setattr("schemegen.checking.load_catalog", lambda: catalog)
    path = write(tmp_path, HEAD + FORMATS.replace("num_bits: 4", "num_bits: 3") + POLICY)
    (checked,) = check_files([path])
    assert checked.faults == ()
    (remark,) = checked.remarks
    assert (remark.line, remark.field) == (5, "formats.int4")
    assert remark.message.endswith(told)
    assert isinstance(check(path), Scheme)


def test_a_policy_file_that_a_scheme_names_lies_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "house").mkdir()
    monkeypatch.chdir(tmp_path)
    rule = "rules:\n  - {role: attention, part: text, use: default}\n"
    write(tmp_path / "house", f"schema_version: 1\nname: ours\nsummary: s\n{rule}", "ours.yaml")
    path = write(tmp_path / "house", f"{HEAD}{FORMATS}policy: ours.yaml\n")
    assert isinstance(check(path), Scheme)
    assert [checked.faults for checked in check_files([path])] == [()]
    assert {tensor.role for tensor in schemegen.plan(path, "sample:qwen3.6-moe").tensors if tensor.format} == {
        "attention"
    }


def test_one_name_for_two_files_is_a_fault_of_the_later(tmp_path: Path) -> None:
    first = write(tmp_path, HEAD + FORMATS + POLICY, "a.yaml")
    second = write(tmp_path, HEAD + FORMATS + POLICY, "b.yaml")
    policy = write(tmp_path, HEAD + RULES, "c.yaml")
    told = [[str(fault) for fault in one.faults] for one in check_files([first, second, policy])]
    assert told == [[], [f"{second}:2: name: scheme 'mine' is in {first} too; rename one"], []]


def test_failed_plugins_are_mentioned_where_a_name_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = load_catalog()
    failed = (PluginError("bad", "bad-dist", "0.1", "cannot be imported"),)
    catalog = Catalog(known.schemes, known.policies, known.architectures, known.backends, known.plugins, failed)
    monkeypatch.setattr("schemegen.checking.load_catalog", lambda: catalog)
    ((_, _, message),) = faults(tmp_path, HEAD + FORMATS + "policy: acme-experts\n")
    assert "plugin 'bad' of bad-dist 0.1: cannot be imported (it may have registered the name)" in message


class Damping(BaseModel):
    """What the careful backend is told."""

    model_config = ConfigDict(extra="forbid")

    damp: float = 0.1


class Careful(Backend):
    """A backend with options, for INT4 alone."""

    name: ClassVar[str] = "careful"
    method: ClassVar[str] = "careful"
    options: ClassVar[type[BaseModel] | None] = Damping

    def refuses(self, format: Format) -> str | None:
        return None if format.weights.num_bits == 4 else "takes INT4 only"

    def quantize_chunk(self, job: Job, chunk: Chunk, out: Buffers) -> None:
        raise NotImplementedError


class Broken(Careful):
    """One whose answers are errors."""

    name: ClassVar[str] = "broken"

    def refuses(self, format: Format) -> str | None:
        raise OSError("no disk")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("method: careful", []),
        ("method: {name: careful, damp: 0.2}", []),
        ("method: {name: careful, dampp: 0.2}", [(7, "method.dampp", "unknown option; did you mean damp?")]),
        ("method: {name: careful, damp: x}", [(7, "method.damp", "input should be a valid number, unable to parse")]),
    ],
)
def test_a_methods_own_backends_are_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, told: Told
) -> None:
    known = load_catalog()
    backends: Registry[Backend] = Registry("backend", Backend)  # type: ignore[type-abstract]
    backends.add_all([Broken(), Careful()], origin="acme 1.0")
    catalog = Catalog(known.schemes, known.policies, known.architectures, backends, known.plugins, ())
    monkeypatch.setattr("schemegen.checking.load_catalog", lambda: catalog)
    found = faults(tmp_path, f"{HEAD}{FORMATS}{POLICY}{line}\n")
    assert [(line, field) for line, field, _ in found] == [(line, field) for line, field, _ in told]
    assert all(message.startswith(start) for (_, _, message), (_, _, start) in zip(found, told, strict=True))
    refused = faults(tmp_path, f"{HEAD}{FORMATS.replace('4,', '8,')}{POLICY}{line}\n")
    (reasons,) = [message for _, field, message in refused if field == "formats.int4"]
    assert reasons.startswith("no backend takes it: ")
    assert "careful takes INT4 only" in reasons
    assert "'backend broken' of acme 1.0: refuses raised OSError: no disk" in reasons


def test_no_backend_is_asked_for_stand_ins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = load_catalog()
    backends: Registry[Backend] = Registry("backend", Backend)  # type: ignore[type-abstract]
    backends.add_all([Careful()], origin="acme 1.0")
    catalog = Catalog(known.schemes, known.policies, known.architectures, backends, known.plugins, ())
    monkeypatch.setattr("schemegen.checking.load_catalog", lambda: catalog)
    for formats, field in (("{}", "formats"), ("{int4: 3}", "formats.int4"), ("{A: {num_bits: 4}}", "formats.A")):
        found = faults(tmp_path, f"{HEAD}formats: {formats}\npolicy: [{{role: mlp, use: keep}}]\nmethod: careful\n")
        assert [told for _, told, _ in found] == [field]


def test_a_name_that_lacks_its_suffix_is_told_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, HEAD + RULES, "zzzzzz.yaml")
    path = write(tmp_path, HEAD + FORMATS + "policy: zzzzzz\n")
    with pytest.raises(SchemeFileError, match=r"there is a file zzzzzz\.yaml: give it with its suffix"):
        check(path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnknownNameError, match=r"there is a file zzzzzz\.yaml: give it with its suffix"):
        load_catalog().scheme("zzzzzz")
    with pytest.raises(UnknownNameError, match="schemegen list schemes shows the"):
        load_catalog().scheme("q" * 5000)
