"""The search of the clip ratio against llm-compressor's own, in compressed-tensors' arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

SHAPES = [(3, 2, 256), (2, 16, 512), (1, 1, 256), (4, 48, 256)]
every_dtype = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)


def matrices(shape: tuple[int, int, int], dtype: Any, group_size: int) -> Any:
    """[matrices, rows, groups, size] of normal noise, some of it zero."""
    made = torch.Generator().manual_seed(sum(shape))
    noise = torch.randn(shape, generator=made) * torch.randint(0, 3, shape, generator=made)
    return (noise * torch.rand(shape[0], 1, 1, generator=made)).to(dtype).unflatten(-1, (-1, group_size))


class Peer:
    """llm-compressor's search of one matrix, and what it tries, with options of a quantization."""

    def __init__(self, **options: Any) -> None:
        pytest.importorskip("llmcompressor")
        from compressed_tensors.quantization import QuantizationArgs

        self.args = QuantizationArgs(**options)
        self.token = self.args.model_copy(update={"strategy": "token"})

    def trial_of(self, groups: Any) -> Callable[[Any, Any], Any]:
        from compressed_tensors.quantization.lifecycle import fake_quantize
        from compressed_tensors.quantization.utils import calculate_qparams

        def trial(low: Any, high: Any) -> Any:
            made = [made.unsqueeze(-1) for made in calculate_qparams(low, high, self.args)]
            return fake_quantize(groups, *made, self.token).to(groups.dtype)

        return trial

    def search(self, matrix: Any) -> tuple[Any, Any]:
        from llmcompressor.observers.mse_quant import _grid_search_mse

        low, high = _grid_search_mse(matrix.unsqueeze(0), self.args, self.token, 0.2, 5, 100.0, 2.4, 0.3)
        return low, high


@every_dtype
@pytest.mark.parametrize("num_bits", [2, 4, 8])
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("group_size", [32, 128])
def test_integer_ranges_are_llm_compressors(dtype: Any, num_bits: int, symmetric: bool, group_size: int) -> None:
    peer = Peer(num_bits=num_bits, strategy="group", group_size=group_size, symmetric=symmetric)
    equals_peer(peer, dtype, group_size)


@every_dtype
@pytest.mark.parametrize("num_bits", [4, 8])
def test_float_ranges_are_llm_compressors(dtype: Any, num_bits: int) -> None:
    equals_peer(Peer(num_bits=num_bits, type="float", strategy="group", group_size=32), dtype, 32)


def equals_peer(peer: Peer, dtype: Any, group_size: int) -> None:
    from schemegen.kernels.torch_search import search

    for shape in SHAPES:
        groups = matrices(shape, dtype, group_size)
        low, high = search(groups, peer.trial_of(groups))
        for number, matrix in enumerate(groups):
            expected_low, expected_high = peer.search(matrix)
            assert torch.equal(low[number], expected_low)
            assert torch.equal(high[number], expected_high)


def test_a_matrix_that_is_done_is_not_improved_while_others_go_on() -> None:
    """Two matrices of one group: one improves at once and at the end only, the other at every step."""
    from schemegen.kernels.torch_search import search

    groups = torch.ones(2, 1, 1, 16)
    steps = iter(range(20))

    def trial(low: Any, high: Any) -> Any:
        step = next(steps)
        late = 1.0 if step == 0 else 0.5 if step == 15 else 2.0
        return groups + torch.tensor([late, 1.0 / (step + 1)]).view(2, 1, 1, 1)

    low, high = search(groups, trial)
    assert low.flatten().tolist() == high.flatten().tolist()
    assert high.flatten()[0] == 1.0
    assert high.flatten()[1] == torch.tensor(1.0) * (1 - 19 / 100.0)
