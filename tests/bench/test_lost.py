"""Groups that an MX output has lost are counted; every other difference is one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from bench.lost import DifferentError, lost_groups

SCALES = np.array([[254, 120]], np.uint8)
CODES = np.arange(32, dtype=np.uint8).reshape(1, 32)


def written(folder: Path, codes: np.ndarray, scales: np.ndarray) -> Path:
    folder.mkdir()
    save_file({"a.weight_packed": codes, "a.weight_scale": scales}, folder / "model.safetensors")
    return folder


def lost(tmp_path: Path, codes: np.ndarray, scales: np.ndarray) -> int:
    return lost_groups(written(tmp_path / "ours", CODES, SCALES), written(tmp_path / "theirs", codes, scales))


def test_equal_outputs_have_lost_nothing(tmp_path: Path) -> None:
    assert lost(tmp_path, CODES, SCALES) == 0


def test_a_lost_group_has_scale_1_and_codes_of_zero(tmp_path: Path) -> None:
    codes, scales = CODES.copy(), SCALES.copy()
    codes[0, :16], scales[0, 0] = 0x80, 127
    assert lost(tmp_path, codes, scales) == 1


@pytest.mark.parametrize(("column", "scale"), [(0, 127), (20, 120), (20, 127)])
def test_another_difference_is_told(tmp_path: Path, column: int, scale: int) -> None:
    codes, scales = CODES.copy(), SCALES.copy()
    codes[0, column] += 1
    scales[0, column // 16] = scale
    with pytest.raises(DifferentError, match=r"a\.weight_packed: other bits"):
        lost(tmp_path, codes, scales)


def test_a_missing_tensor_is_told(tmp_path: Path) -> None:
    ours = written(tmp_path / "ours", CODES, SCALES)
    (tmp_path / "theirs").mkdir()
    save_file({"a.weight_scale": SCALES}, tmp_path / "theirs" / "model.safetensors")
    with pytest.raises(DifferentError, match=r"a\.weight_packed: only in one|only one of both"):
        lost_groups(ours, tmp_path / "theirs")
