"""Plan cases: what holds passes in silence, what does not is told all at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from schemegen import CheckpointError, SchemeFileError, UnknownNameError, VerificationError, load_scheme
from schemegen.data import schemes_folder
from schemegen.testing import cases, check_case

DOWN = "model.language_model.layers.0.mlp.experts.down_proj"
HEAD = "scheme: kimi-k2-int4\narchitecture: qwen3_5_moe\n"
MTP = "mtp.layers.0.mlp.experts.down_proj"
GOOD = HEAD + f"tensors:\n  {DOWN}: [routed_expert, int4]\n  {MTP}: [routed_expert, int4]\n"

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a case file; its path."""

    def run(text: str) -> Path:
        path = tmp_path / "case.yaml"
        path.write_text(text)
        return path

    return run


def findings(path: Path) -> list[str]:
    with pytest.raises(VerificationError) as refused:
        check_case(path)
    assert all(finding.startswith(f"{path}: ") for finding in refused.value.findings)
    return [finding.removeprefix(f"{path}: ") for finding in refused.value.findings]


def test_what_is_as_the_case_says_passes(write: Write) -> None:
    check_case(write(GOOD + "rest: keep\n"))


def test_all_differences_are_told_at_once(write: Write) -> None:
    wrong = f"tensors:\n  lm_head.wieght: [lm_head, keep]\n  {DOWN}: [router, int8]\n"
    text = HEAD.replace("qwen3_5_moe", "qwen4") + wrong
    told = findings(write(text + "  nothing.like.it: [norm, keep]\nrest: keep\n"))
    assert told[:4] == [
        "architecture: is qwen3_5_moe, the case says 'qwen4'",
        "'lm_head.wieght': the model has no such tensor; did you mean lm_head.weight?",
        f"{DOWN}: is [routed_expert, int4], the case says [router, int8]; rule experts-only[0] decided",
        "'nothing.like.it': the model has no such tensor; schemegen plan --json lists all",
    ]
    assert told[4:] == [f"part mtp, role routed_expert: rest: keep is not true of it; add {MTP}: [routed_expert, int4]"]


def test_kinds_that_nobody_speaks_of_are_told_with_a_tensor_to_name(write: Write) -> None:
    told = findings(write(GOOD))
    assert (
        "part text, role router: no tensor is named; add rest: keep, or "
        "model.language_model.layers.0.mlp.gate.weight: [router, keep]"
    ) in told
    assert not any("routed_expert" in line for line in told)


def test_policies_go_in_front(write: Write, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(
        "schema_version: 1\nname: mine\nsummary: mine\nrules:\n  - {role: routed_expert, layers: '0', use: keep}\n"
    )
    kept = GOOD.replace("int4]", "keep]")
    also = "  model.language_model.layers.1.mlp.experts.down_proj: [routed_expert, int4]\n"
    check_case(write(kept + also + "policies: [keep-mtp, mine.yaml]\nrest: keep\n"))


def test_schemes_and_models_may_lie_beside_the_case(write: Write, tmp_path: Path, sample_folder: Path) -> None:
    scheme = (schemes_folder() / "kimi-k2-int4.yaml").read_text()
    (tmp_path / "own.yaml").write_text(scheme.replace("name: kimi-k2-int4", "name: own"))
    (tmp_path / "model").symlink_to(sample_folder)
    text = GOOD.replace("scheme: kimi-k2-int4", "scheme: own.yaml")
    check_case(write(text + "model: ./model\nrest: keep\n"))
    by_name = write(GOOD.replace("scheme: kimi-k2-int4", "scheme: own") + "rest: keep\n")
    check_case(by_name, load_scheme(tmp_path / "own.yaml"))


def test_a_case_is_not_held_against_a_scheme_of_another_name(write: Write) -> None:
    with pytest.raises(VerificationError, match="the case is one of scheme 'kimi-k2-int4', and was given w4a16-g32"):
        check_case(write(GOOD), "w4a16-g32")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (GOOD + "modle: x\n", "modle: unknown field"),
        (GOOD.replace(", int4]", "]"), "tensors"),
        (GOOD + "rest: int4\n", "rest: "),
        (HEAD + "tensors: {}\n", "tensors: "),
        (GOOD + f"  {DOWN}: [routed_expert, keep]\n", "stands twice"),
        ("- 1\n", "expected a mapping"),
    ],
)
def test_a_case_file_is_read_as_strictly_as_a_scheme(write: Write, text: str, told: str) -> None:
    with pytest.raises(SchemeFileError, match=told):
        check_case(write(text))


def test_unknown_names_are_told_as_everywhere(write: Write) -> None:
    with pytest.raises(UnknownNameError, match="did you mean kimi-k2-int4"):
        check_case(write(GOOD.replace("kimi-k2-int4", "kimi-k2-int5")))


def test_cases_are_the_yaml_files_of_a_folder(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yaml", "readme.md"):
        (tmp_path / name).touch()
    assert [path.name for path in cases(tmp_path)] == ["a.yaml", "b.yaml"]
    with pytest.raises(SchemeFileError, match="none: cannot be read: no such folder"):
        cases(tmp_path / "none")


def test_a_model_beside_the_case_is_a_folder_and_no_hub_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("case.yaml").write_text(
        "scheme: w4a16-g32\narchitecture: qwen3_5_moe\nmodel: ./missing\nrest: keep\n"
        "tensors: {lm_head.weight: [lm_head, keep]}\n"
    )
    with pytest.raises(CheckpointError, match=r"/missing"):
        check_case("case.yaml")
