"""Sample checkpoints for anybody's tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import schemegen
from schemegen.errors import OutputError, UnknownNameError
from schemegen.testing import sample_checkpoint


@pytest.mark.parametrize(("layout", "stored"), [("stacked", True), ("one-by-one", False)])
@pytest.mark.parametrize("dtype", ["BF16", "F16", "F32"])
def test_every_layout_and_dtype_can_be_planned(tmp_path: Path, layout: Any, stored: bool, dtype: Any) -> None:
    folder = sample_checkpoint(tmp_path / "model", layout, dtype)
    experts = [t for t in schemegen.plan("w4a16-g32", folder).tensors if t.format]
    assert folder == tmp_path / "model"
    assert all((tensor.matrices > 1) == stored and tensor.source.dtype == dtype for tensor in experts)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"layout": "stacks"}, "unknown layout of a sample 'stacks': did you mean stacked"),
        ({"dtype": "BF61"}, "unknown dtype of a sample 'BF61': did you mean BF16"),
        ({"name": "qwen"}, "unknown sample 'qwen'"),
    ],
)
def test_other_samples_are_not_known(tmp_path: Path, given: dict[str, Any], told: str) -> None:
    with pytest.raises(UnknownNameError, match=told):
        sample_checkpoint(tmp_path / "model", **given)
    assert not (tmp_path / "model").exists()


def test_it_goes_into_an_empty_folder_only(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    for taken in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(OutputError, match="is not an empty folder"):
            sample_checkpoint(taken)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
