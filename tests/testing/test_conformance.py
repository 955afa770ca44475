"""check_backend passes what keeps the contract, and names the fault of what does not."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from schemegen import (
    Backend,
    Buffers,
    Format,
    NonFiniteWeight,
    UnsupportedError,
    VerificationError,
    WeightBackend,
    Weights,
)
from schemegen.backends.base import Job
from schemegen.backends.native_rtn import NativeRtn
from schemegen.planner import Chunk
from schemegen.testing import check_backend

INT8 = {"num_bits": 8, "strategy": "channel"}
TOKENS = {"num_bits": 8, "strategy": "token", "dynamic": True, "observer": None}
FORMAT = Format.model_validate({"weights": INT8, "input_activations": TOKENS})
SEARCHED = Format.model_validate({"weights": {**INT8, "observer": "mse"}, "input_activations": TOKENS})
NOT_OF_EXPERTS = Format.model_validate({**INT8, "storage": "int-quantized"})


class Good(WeightBackend):
    """INT8 by row; a subclass breaks one thing of it."""

    name: ClassVar[str] = "of-a-test"

    def refuses(self, format: Format) -> str | None:
        return None if format == FORMAT else "computes INT8 per channel only"

    def quantize(self, weights: Weights, format: Format, out: Buffers) -> None:
        self.check(weights)
        values = self.values(weights)
        scales = self.scales(weights, np.abs(values).max(-1, keepdims=True) / np.float32(127.5))
        quotients = weights.bits_of(values / weights.values_of(np.maximum(scales, 1)))
        self.store(out, self.rounded(weights.values_of(quotients)), scales)

    def check(self, weights: Weights) -> None:
        weights.require_finite()

    def values(self, weights: Weights) -> Any:
        return weights.values_of(weights.bits)

    def scales(self, weights: Weights, wanted: Any) -> Any:
        return np.maximum(weights.bits_of(wanted), 1)

    def rounded(self, quotients: Any) -> Any:
        return np.rint(quotients)

    def store(self, out: Buffers, codes: Any, scales: Any) -> None:
        out["weight"][...] = codes.clip(-128, 127).astype(np.int8).view(np.uint8)
        out["weight_scale"][...] = scales


class LeavesAColumn(Good):
    def store(self, out: Buffers, codes: Any, scales: Any) -> None:
        super().store({"weight": out["weight"][..., :-1], "weight_scale": out["weight_scale"]}, codes[..., :-1], scales)


class ForgetsScales(Good):
    def store(self, out: Buffers, codes: Any, scales: Any) -> None:
        super().store({**out, "weight_scale": scales.copy()}, codes, scales)


class Counts(Good):
    """A larger scale at every second call."""

    def __init__(self) -> None:
        self.calls = itertools.count()

    def scales(self, weights: Weights, wanted: Any) -> Any:
        return super().scales(weights, wanted) + next(self.calls) % 2


class Scribbles(Good):
    def store(self, out: Buffers, codes: Any, scales: Any) -> None:
        super().store(out, codes, scales)
        self.lent.reshape(-1)[0] ^= 1

    def check(self, weights: Weights) -> None:
        super().check(weights)
        self.lent = weights.bits


class ScalesByBlock(Good):
    """One scale for all the rows at hand."""

    def scales(self, weights: Weights, wanted: Any) -> Any:
        return super().scales(weights, np.broadcast_to(wanted.max(axis=1, keepdims=True), wanted.shape).copy())


class SharesMemory(Good):
    """Keeps what it works on where every thread finds it."""

    def values(self, weights: Weights) -> Any:
        self.kept = super().values(weights)
        return self.kept

    def scales(self, weights: Weights, wanted: Any) -> Any:
        if threading.active_count() > 1:
            time.sleep(0.001)
        self.wanted = np.abs(self.kept).max(-1, keepdims=True) / np.float32(127.5)
        return super().scales(weights, self.wanted if self.wanted.shape == wanted.shape else wanted)


class TakesAnything(Good):
    def check(self, weights: Weights) -> None:
        return

    def quantize(self, weights: Weights, format: Format, out: Buffers) -> None:
        with np.errstate(all="ignore"):
            super().quantize(weights, format, out)

    def scales(self, weights: Weights, wanted: Any) -> Any:
        return super().scales(weights, np.nan_to_num(wanted, nan=1, posinf=1))

    def rounded(self, quotients: Any) -> Any:
        return np.nan_to_num(super().rounded(quotients))


class TellsTheLast(Good):
    def check(self, weights: Weights) -> None:
        if (bad := np.flatnonzero(~np.isfinite(self.values(weights)))).size:
            raise NonFiniteWeight(int(bad[-1]))


class TellsNowhere(Good):
    def check(self, weights: Weights) -> None:
        try:
            super().check(weights)
        except NonFiniteWeight:
            raise NonFiniteWeight(0) from None


class RoundsDown(Good):
    def rounded(self, quotients: Any) -> Any:
        return np.floor(quotients)


class ReversesScales(Good):
    def store(self, out: Buffers, codes: Any, scales: Any) -> None:
        super().store(out, codes, scales[:, ::-1])


class WideScales(Good):
    """Four times what the largest weight needs."""

    def scales(self, weights: Weights, wanted: Any) -> Any:
        return super().scales(weights, wanted * np.float32(4))


class ZeroScales(Good):
    def scales(self, weights: Weights, wanted: Any) -> Any:
        return weights.bits_of(wanted)


class Breaks(Good):
    def rounded(self, quotients: Any) -> Any:
        raise KeyError("codes")


class TakesAll(Good):
    def refuses(self, format: Format) -> None:
        return None


class Stumbles(Good):
    def refuses(self, format: Format) -> str | None:
        return None if format == FORMAT else {"minmax": "computes INT8 per channel only"}[str(format.weights.observer)]


class RefusesAll(Good):
    def refuses(self, format: Format) -> str:
        return "computes nothing yet"


class RefusesInSilence(Good):
    def refuses(self, format: Format) -> str | None:
        return None if format == FORMAT else ""


class IgnoresObservers(Good):
    def refuses(self, format: Format) -> str | None:
        return None if format == SEARCHED else super().refuses(format)


class TakesNoWeights(Good):
    def refuses_weights(self, format: Format, dtype: str, columns: int) -> str:
        return f"computes nothing of {dtype}"


class BadName(Good):
    name = "Of A Test"


class OddDevices(Good):
    devices = ("tpu",)


class NotInstalled(Good):
    versions = ("no-such-distribution",)


class WritesIntoTheSource(Good):
    def prepare(self, job: Job) -> None:
        with job.checkpoint.path("model.safetensors").open("ab") as shard:
            shard.write(b"\0")


class LeavesAFile(Good):
    def prepare(self, job: Job) -> None:
        (job.checkpoint.path("model.safetensors").parent / "cache.bin").touch()


class RaisesOurOwn(Good):
    def refuses(self, format: Format) -> str | None:
        if format == FORMAT:
            return None
        raise UnsupportedError("takes one format alone")


class NegativeScales(Good):
    """The same weights from scales and codes that are both turned round."""

    def scales(self, weights: Weights, wanted: Any) -> Any:
        return super().scales(weights, wanted) | np.array(1, weights.bits.dtype) << (weights.bits.itemsize * 8 - 1)

    def quantize(self, weights: Weights, format: Format, out: Buffers) -> None:
        values = self.values(weights)
        self.check(weights)
        scales = self.scales(weights, np.abs(values).max(-1, keepdims=True) / np.float32(127.5))
        self.store(out, self.rounded(weights.values_of(weights.bits_of(values / weights.values_of(scales)))), scales)


class WrongBeyondTheFirstThousand(Good):
    def store(self, out: Buffers, codes: Any, scales: Any) -> None:
        codes[..., 1024:] = 0
        super().store(out, codes, scales)


class KnowsOneWidth(Good):
    def check(self, weights: Weights) -> None:
        super().check(weights)
        if weights.bits.shape[-1] not in (256, 1280):
            raise IndexError("width")


class RemembersRuns(Good):
    """Other scales in a run that goes on where an earlier one was stopped."""

    def prepare(self, job: Job) -> None:
        marker = job.scratch / "marker"
        self.more = int(marker.exists())
        marker.touch()

    def scales(self, weights: Weights, wanted: Any) -> Any:
        return super().scales(weights, wanted) + self.more


class NoLook(Backend):
    """A backend of chunks, which passes everything on and looks at no weight."""

    name: ClassVar[str] = "of-a-test"

    def refuses(self, format: Format) -> str | None:
        return Good().refuses(format)

    def quantize_chunk(self, job: Job, chunk: Chunk, out: Buffers) -> None:
        TakesAnything().quantize(job.read(chunk), FORMAT, out)


class MixesUpBatches(Good):
    """Computes on GPUs too, and there gives all rows the first one's scale."""

    devices = ("cpu", "cuda")

    def scales(self, weights: Weights, wanted: Any) -> Any:
        return super().scales(weights, wanted if self.device == "cpu" else np.full_like(wanted, wanted.max()))

    def check(self, weights: Weights) -> None:
        super().check(weights)
        self.device = weights.device


FAULTS: dict[Callable[[], Any], str] = {
    LeavesAColumn: r"INT8 activations: leaves bytes of weight as they were; fill .*\(BF16 .*byte 255 is the first",
    ForgetsScales: "leaves bytes of weight_scale as they were",
    Counts: "makes another weight.* when asked again",
    Scribbles: "changes the weights that it is lent",
    ScalesByBlock: "of blocks of rows than of whole matrices; rows share nothing but weights.shared",
    SharesMemory: "when several threads call it",
    MixesUpBatches: "makes another weight of a batch on a device than on a CPU",
    TakesAnything: "takes a weight that is NaN; raise NonFiniteWeight",
    NoLook: "whole run: takes a NaN in model.*; raise NonFiniteWeight or CheckpointError",
    TellsTheLast: "tells another place of a weight that is no number",
    TellsNowhere: r"fails over a weight that is NaN: .*NonFiniteWeight\(0\), where the weight is finite",
    RoundsDown: r"weight is not the code that the source's weight rounds to under the stored scale .*at \[0, 2\]: "
    r"stored -?\d+, expected -?\d+ \(weight .*, scale .*; their quotient is rounded to BF16 before",
    ReversesScales: "weight is not the code",
    WideScales: r"its scales lose too much of ordinary weights \(.* times the squared error of plain rounding",
    ZeroScales: "it wrote a scale of tensor .* that is NaN, infinite or zero",
    Breaks: "quantize_chunk raised KeyError: 'codes'",
    TakesAll: "is taken, and nothing stores the scales of its activations; refuse it",
    Stumbles: "INT4 g32 mse: refuses raised KeyError: 'mse'",
    RefusesAll: r"none of \d+ is taken \(INT8 per channel mse, INT8 activations: computes nothing yet",
    RefusesInSilence: "INT4 g32: is refused without a word",
    IgnoresObservers: "INT8 per channel mse, INT8 activations: makes of it what it makes of INT8 per channel, INT8 act",
    TakesNoWeights: "refuses_weights takes no weights of BF16, F16, F32 in any of them",
    BadName: "'Of A Test' cannot name a backend; use lower-case letters",
    OddDevices: "devices is .*tpu.*cpu or cuda",
    NotInstalled: "versions names no-such-distribution, which is not installed",
    WritesIntoTheSource: "the source's files are not what they were",
    LeavesAFile: "the source's files are not what they were",
    RaisesOurOwn: "INT4 g32: .*takes one format alone",
    NegativeScales: "stores weight_scales below zero, as observer signed_mse alone does",
    WrongBeyondTheFirstThousand: r"weight is not the code .*shape \[1, 1280\], at \[0, 102\d\]: stored 0, expected",
    KnowsOneWidth: "whole run: quantize_chunk raised IndexError: width",
    RemembersRuns: "has other bytes after an interrupted run was resumed",
    dict: "a backend must be a Backend, not dict",
}


@pytest.mark.parametrize(("backend", "told"), FAULTS.items(), ids=[make.__name__ for make in FAULTS])
def test_each_fault_is_named(backend: Callable[[], Any], told: str) -> None:
    if backend in (IgnoresObservers, MixesUpBatches):
        pytest.importorskip("torch")
    with pytest.raises(VerificationError, match=told):
        check_backend(backend, formats=[SEARCHED])


def test_a_good_one_passes_and_says_what_was_checked() -> None:
    assert check_backend(Good()) == ("INT8 per channel, INT8 activations",)


def test_a_format_that_is_for_other_layers_than_experts_is_run_there() -> None:
    class Other(Good):
        def refuses(self, format: Format) -> str | None:
            return None if format == NOT_OF_EXPERTS else "computes INT8 per channel only"

    assert check_backend(Other) == ("INT8 per channel",)


def test_a_format_that_no_layer_takes_cannot_be_run() -> None:
    class Wide(NativeRtn):
        def refuses(self, format: Format) -> str | None:
            return super().refuses(format) if format == wanted else "is not asked for"

    wanted = Format.model_validate({"num_bits": 8, "group_size": 512})
    with pytest.raises(VerificationError, match=r"(?s)no format goes with the sample \(INT8 g512: .* not divisible by"):
        check_backend(Wide, formats=[wanted])


def test_what_an_author_asks_for_is_checked_too() -> None:
    class Grouped(NativeRtn):
        def refuses(self, format: Format) -> str | None:
            return super().refuses(format) if format == wanted else "is not asked for"

    wanted = Format.model_validate({"num_bits": 8, "group_size": 96})
    assert check_backend(Grouped, formats=[wanted]) == ("INT8 g96",)


def test_the_native_backend_conforms() -> None:
    words = check_backend(NativeRtn)
    assert {"INT4 g32", "INT4 g32 asymmetric", "FP8 128x128", "NVFP4", "MXFP4", "MXFP8"} <= set(words)


def test_only_a_backend_or_what_makes_one_is_taken(tmp_path: Path) -> None:
    given: Any = tmp_path
    with pytest.raises(VerificationError, match="a backend must be a Backend, not PosixPath"):
        check_backend(given)
    assert issubclass(Good, Backend)
