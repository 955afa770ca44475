"""The walk stays in the folder."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from schemegen.checkpoint.tree import find_files
from schemegen.errors import CheckpointError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with a file and a subfolder."""
    folder = tmp_path.resolve() / "root"
    (folder / "sub").mkdir(parents=True)
    (folder / "b.txt").write_bytes(b"bb")
    (folder / "sub/a.py").write_bytes(b"")
    return folder


def test_files_come_sorted_with_their_sizes(root: Path) -> None:
    (root / "Z").write_bytes(b"zzz")
    assert list(find_files(root).items()) == [("Z", 3), ("b.txt", 2), ("sub/a.py", 0)]


@pytest.mark.parametrize(
    "name",
    [
        ".git/config",
        ".cache/huggingface/download/x.metadata",
        ".huggingface/x",
        "__pycache__/a.pyc",
        "sub/__pycache__/a.pyc",
        ".DS_Store",
        "x.lock",
        "sub/x.incomplete",
        "x.safetensors.part",
        ".git",
    ],
)
def test_what_belongs_to_a_checkout_or_a_download_stays_behind(root: Path, name: str) -> None:
    before = find_files(root)
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_bytes(b"x")
    assert find_files(root) == before


@pytest.mark.parametrize("name", [".gitattributes", ".gitignore", "blocked", "x.tmp", "x.locked", "schemegen.json"])
def test_what_only_looks_like_it_travels(root: Path, name: str) -> None:
    (root / name).write_bytes(b"x")
    assert name in find_files(root)


def test_what_stays_behind_is_not_looked_at(root: Path) -> None:
    (root / "x.lock").symlink_to("/nowhere")
    (root / ".cache").symlink_to("/")
    os.mkfifo(root / "y.lock")
    assert [*find_files(root)] == ["b.txt", "sub/a.py"]


def test_a_link_within_the_folder_is_a_file(root: Path) -> None:
    (root / "sub/link").symlink_to("../b.txt")
    assert find_files(root)["sub/link"] == 2


@pytest.mark.parametrize("blobs", [False, True])
def test_a_link_may_lead_to_the_blobs_and_nowhere_else(root: Path, blobs: bool) -> None:
    cache = root.parent / "blobs"
    cache.mkdir()
    (cache / "abc").write_bytes(b"blob")
    (root / "x").symlink_to("../blobs/abc")
    if blobs:
        assert find_files(root, cache)["x"] == 4
    else:
        with pytest.raises(CheckpointError, match="link 'x' leads out of the checkpoint"):
            find_files(root)


@pytest.mark.parametrize("target", ["../outside", "/etc/passwd", "sub/../../outside", "hop"])
def test_a_link_that_leads_out_is_refused_by_name(root: Path, target: str) -> None:
    (root.parent / "outside").write_bytes(b"x")
    (root / "hop").symlink_to("../outside")
    (root / "sub/x").symlink_to(target if target.startswith("/") else f"../{target}")
    (root / "hop").unlink() if target != "hop" else None
    with pytest.raises(CheckpointError, match=r"link '(sub/x|hop)' leads out of the checkpoint"):
        find_files(root, root.parent / "blobs")


def test_a_neighbour_whose_name_begins_the_same_is_outside(root: Path) -> None:
    (root.parent / "root2").write_bytes(b"x")
    (root / "x").symlink_to("../root2")
    with pytest.raises(CheckpointError, match="link 'x' leads out"):
        find_files(root)


@pytest.mark.parametrize(
    ("target", "message"), [("sub", "leads to a folder"), ("..", "leads out"), (".", "to a folder")]
)
def test_a_link_to_a_folder_is_refused_by_name(root: Path, target: str, message: str) -> None:
    (root / "x").symlink_to(target)
    with pytest.raises(CheckpointError, match=f"link 'x' .*{message}"):
        find_files(root)


@pytest.mark.parametrize("target", ["none", "x"])
def test_a_link_that_leads_nowhere_is_refused_by_name(root: Path, target: str) -> None:
    (root / "x").symlink_to(target)
    with pytest.raises(CheckpointError, match="link 'x' leads nowhere"):
        find_files(root)


def test_pipes_and_sockets_are_refused_by_name(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(root / "pipe")
    with pytest.raises(CheckpointError, match="file 'pipe' is a pipe, socket or device"):
        find_files(root)
    (root / "pipe").unlink()
    monkeypatch.chdir(root)  # a socket's path may only be short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("sub/socket")
        with pytest.raises(CheckpointError, match="file 'sub/socket' is a pipe, socket or device"):
            find_files(root)


def test_a_link_to_a_device_is_refused_by_name(root: Path) -> None:
    (root / "x").symlink_to("/dev/null")
    with pytest.raises(CheckpointError, match="link 'x' leads out"):
        find_files(root, Path("/nowhere"))
    with pytest.raises(CheckpointError, match="file 'x' is a pipe, socket or device"):
        find_files(root, Path("/dev"))


def test_a_name_that_is_not_unicode_is_refused(root: Path) -> None:
    try:
        (root / os.fsdecode(b"caf\xe9")).write_bytes(b"x")
    except OSError:
        pytest.skip("the file system takes only Unicode")
    with pytest.raises(CheckpointError, match=r"file name b'caf\\xe9' is not UTF-8; rename"):
        find_files(root)


def test_a_file_nobody_may_read_is_refused_by_name(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Rights do not stop the superuser, whom tests may run as, so the system's answer is put in its mouth.
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "a.py")
    with pytest.raises(CheckpointError, match=r"file 'sub/a\.py' cannot be read \(permission denied\)"):
        find_files(root)


@pytest.mark.skipif(os.geteuid() == 0, reason="rights do not stop the superuser")
def test_a_folder_nobody_may_read_is_refused_by_name(root: Path) -> None:
    (root / "sub").chmod(0)
    try:
        with pytest.raises(CheckpointError, match=r"folder 'sub' cannot be read \(permission denied\)"):
            find_files(root)
    finally:
        (root / "sub").chmod(0o755)


@pytest.mark.parametrize("levels", [65, 300])
def test_folders_nested_too_deeply_are_refused(root: Path, levels: int) -> None:
    here = os.open(root, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    with pytest.raises(CheckpointError, match="folder 'd' holds folders more than 64 deep; take it out"):
        find_files(root)


def test_folders_may_be_nested_as_deeply_as_any_model_needs(root: Path) -> None:
    folder = root.joinpath(*["d"] * 64)
    folder.mkdir(parents=True)
    (folder / "x").write_bytes(b"x")
    assert "d/" * 64 + "x" in find_files(root)
