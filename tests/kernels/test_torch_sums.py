from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

SIZES = (1, 2, 3, 7, 8, 15, 16, 17, 32, 33, 64, 96, 128, 130, 1000, 1024, 1056, 2112, 4096, 16384, 70000)
every_size = pytest.mark.parametrize("size", SIZES)
every_dtype = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)


@every_size
@every_dtype
def test_the_order_is_that_of_torch_with_avx2(size: int, dtype: object) -> None:
    from schemegen.kernels.torch_device import here
    from schemegen.kernels.torch_sums import ordered_row_sums

    if torch.backends.cpu.get_cpu_capability() != "AVX2":
        pytest.skip("this CPU adds up in another order")
    for shape in ((1,), (5, 3)):
        items = torch.rand((*shape, size), generator=torch.Generator().manual_seed(size)).pow(3).to(dtype)
        # Several threads would share a long sum.
        with here("cpu"):
            assert torch.equal(ordered_row_sums(items), items.sum(-1))


@every_size
def test_every_item_is_added_once(size: int) -> None:
    from schemegen.kernels.torch_sums import ordered_row_sums

    items = torch.from_numpy(np.random.default_rng(size).integers(0, 99, (3, 2, size)).astype(np.float32))
    assert torch.equal(ordered_row_sums(items), items.double().sum(-1).float())


def test_the_order_is_as_written() -> None:
    """Of 33 F32, four vectors of eight are added, lane by lane, then the lanes in order to the one left over."""
    from schemegen.kernels.torch_sums import ordered_row_sums

    items = torch.rand(33, generator=torch.Generator().manual_seed(0)).pow(6)
    total = items[32]
    for lane in range(8):
        total = total + (((items[lane] + items[lane + 8]) + items[lane + 16]) + items[lane + 24])
    assert ordered_row_sums(items.unsqueeze(0)).item() == total.item()
