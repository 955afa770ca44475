"""Running a plan: equal bytes for any number of workers and any resumption; faults stop it and lose nothing."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from schemegen.backends.base import Backend, Buffers, Job, NonFiniteWeight, WeightBackend, Weights
from schemegen.backends.guard import GuardedBackend
from schemegen.catalog import load_catalog
from schemegen.checkpoint import open_checkpoint
from schemegen.checkpoint.model import Checkpoint
from schemegen.errors import CheckpointError, PluginError
from schemegen.planner import Chunk, Plan, make_plan, resolve_rules
from schemegen.runner.execute import Outcome, run
from schemegen.runner.journal import Journal
from schemegen.scheme import Format
from schemegen.writer import FileSink

Planned = tuple[Plan, Checkpoint]


@pytest.fixture(scope="module")
def planned(sample_folder: Path) -> Planned:
    catalog = load_catalog()
    checkpoint, scheme = open_checkpoint(str(sample_folder)), catalog.scheme("kimi-k2-int4")
    rules = resolve_rules(scheme, catalog.policy)
    return make_plan(checkpoint, catalog.architecture_of(checkpoint.config), scheme, rules), checkpoint


def scales_of(weights: Weights) -> Any:
    """Bits of the weights that make finite scales above zero."""
    return weights.bits[..., ::32] & 0x3FFF | 1


class Counting(WeightBackend):
    """Writes a pattern that depends on the weights alone, and counts or fails on request."""

    name: ClassVar[str] = "counting"

    def __init__(self, fail_at: int | None = None, fault: Exception | None = None) -> None:
        self.calls, self.fail_at, self.fault = 0, fail_at, fault
        self._lock = threading.Lock()

    def refuses(self, format: Format) -> str | None:
        return None

    def quantize(self, weights: Weights, format: Format, out: Buffers) -> None:
        with self._lock:
            self.calls += 1
            if self.calls == self.fail_at and self.fault is not None:
                raise self.fault
        out["weight_packed"][...] = weights.bits[..., ::8]
        out["weight_scale"][...] = scales_of(weights)


def carry_out(
    planned: Planned,
    folder: Path,
    backend: Backend,
    jobs: int = 1,
    units: Iterable[int] | None = None,
    device: str = "cpu",
) -> Outcome:
    (folder / ".state").mkdir(parents=True, exist_ok=True)
    sink, journal = FileSink(folder), Journal(folder / ".state")
    chosen = None if units is None else frozenset(units)
    try:
        guarded = GuardedBackend(backend, "test 1")
        return run(*planned, guarded, sink, journal, scratch=folder, devices=(device,), jobs=jobs, units=chosen)
    finally:
        sink.close()
        journal.close()


def shards(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.safetensors")}


@pytest.fixture(scope="module")
def whole(planned: Planned, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, bytes], Outcome]:
    folder = tmp_path_factory.mktemp("whole")
    outcome = carry_out(planned, folder, Counting())
    return shards(folder), outcome


@pytest.mark.parametrize("jobs", [1, 2, 8])
def test_bytes_and_digests_do_not_depend_on_workers(
    planned: Planned, whole: tuple[dict[str, bytes], Outcome], tmp_path: Path, jobs: int
) -> None:
    outcome = carry_out(planned, tmp_path, Counting(), jobs)
    assert shards(tmp_path) == whole[0]
    for file, digests in outcome.digests.items():
        assert sorted(digests) == sorted(whole[1].digests[file])


def test_kept_tensors_are_the_sources_bytes(planned: Planned, whole: tuple[dict[str, bytes], Outcome]) -> None:
    plan, checkpoint = planned
    for tensor in plan.tensors:
        if tensor.format is None:
            (output,) = tensor.outputs
            data = whole[0][output.file]
            start = 8 + int.from_bytes(data[:8], "little") + output.offset
            source = checkpoint.path(tensor.source.file).read_bytes()
            expected = source[tensor.source.offset : tensor.source.offset + tensor.source.nbytes]
            assert data[start : start + output.nbytes] == expected, tensor.name


def test_a_fault_stops_the_run_and_the_next_one_goes_on(
    planned: Planned, whole: tuple[dict[str, bytes], Outcome], tmp_path: Path
) -> None:
    with pytest.raises(PluginError, match="lightning"):
        carry_out(planned, tmp_path, Counting(3, RuntimeError("lightning")))
    again = Counting()
    outcome = carry_out(planned, tmp_path, again)
    full = Counting()
    carry_out(planned, tmp_path / "other", full)
    assert again.calls == full.calls - 2
    assert 0 < outcome.resumed_bytes < planned[0].totals.bytes_in
    assert shards(tmp_path) == whole[0]


def test_a_finished_run_again_computes_nothing(planned: Planned, tmp_path: Path) -> None:
    first = carry_out(planned, tmp_path, Counting())
    again = Counting()
    outcome = carry_out(planned, tmp_path, again)
    assert again.calls == 0
    assert outcome.resumed_bytes == planned[0].totals.bytes_in
    assert {file: sorted(found) for file, found in outcome.digests.items()} == {
        file: sorted(found) for file, found in first.digests.items()
    }


def test_bytes_that_did_not_reach_the_disk_are_made_again(
    planned: Planned, whole: tuple[dict[str, bytes], Outcome], tmp_path: Path
) -> None:
    carry_out(planned, tmp_path, Counting())
    for path in tmp_path.glob("*.safetensors"):
        size = path.stat().st_size
        path.write_bytes(path.read_bytes()[: size // 2] + b"\0" * (size - size // 2))
    carry_out(planned, tmp_path, Counting(), jobs=2)
    assert shards(tmp_path) == whole[0]


def test_any_split_of_the_units_gives_the_same_whole(
    planned: Planned, whole: tuple[dict[str, bytes], Outcome], tmp_path: Path
) -> None:
    indexes = [unit.index for unit in planned[0].units]
    carry_out(planned, tmp_path, Counting(), units=indexes[::2])
    assert shards(tmp_path) != whole[0]
    carry_out(planned, tmp_path, Counting(), units=indexes[1::2])
    assert shards(tmp_path) == whole[0]


def test_a_bad_weight_is_named_with_its_place(planned: Planned, tmp_path: Path) -> None:
    tensor = next(tensor for tensor in planned[0].tensors if tensor.format is not None)
    _, rows, columns = tensor.source.shape
    place = [1, 3, 5]
    index = (place[0] * rows + place[1]) * columns + place[2]
    with pytest.raises(CheckpointError) as caught:
        carry_out(planned, tmp_path, Refusing(NonFiniteWeight(np.int64(index))))  # type: ignore[arg-type]
    assert f"at {place};" in str(caught.value)
    assert tensor.name in str(caught.value)


class Refusing(Counting):
    """Refuses what it is given, after it made one weight infinite."""

    def __init__(self, fault: NonFiniteWeight, infinite: bool = True) -> None:
        super().__init__()
        self.refusal, self.infinite = fault, infinite

    def quantize(self, weights: Weights, format: Format, out: Buffers) -> None:
        if self.infinite:
            weights.bits.reshape(-1)[self.refusal.index] = 0x7F80
        raise self.refusal


@pytest.mark.parametrize(
    ("index", "told"),
    [
        (-1, r"quantize_chunk raised ValueError: NonFiniteWeight\(-1\) of \d+ weights"),
        (10**9, r"quantize_chunk raised ValueError: NonFiniteWeight\(1000000000\) of \d+ weights"),
        (7, r"quantize_chunk raised ValueError: NonFiniteWeight\(7\), where the weight is finite"),
        ("7", "quantize_chunk raised TypeError"),
    ],
)
def test_a_weight_that_is_none_or_finite_is_the_backends_fault(
    planned: Planned, tmp_path: Path, index: Any, told: str
) -> None:
    with pytest.raises(PluginError, match=told):
        carry_out(planned, tmp_path, Refusing(NonFiniteWeight(index), infinite=False))


@pytest.mark.parametrize("device", ["cpu", "torch:cpu"])
@pytest.mark.parametrize("bits", [0, 0x8000, 0x7F80, 0xFF80, 0x7FC0])
def test_a_scale_that_decodes_nothing_is_the_backends_fault(
    planned: Planned, tmp_path: Path, bits: int, device: str
) -> None:
    if device != "cpu":
        pytest.importorskip("torch")

    class Careless(Counting):
        devices: ClassVar[tuple[str, ...]] = ("cpu", "cuda")

        def quantize(self, weights: Weights, format: Format, out: Buffers) -> None:
            super().quantize(weights, format, out)
            out["weight_scale"][-1, -1, -1] = bits

    told = r"'backend counting' of test 1: it wrote a scale of tensor \S+ that is NaN, infinite or zero"
    with pytest.raises(PluginError, match=told):
        carry_out(planned, tmp_path, Careless(), device=device)


def test_a_backend_that_reshapes_its_arrays_harms_nobody(
    planned: Planned, whole: tuple[dict[str, bytes], Outcome], tmp_path: Path
) -> None:
    class Reshaping(Counting):
        def quantize(self, weights: Weights, format: Format, out: Buffers) -> None:
            super().quantize(weights, format, out)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                for items in out.values():
                    items.shape = (-1,)
                    items.strides = (0,)

    carry_out(planned, tmp_path, Reshaping())
    assert shards(tmp_path) == whole[0]


@pytest.mark.parametrize(
    ("damage", "message"),
    [(lambda path: path.unlink(), "cannot open"), (lambda path: path.write_bytes(b"short"), "ends early")],
)
def test_a_source_that_changes_under_the_run_is_named(
    sample_folder: Path, tmp_path: Path, damage: Callable[[Path], None], message: str
) -> None:
    source = tmp_path / "model"
    source.mkdir()
    for path in sample_folder.iterdir():
        if path.is_file():
            (source / path.name).write_bytes(path.read_bytes())
    catalog = load_catalog()
    checkpoint, scheme = open_checkpoint(str(source)), catalog.scheme("kimi-k2-int4")
    rules = resolve_rules(scheme, catalog.policy)
    plan = make_plan(checkpoint, catalog.architecture_of(checkpoint.config), scheme, rules)
    damage(source / plan.files[-1])
    with pytest.raises(CheckpointError, match=message):
        carry_out((plan, checkpoint), tmp_path / "out", Counting())


class ByChunk(Backend):
    """A backend with nothing but `quantize_chunk`; it notes the devices that it was called with."""

    name: ClassVar[str] = "by-chunk"

    def __init__(self) -> None:
        self.devices_seen: set[str] = set()

    def refuses(self, format: Format) -> str | None:
        return None

    def quantize_chunk(self, job: Job, chunk: Chunk, out: Buffers) -> None:
        weights = job.read(chunk)
        self.devices_seen |= {job.device, weights.device}
        assert weights.bits.shape == chunk.shape
        out["weight_packed"][...] = weights.bits[..., ::8]
        out["weight_scale"][...] = scales_of(weights)


def test_a_source_that_cannot_be_opened_leaves_nothing_open(
    planned: Planned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but the last shard are open by then."""
    last = planned[1].path(planned[0].files[-1])
    opened: list[int] = []
    real = os.open

    def failing(path: Path, flags: int) -> int:
        if path == last:
            raise OSError(5, "Input/output error")
        opened.append(real(path, flags))
        return opened[-1]

    monkeypatch.setattr("schemegen.runner.execute.os", SimpleNamespace(open=failing, close=os.close, O_RDONLY=0))
    with pytest.raises(CheckpointError, match="Input/output error"):
        carry_out(planned, tmp_path, Counting())
    assert opened
    for descriptor in opened:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)


@pytest.mark.parametrize("device", ["cpu", "torch:cpu"])
@pytest.mark.parametrize("kind", [ByChunk, Counting])
def test_a_plain_backend_works_on_any_device(
    planned: Planned,
    whole: tuple[dict[str, bytes], Outcome],
    tmp_path: Path,
    device: str,
    kind: type[ByChunk] | type[Counting],
) -> None:
    if device != "cpu":
        pytest.importorskip("torch")
    backend = kind()
    outcome = carry_out(planned, tmp_path, backend, jobs=2, device=device)
    assert shards(tmp_path) == whole[0]
    assert {file: sorted(d) for file, d in outcome.digests.items()} == {
        f: sorted(d) for f, d in whole[1].digests.items()
    }
    if isinstance(backend, ByChunk):
        assert backend.devices_seen == {"cpu"}


def test_prepare_is_called_once_before_the_first_chunk(planned: Planned, tmp_path: Path) -> None:
    events: list[str] = []

    class Prepared(Counting):
        def prepare(self, job: Job) -> None:
            events.append("prepare")

        def quantize(self, weights: Weights, format: Format, out: Buffers) -> None:
            events.append("quantize")
            super().quantize(weights, format, out)

    carry_out(planned, tmp_path, Prepared(), jobs=2)
    assert events.count("prepare") == 1
    assert events[0] == "prepare"
