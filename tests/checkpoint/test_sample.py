"""The sample: the same bytes everywhere, whole or rebuilt, and one that engines load."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from schemegen.checkpoint import sample as module
from schemegen.checkpoint.identity import source_identity
from schemegen.checkpoint.local import open_local
from schemegen.checkpoint.sample import open_sample, write_sample
from schemegen.digests import digest
from schemegen.errors import UnknownNameError

NAME = "qwen3.6-moe"
# Of names, times and bytes of all files: a change of content needs a new content version, then this.
GOLDEN = {"2": "b15b2bd24a118fd66516dc55f6625d3e"}


def fingerprint(folder: Path) -> str:
    """The digest of every file's name, time and bytes."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    parts = ((f"{p.relative_to(folder).as_posix()} {p.stat().st_mtime_ns}\n".encode(), p.read_bytes()) for p in paths)
    return digest(part for pair in parts for part in pair)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("SCHEMEGEN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_bytes_are_those_of_this_content_version(sample_folder: Path) -> None:
    assert {module._CONTENT_VERSION: fingerprint(sample_folder)} == GOLDEN


def test_the_sample_is_small(sample_folder: Path) -> None:
    assert sum(path.stat().st_size for path in sample_folder.rglob("*")) < 20_000_000


def test_an_opened_sample_is_known_by_its_name(cache: Path, sample_folder: Path) -> None:
    checkpoint = open_sample(NAME)
    assert (checkpoint.model_id, checkpoint.revision) == ("sample:qwen3.6-moe", None)
    assert checkpoint.root.is_relative_to(cache.resolve() / "samples")
    assert checkpoint.tensors == open_local(sample_folder).tensors
    assert checkpoint.index_metadata == {"total_size": float(checkpoint.nbytes)}
    assert checkpoint.unindexed == ()
    assert {"tokenizer.json", "README.md", "examples/prompt.txt"} <= {file.name for file in checkpoint.side_files}


def test_two_copies_have_one_identity(cache: Path, sample_folder: Path) -> None:
    assert source_identity(open_sample(NAME)) == source_identity(open_local(sample_folder))


def test_the_second_opening_writes_nothing_and_is_quick(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = open_sample(NAME)
    monkeypatch.setattr(module, "write_sample", None)
    began = time.process_time()
    assert open_sample(NAME) == first
    assert time.process_time() - began < 0.2


def test_only_the_sample_lies_in_the_cache(cache: Path) -> None:
    root = open_sample(NAME).root
    assert [path.name for path in sorted((cache / "samples").iterdir())] == [".lock", root.name]


def cut(path: Path) -> None:
    """Shorten a file by a byte, its time kept."""
    status = path.stat()
    os.truncate(path, status.st_size - 1)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def swap_for_folder(path: Path) -> None:
    """Put an empty folder in a file's place."""
    path.unlink()
    path.mkdir()


def swap_for_file(folder: Path) -> None:
    """Put a file in a folder's place."""
    shutil.rmtree(folder)
    folder.write_text("x")


def swap_for_link(folder: Path) -> None:
    """Put a link to nowhere in a folder's place."""
    shutil.rmtree(folder)
    folder.symlink_to("none")


DAMAGE: dict[str, Callable[[Path], object]] = {
    "a shard is gone": lambda root: next(root.glob("*.safetensors")).unlink(),
    "a side file is gone": lambda root: (root / "examples/prompt.txt").unlink(),
    "a shard is cut": lambda root: cut(next(root.glob("*.safetensors"))),
    "a file was edited": lambda root: os.utime(root / "config.json"),
    "a file is there besides": lambda root: (root / "extra.txt").write_text("x"),
    "a file is a folder": lambda root: swap_for_folder(root / "LICENSE"),
    "a link leads out": lambda root: (root / "extra").symlink_to("/etc/passwd"),
    "it is gone": shutil.rmtree,
    "it is a file": swap_for_file,
    "it is a link to nowhere": swap_for_link,
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_sample_is_rebuilt(cache: Path, sample_folder: Path, damage: str) -> None:
    root = open_sample(NAME).root
    DAMAGE[damage](root)
    assert fingerprint(open_sample(NAME).root) == fingerprint(sample_folder)
    assert [path.name for path in sorted((cache / "samples").iterdir())] == [".lock", root.name]


def test_a_build_that_breaks_off_leaves_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "tensor_bytes", stop)
    with pytest.raises(KeyboardInterrupt):
        open_sample(NAME)
    assert [path.name for path in (cache / "samples").iterdir()] == [".lock"]


def test_a_cache_that_cannot_be_written_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sample_folder: Path
) -> None:
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("SCHEMEGEN_CACHE", str(tmp_path / "file/cache"))
    root = open_sample(NAME).root
    assert not root.is_relative_to(tmp_path / "file")
    assert fingerprint(root) == fingerprint(sample_folder)


def test_a_temporary_sample_ends_with_its_process(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    code = f"from schemegen.checkpoint.sample import open_sample; print(open_sample('{NAME}').root)"
    environment = {**os.environ, "SCHEMEGEN_CACHE": str(tmp_path / "file/cache"), "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert Path(done.stdout.strip()).is_relative_to(tmp_path.resolve())
    assert not Path(done.stdout.strip()).exists()


def test_processes_may_open_it_at_once(cache: Path, sample_folder: Path) -> None:
    code = f"from schemegen.checkpoint.sample import open_sample; print(open_sample('{NAME}').root)"
    command = [sys.executable, "-c", code]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    answers = [process.communicate() for process in running]
    assert [process.returncode for process in running] == [0] * 4, answers
    assert len({answer for answer, _ in answers}) == 1
    assert fingerprint(Path(answers[0][0].strip())) == fingerprint(sample_folder)


def test_unknown_samples_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"unknown sample 'x': known are qwen3\.6-moe"):
        write_sample("x", tmp_path)
    assert not [*tmp_path.iterdir()]


def test_files_may_be_changed_by_their_owner(sample_folder: Path) -> None:
    assert all(path.stat().st_mode & stat.S_IWUSR for path in sample_folder.rglob("*"))


def test_a_user_without_a_home_gets_a_temporary_sample(
    monkeypatch: pytest.MonkeyPatch, sample_folder: Path, tmp_path: Path
) -> None:
    import tempfile

    import platformdirs

    def homeless(*_: object) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("SCHEMEGEN_CACHE", raising=False)
    monkeypatch.setattr(platformdirs, "user_cache_path", homeless)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    root = open_sample(NAME).root
    assert root.is_relative_to(tmp_path.resolve())
    assert fingerprint(root) == fingerprint(sample_folder)
