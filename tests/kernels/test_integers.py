"""Which kernels compute an integer format."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from schemegen.errors import UnsupportedError
from schemegen.kernels import integers


@pytest.mark.parametrize(
    ("num_bits", "group_size", "fused"),
    [
        (4, 32, True),
        (4, None, True),
        (4, 8, True),
        (4, 4, False),
        (8, 4, True),
        (8, 6, False),
        (3, 32, False),
        (3, None, False),
    ],
)
def test_what_has_a_fused_kernel(num_bits: int, group_size: int | None, fused: bool) -> None:
    assert integers.is_fused(num_bits, group_size) is fused


def test_a_code_a_byte_has_a_fused_kernel_where_groups_fill_words() -> None:
    assert [integers.is_fused(bits, 12, "bytes") for bits in range(2, 9)] == [True] * 7
    assert not integers.is_fused(8, 6, "bytes")
    assert integers.is_fused(8, None, "bytes")


def test_without_torch_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schemegen.kernels.torch_check.torch_fault", lambda: "is not installed: pip install torch")
    weights, packed, scales = np.zeros((1, 32), np.uint16), np.zeros((1, 3), np.uint32), np.zeros((1, 1), np.uint16)
    told = r"INT3 is computed with torch, which is not installed: pip install torch"
    with pytest.raises(UnsupportedError, match=told):
        integers.quantize_int(weights, "BF16", 3, 32, packed, scales)
    with pytest.raises(UnsupportedError, match=told):
        integers.recode_int(weights, "BF16", 3, 32, packed, scales)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (None, "is not installed: pip install torch"),
        ("import no_such_part", "cannot be imported (ModuleNotFoundError: \"No module named 'no_such_part'\"): "),
        (
            "raise OSError('libcudart.so.12: cannot open')",
            "cannot be imported (OSError: 'libcudart.so.12: cannot open'): ",
        ),
        ("raise AttributeError('half\\nmore')", "cannot be imported (AttributeError: 'half'): "),
    ],
)
def test_what_keeps_torch_from_use_is_told(code: str | None, told: str, tmp_path: Path) -> None:
    if code is not None:
        (tmp_path / "torch.py").write_text(code)
    asked = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.modules |= {{}} if {code is not None} else "
        "{'torch': None}\nfrom schemegen.kernels.torch_check import torch_fault; print(torch_fault())"
    )
    done = subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True, text=True)
    assert done.stdout.startswith(told)
    assert "pip install torch" in done.stdout


def test_a_fused_format_imports_no_torch() -> None:
    code = (
        "import sys, numpy as np\n"
        "from schemegen.kernels.integers import quantize_int, recode_int\n"
        "w, p, s = np.ones((1, 32), np.uint16), np.zeros((1, 4), np.uint32), np.zeros((1, 1), np.uint16)\n"
        "print(quantize_int(w, 'BF16', 4, 32, p, s), recode_int(w, 'BF16', 4, 32, p, s), 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["-1", "-1", "False"]


def test_both_ways_give_the_same_bits() -> None:
    pytest.importorskip("torch")
    weights = np.random.default_rng(1).integers(0, 0x7F80, (16, 64)).astype(np.uint16)
    made = []
    for device in ("cpu", "torch:cpu"):
        packed, scales = np.zeros((16, 8), np.uint32), np.zeros((16, 2), np.uint16)
        assert integers.quantize_int(weights, "BF16", 4, 32, packed, scales, device) == -1
        made.append((packed.tobytes(), scales.tobytes()))
    assert made[0] == made[1]
