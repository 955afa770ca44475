"""The partial folder belongs to one run and one process, and becomes the output in one rename."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from schemegen.checkpoint import open_checkpoint
from schemegen.errors import OutputError
from schemegen.runner.workspace import Workspace, check_output_place

RUN = {"scheme": "kimi-k2-int4", "backend": "native-rtn", "source": [{"name": "a", "size": 1}]}


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "out"


def entered(output: Path, run: Mapping[str, object] = RUN, *, restart: bool = False) -> Workspace:
    workspace = Workspace(output)
    assert not workspace.enter(run, restart=restart)
    return workspace


def test_a_new_folder_is_made_and_nothing_stands_at_the_output(output: Path) -> None:
    workspace = entered(output)
    assert workspace.folder == output.with_name("out.partial")
    assert workspace.folder.is_dir()
    assert not output.exists()
    workspace.close()


def test_the_same_run_goes_on(output: Path) -> None:
    workspace = entered(output)
    (workspace.folder / "shard").write_text("half")
    workspace.close()
    again = entered(output)
    assert (again.folder / "shard").read_text() == "half"
    again.close()


def test_a_different_run_is_refused_by_name_and_discarded_on_request(output: Path) -> None:
    workspace = entered(output)
    (workspace.folder / "shard").write_text("half")
    workspace.close()
    other = RUN | {"scheme": "w4a16-g128"}
    with pytest.raises(OutputError, match="scheme: there kimi-k2-int4, now w4a16-g128"):
        entered(output, other)
    assert (output.with_name("out.partial") / "shard").exists()
    fresh = entered(output, other, restart=True)
    assert [path.name for path in fresh.folder.iterdir()] == [".schemegen"]
    fresh.close()


def test_two_processes_do_not_share_a_folder(output: Path) -> None:
    first = entered(output)
    with pytest.raises(OutputError, match="another run is writing"):
        entered(output, restart=True)
    first.close()
    entered(output).close()


def test_files_of_no_known_run_are_not_touched(output: Path) -> None:
    partial = output.with_name("out.partial")
    partial.mkdir()
    (partial / "thesis.txt").write_text("mine")
    with pytest.raises(OutputError, match="no known run"):
        entered(output)
    assert (partial / "thesis.txt").read_text() == "mine"


def test_a_damaged_identity_is_named(output: Path) -> None:
    workspace = entered(output)
    (workspace.state / "run.json").write_text("{")
    workspace.close()
    with pytest.raises(OutputError, match="damaged"):
        entered(output)


def test_publishing_renames_and_leaves_no_state(output: Path) -> None:
    workspace = entered(output)
    (workspace.folder / "shard").write_text("whole")
    workspace.publish(overwrite=False)
    workspace.close()
    assert [path.name for path in output.iterdir()] == ["shard"]
    assert [path.name for path in output.parent.iterdir()] == ["out"]


def test_publishing_never_replaces_unasked(output: Path) -> None:
    workspace = entered(output)
    output.mkdir()
    (output / "theirs").write_text("theirs")
    with pytest.raises(OutputError, match="cannot rename"):
        workspace.publish(overwrite=False)
    workspace.close()
    assert (output / "theirs").read_text() == "theirs"


def test_overwriting_replaces_whole(output: Path) -> None:
    output.mkdir()
    (output / "old").write_text("old")
    workspace = entered(output)
    (workspace.folder / "new").write_text("new")
    workspace.publish(overwrite=True)
    workspace.close()
    assert [path.name for path in output.iterdir()] == ["new"]
    assert [path.name for path in output.parent.iterdir()] == ["out"]


def test_a_sealed_folder_lacks_only_its_name(output: Path) -> None:
    workspace = entered(output)
    (workspace.folder / "schemegen.json").write_text("{}")
    (workspace.state / "run.json").unlink()
    workspace.close()
    again = Workspace(output)
    assert again.enter(RUN, restart=False)
    again.close()


def test_a_sealed_folder_with_its_state_is_checked_as_usual(output: Path) -> None:
    workspace = entered(output)
    (workspace.folder / "schemegen.json").write_text("{}")
    workspace.close()
    entered(output).close()
    assert json.loads((output.with_name("out.partial") / ".schemegen/run.json").read_text()) == RUN


@pytest.mark.parametrize(
    "place", ["model", "model/out", "model/../model", ".", "link", "link/out", "alias"], ids=lambda place: place
)
def test_outputs_that_meet_the_source_are_refused(
    tmp_path: Path, sample_folder: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    model = tmp_path / "model"
    model.mkdir()
    for path in sample_folder.iterdir():
        if path.is_file():
            (model / path.name).write_bytes(path.read_bytes())
    (tmp_path / "link").symlink_to(model)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "alias").symlink_to(tmp_path / "elsewhere")
    checkpoint = open_checkpoint(str(model))
    with pytest.raises(OutputError, match=r"overlaps the source|is a link"):
        check_output_place(Path(place), checkpoint)
    check_output_place(tmp_path / "apart", checkpoint)
