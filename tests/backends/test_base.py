"""What a backend of weights is handed: batches of rows that are alone, and what the others' scales are made from."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest

from schemegen.backends.base import Buffers, NonFiniteWeight, WeightBackend, Weights
from schemegen.backends.guard import GuardedBackend
from schemegen.catalog import load_catalog
from schemegen.checkpoint import open_checkpoint
from schemegen.checkpoint.sample import write_sample
from schemegen.formats import Shared, are_rows_alone, shared_of
from schemegen.planner import Plan, make_plan, resolve_rules
from schemegen.runner.execute import run
from schemegen.runner.journal import Journal
from schemegen.scheme import Format, Scheme
from schemegen.writer import FileSink

FORMATS: dict[str, dict[str, Any]] = {
    "group": {"num_bits": 4, "group_size": 32},
    "asymmetric": {"num_bits": 4, "group_size": 32, "symmetric": False},
    "searched": {"num_bits": 4, "group_size": 32, "observer": "mse"},
    "tensor": {"num_bits": 8, "type": "float", "strategy": "tensor"},
    "fused": {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16},
    "block": {"num_bits": 8, "type": "float", "block_structure": [128, 128]},
}


class Handed(NamedTuple):
    """One call of `quantize` on weights in BF16."""

    format: Format
    shape: tuple[int, ...]
    shared: Any
    largest: float


class Notes(WeightBackend):
    """Writes ones and notes what it is handed."""

    name: ClassVar[str] = "notes"
    devices: ClassVar[tuple[str, ...]] = ("cpu", "cuda")

    def __init__(self) -> None:
        self.handed: list[Handed] = []

    def refuses(self, format: Format) -> None:
        return None

    def quantize(self, weights: Weights, format: Format, out: Buffers) -> None:
        magnitudes = (weights.bits & 0x7FFF).astype(np.uint32) << np.uint32(16)
        largest = float(magnitudes.view(np.float32).max())
        self.handed.append(Handed(format, weights.bits.shape, weights.shared, largest))
        for items in out.values():
            items[...] = 1


@pytest.fixture
def source_of_singles(tmp_path: Path) -> Path:
    """The sample with a tensor an expert and projection, so that batches have something to hold."""
    write_sample("qwen3.6-moe", tmp_path / "source", experts="separate")
    return tmp_path / "source"


@pytest.fixture
def plan(source_of_singles: Path) -> Plan:
    """A format a layer's experts, one for the MTP block's, one for shared experts."""
    places = [{"layers": str(layer)} for layer in range(4)] + [{"part": "mtp"}]
    rules: list[dict[str, Any]] = [
        {"role": "routed_expert", **place, "use": name} for place, name in zip(places, FORMATS, strict=False)
    ]
    rules.append({"role": "shared_expert", "use": "block"})
    head = {"schema_version": 1, "name": "of-a-test", "summary": "a scheme of a test", "formats": FORMATS}
    scheme, catalog = Scheme.model_validate({**head, "policy": rules}), load_catalog()
    checkpoint = open_checkpoint(str(source_of_singles))
    architecture = catalog.architecture_of(checkpoint.config)
    return make_plan(checkpoint, architecture, scheme, resolve_rules(scheme, catalog.policy))


def written(plan: Plan, source: Path, tmp_path: Path, device: str = "cpu") -> Notes:
    """What a run hands out."""
    notes, sink = Notes(), FileSink(tmp_path / "model")
    (tmp_path / "model").mkdir()
    journal, checkpoint = Journal(tmp_path), open_checkpoint(str(source))
    run(plan, checkpoint, GuardedBackend(notes, "a test's"), sink, journal, scratch=tmp_path, devices=(device,))
    sink.close()
    journal.close()
    return notes


@pytest.mark.parametrize("device", ["cpu", "torch:cpu"])
def test_no_batch_has_rows_that_depend_on_others(
    plan: Plan, source_of_singles: Path, tmp_path: Path, device: str
) -> None:
    if device != "cpu":
        pytest.importorskip("torch")
    assert set(plan.formats_used) == set(FORMATS)
    notes = written(plan, source_of_singles, tmp_path, device)
    tallest = max(tensor.matrix_shape[0] for tensor in plan.tensors if tensor.format)
    for name, format in plan.formats_used.items():
        calls = [call for call in notes.handed if call.format == format]
        assert all((call.shared is None) == (shared_of(format) is None) for call in calls)
        assert all(call.shared is None or len(call.shared) == call.shape[0] for call in calls)
        is_batched = any(call.shape[1] > tallest for call in calls)
        assert is_batched == (device != "cpu" and are_rows_alone(format)), name


def test_matrices_of_a_fused_layer_have_one_magnitude(plan: Plan, source_of_singles: Path, tmp_path: Path) -> None:
    notes = written(plan, source_of_singles, tmp_path)
    calls = [call for call in notes.handed if shared_of(call.format) is Shared.FUSED]
    assert all(call.largest <= call.shared[0] for call in calls)
    # Of gate or up, where the other one has it.
    assert any(call.largest < call.shared[0] for call in calls)


@pytest.mark.parametrize(("dtype", "bits"), [("BF16", [0x3F80, 0xC000]), ("F16", [0x3C00, 0xC000])])
def test_weights_give_values_and_take_them(dtype: str, bits: list[int]) -> None:
    weights = Weights(np.array(bits, np.uint16).reshape(1, 1, 2), dtype)
    assert weights.values_of(weights.bits).tolist() == [[[1.0, -2.0]]]
    assert weights.bits_of(np.array([1.0, -2.0], np.float32)).tolist() == bits
    weights.require_finite()


def test_weights_tell_the_first_that_is_no_number() -> None:
    weights = Weights(np.array([[[0, 0x7F80], [0x7FC0, 0]]], np.uint16), "BF16")
    with pytest.raises(NonFiniteWeight) as refused:
        weights.require_finite()
    assert refused.value.index == 1
