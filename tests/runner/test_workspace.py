"""The partial folder belongs to one run and one process, and becomes the output in one rename."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from schemegen.errors import OutputError
from schemegen.runner.workspace import Workspace, remove_state

RUN = {"scheme": "kimi-k2-int4", "backend": "native-rtn", "source": [{"name": "a", "size": 1}]}


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "out"


def entered(output: Path, run: Mapping[str, object] = RUN, *, restart: bool = False) -> Workspace:
    workspace = Workspace(output)
    workspace.enter(run, restart=restart)
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


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("state", [False, True])
def test_a_folder_that_no_run_made_is_not_touched(output: Path, restart: bool, state: bool) -> None:
    partial = output.with_name("out.partial")
    (partial / ".schemegen" if state else partial).mkdir(parents=True)
    (partial / "thesis.txt").write_text("mine")
    with pytest.raises(OutputError, match="made by no run"):
        entered(output, restart=restart)
    assert (partial / "thesis.txt").read_text() == "mine"


@pytest.mark.parametrize("kind", ["symlink", "hard link", "state link", "fifo"])
@pytest.mark.parametrize("restart", [False, True])
def test_nothing_is_written_through_links(output: Path, tmp_path: Path, kind: str, restart: bool) -> None:
    entered(output).close()
    partial, other = output.with_name("out.partial"), tmp_path / "other"
    other.write_text("theirs")
    if kind == "symlink":
        (partial / "shard").symlink_to(other)
    elif kind == "hard link":
        os.link(other, partial / "shard")
    elif kind == "state link":
        (partial / ".schemegen/journal.jsonl").symlink_to(other)
    else:
        os.mkfifo(partial / "shard")
    with pytest.raises(OutputError, match="no run made it so"):
        entered(output, restart=restart)
    assert other.read_text() == "theirs"


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


def test_a_failed_rename_gives_the_old_output_back(output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output.mkdir()
    (output / "old").write_text("old")
    workspace = entered(output)
    (workspace.folder / "new").write_text("new")
    real = os.rename

    def broken(source: Path, target: Path) -> None:
        if Path(source) == workspace.folder:
            raise OSError(5, "Input/output error")
        real(source, target)

    monkeypatch.setattr(os, "rename", broken)
    with pytest.raises(OutputError, match="Input/output error"):
        workspace.publish(overwrite=True)
    workspace.close()
    assert (output / "old").read_text() == "old"
    assert (output.with_name("out.partial") / "new").read_text() == "new"


def test_an_old_output_that_a_kill_left_moved_returns(output: Path) -> None:
    output.mkdir()
    (output / "old").write_text("old")
    workspace = entered(output)
    output.rename(workspace.state / "replaced")
    workspace.close()
    entered(output).close()
    assert (output / "old").read_text() == "old"


def test_state_is_removed_only_where_a_run_made_it(output: Path) -> None:
    (output / ".schemegen").mkdir(parents=True)
    (output / ".schemegen/mine").write_text("mine")
    remove_state(output)
    assert (output / ".schemegen/mine").exists()
    (output / ".schemegen/run.json").write_text("{}")
    remove_state(output)
    assert list(output.iterdir()) == []
