"""The partial folder belongs to one run and one process, and becomes the output in one rename."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from schemegen.errors import OutputError
from schemegen.runner.workspace import Workspace

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
    assert workspace.model.is_dir()
    assert workspace.scratch.is_dir()
    assert not output.exists()
    workspace.close()


def test_the_same_run_goes_on(output: Path) -> None:
    workspace = entered(output)
    (workspace.model / "shard").write_text("half")
    workspace.close()
    again = entered(output)
    assert (again.model / "shard").read_text() == "half"
    again.close()


def test_a_different_run_is_refused_by_name_and_discarded_on_request(output: Path) -> None:
    workspace = entered(output)
    (workspace.model / "shard").write_text("half")
    workspace.close()
    other = RUN | {"scheme": "w4a16-g128"}
    with pytest.raises(OutputError, match="scheme: there kimi-k2-int4, now w4a16-g128"):
        entered(output, other)
    assert (workspace.model / "shard").exists()
    fresh = entered(output, other, restart=True)
    assert [path.name for path in fresh.model.iterdir()] == []
    fresh.close()


def test_two_processes_do_not_share_a_folder(output: Path) -> None:
    first = entered(output)
    with pytest.raises(OutputError, match="another run is writing"):
        entered(output, restart=True)
    first.close()
    entered(output).close()


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("model", [False, True])
def test_a_folder_that_no_run_made_is_not_touched(output: Path, restart: bool, model: bool) -> None:
    partial = output.with_name("out.partial")
    (partial / "model" if model else partial).mkdir(parents=True)
    (partial / "thesis.txt").write_text("mine")
    with pytest.raises(OutputError, match="made by no run"):
        entered(output, restart=restart)
    assert (partial / "thesis.txt").read_text() == "mine"


@pytest.mark.parametrize("kind", ["symlink", "hard link", "journal", "fifo"])
@pytest.mark.parametrize("restart", [False, True])
def test_nothing_is_written_through_links(output: Path, tmp_path: Path, kind: str, restart: bool) -> None:
    entered(output).close()
    partial, other = output.with_name("out.partial"), tmp_path / "other"
    other.write_text("theirs")
    if kind == "symlink":
        (partial / "model/shard").symlink_to(other)
    elif kind == "hard link":
        os.link(other, partial / "model/shard")
    elif kind == "journal":
        (partial / "journal.jsonl").symlink_to(other)
    else:
        os.mkfifo(partial / "model/shard")
    with pytest.raises(OutputError, match="no run made it so"):
        entered(output, restart=restart)
    assert other.read_text() == "theirs"


def test_a_damaged_identity_is_named(output: Path) -> None:
    workspace = entered(output)
    (workspace.folder / "run.json").write_text("{")
    workspace.close()
    with pytest.raises(OutputError, match="damaged"):
        entered(output)


def test_publishing_renames_and_leaves_no_state(output: Path) -> None:
    workspace = entered(output)
    (workspace.model / "shard").write_text("whole")
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
    (workspace.model / "new").write_text("new")
    real = os.rename

    def broken(source: Path, target: Path) -> None:
        if Path(source) == workspace.model:
            raise OSError(5, "Input/output error")
        real(source, target)

    monkeypatch.setattr(os, "rename", broken)
    with pytest.raises(OutputError, match="Input/output error"):
        workspace.publish(overwrite=True)
    workspace.close()
    assert (output / "old").read_text() == "old"
    assert (workspace.model / "new").read_text() == "new"


def test_an_old_output_that_a_kill_left_moved_returns(output: Path) -> None:
    output.mkdir()
    (output / "old").write_text("old")
    workspace = entered(output)
    output.rename(workspace.folder / "replaced")
    workspace.close()
    entered(output).close()
    assert (output / "old").read_text() == "old"


def test_what_a_kill_after_the_rename_left_is_cleared(output: Path) -> None:
    workspace = entered(output)
    workspace.model.rename(output)
    workspace.close()
    Workspace(output).clear_finished()
    assert [path.name for path in output.parent.iterdir()] == ["out"]


@pytest.mark.parametrize("identified", [False, True])
def test_a_run_that_is_not_finished_is_not_cleared(output: Path, identified: bool) -> None:
    partial = output.with_name("out.partial")
    if identified:
        entered(output).close()
    else:
        partial.mkdir()
        (partial / "mine").write_text("mine")
    before = sorted(partial.rglob("*"))
    Workspace(output).clear_finished()
    assert sorted(partial.rglob("*")) == before


def test_a_finished_run_does_not_bind_the_next_one(output: Path) -> None:
    workspace = entered(output)
    workspace.model.rename(output)
    workspace.close()
    entered(output, RUN | {"scheme": "other"}).close()


def test_a_kill_before_the_identity_stands_is_no_hindrance(output: Path) -> None:
    partial = output.with_name("out.partial")
    partial.mkdir()
    (partial / "run.json.part").write_text("{")
    entered(output).close()


def test_what_entering_would_refuse_is_foreseen(output: Path) -> None:
    Workspace(output).foresee(RUN, restart=False)
    assert not Workspace(output).folder.exists()
    workspace = entered(output)
    workspace.close()
    unread = {**RUN, "source": [{"name": "a", "size": 1, "header_digest": None, "mtime_ns": 5}], "source_files": {}}
    workspace.foresee(unread, restart=False)
    other = unread | {"scheme": "w4a16-g128"}
    with pytest.raises(OutputError, match=r"partial output of a different run:\n  scheme: there kimi-k2-int4"):
        workspace.foresee(other, restart=False)
    workspace.foresee(other, restart=True)
    (workspace.folder / "run.json").unlink()
    with pytest.raises(OutputError, match="was made by no run"):
        workspace.foresee(unread, restart=True)


def test_what_lies_in_scratch_counts_up_to_what_was_asked_for(output: Path) -> None:
    workspace = Workspace(output)
    assert workspace.written_bytes(1 << 30) == 0
    for folder, blocks in ((workspace.model, 2), (workspace.scratch / "deep", 3)):
        folder.mkdir(parents=True)
        (folder / "file").write_bytes(b"x" * 4096 * blocks)
    model, scratch = (
        (folder / "file").stat().st_blocks * 512 for folder in (workspace.model, workspace.scratch / "deep")
    )
    found = [workspace.written_bytes(asked) for asked in (0, 1000, scratch, 1 << 30)]
    assert found == [model, model + 1000, model + scratch, model + scratch]
