"""FP4 schemes from a scheme file to a folder: fused layers, both layouts of experts, row blocks, devices."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pytest

import schemegen
from schemegen.checkpoint.sample import write_sample
from schemegen.errors import CheckpointError, VerificationError
from schemegen.planner import Plan, PlannedTensor

Array = npt.NDArray[Any]
Layout = Literal["fused", "separate"]
Findings = Callable[[str, str, Callable[[int], int]], tuple[tuple[int, ...], str, list[int], str]]

SCHEME = """\
schema_version: 1
name: {kind}-of-a-test
summary: FP4 wherever there is a matrix
formats:
  fp4: {format}
policy:
  - {{role: [routed_expert, shared_expert, attention, linear_attention, lm_head], use: fp4}}
"""
FORMATS = {
    "nvfp4": "{num_bits: 4, type: float, strategy: tensor_group, group_size: 16, scale_dtype: float8_e4m3fn}",
    "mxfp4": "{num_bits: 4, type: float, strategy: group, group_size: 32, scale_dtype: uint8}",
}
KINDS = tuple(FORMATS)
LAYOUTS: tuple[Layout, ...] = ("fused", "separate")


@pytest.fixture(scope="module")
def schemes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Scheme files by kind."""
    folder = tmp_path_factory.mktemp("schemes")
    for kind, format in FORMATS.items():
        (folder / f"{kind}.yaml").write_text(SCHEME.format(kind=kind, format=format))
    return {kind: folder / f"{kind}.yaml" for kind in FORMATS}


@pytest.fixture(scope="module")
def models(schemes: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[Layout, Path]:
    """The sample in each layout, its matrices of different sizes, so that the members of a layer differ."""
    folder = tmp_path_factory.mktemp("models")
    for layout in LAYOUTS:
        write_sample("qwen3.6-moe", folder / layout, experts=layout)
        for tensor in schemegen.plan(schemes["nvfp4"], folder / layout).tensors:
            if tensor.format is not None:
                enlarge(folder / layout / tensor.source.file, tensor)
    return {layout: folder / layout for layout in LAYOUTS}


def enlarge(path: Path, tensor: PlannedTensor) -> None:
    """Multiply each BF16 matrix by a power of two that follows from its module's name."""
    with path.open("r+b") as stream:
        stream.seek(tensor.source.offset)
        bits = np.frombuffer(stream.read(tensor.source.nbytes), np.uint16).reshape(tensor.matrices, -1)
        powers = np.array([[crc32(module.encode()) % 7] for module in tensor.modules], np.uint16)
        stream.seek(tensor.source.offset)
        stream.write(np.where(bits & 0x7F80, bits + (powers << 7), bits).astype(np.uint16).tobytes())


@dataclass(frozen=True)
class Made:
    """An output and the plan that it was made by."""

    path: Path
    source: Path
    plan: Plan

    @cached_property
    def quantized(self) -> tuple[PlannedTensor, ...]:
        return tuple(tensor for tensor in self.plan.tensors if tensor.format is not None)

    def stored(self, module: str) -> dict[str, Array]:
        """What is stored of a module, as unsigned integers, by suffix."""
        return {name.rpartition(".")[2]: items for name, items in self._outputs[module].items()}

    @cached_property
    def _outputs(self) -> dict[str, dict[str, Array]]:
        found: dict[str, dict[str, Array]] = {}
        for file in self.plan.files:
            for name, items in tensors_of(self.path / file):
                found.setdefault(name.rpartition(".")[0], {})[name] = items
        return found

    def weights(self) -> Iterator[tuple[str, Array]]:
        """Every quantized module with its BF16 bits [rows, columns]."""
        for tensor in self.quantized:
            with (self.source / tensor.source.file).open("rb") as stream:
                stream.seek(tensor.source.offset)
                bits = np.frombuffer(stream.read(tensor.source.nbytes), np.uint16)
            yield from zip(tensor.modules, bits.reshape(-1, *tensor.matrix_shape), strict=True)

    def contents(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.path.rglob("*.safetensors")}


def tensors_of(path: Path) -> Iterator[tuple[str, Array]]:
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    sizes = {"F32": 4, "I64": 8, "BF16": 2}
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name != "__metadata__":
            start, end = entry["data_offsets"]
            items = np.frombuffer(data, np.uint8, end - start, 8 + length + start)
            yield name, items.view(f"u{sizes.get(entry['dtype'], 1)}").reshape(entry["shape"])


def make(scheme: Path, source: Path, output: Path, device: str = "cpu", jobs: int = 2) -> Made:
    result = schemegen.apply(scheme, source, output, device=device, jobs=jobs)
    return Made(result.path, source, result.plan)


@pytest.fixture(scope="module")
def made(
    schemes: dict[str, Path], models: dict[Layout, Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, Layout], Made]:
    """Every scheme over every layout; nobody may change them."""
    folder = tmp_path_factory.mktemp("made")
    return {
        (kind, layout): make(schemes[kind], models[layout], folder / f"{kind}-{layout}")
        for kind in KINDS
        for layout in LAYOUTS
    }


every = pytest.mark.parametrize(("kind", "layout"), [(kind, layout) for kind in KINDS for layout in LAYOUTS])


@every
def test_planned_bytes_are_written_and_the_source_is_rounded_again(
    kind: str, layout: Layout, made: dict[tuple[str, Layout], Made]
) -> None:
    output = made[kind, layout]
    for file in output.plan.files:
        written = {name: items.nbytes for name, items in tensors_of(output.path / file)}
        assert written == {planned.name: planned.nbytes for planned in output.plan.outputs[file]}
    schemegen.verify(output.path, output.source)


@pytest.mark.parametrize("kind", KINDS)
def test_stored_tensors_do_not_depend_on_the_layout(kind: str, made: dict[tuple[str, Layout], Made]) -> None:
    fused, separate = (made[kind, layout] for layout in LAYOUTS)
    modules = [module for tensor in fused.quantized for module in tensor.modules]
    assert sorted(modules) == sorted(module for tensor in separate.quantized for module in tensor.modules)
    for module in modules:
        for suffix, items in fused.stored(module).items():
            np.testing.assert_array_equal(separate.stored(module)[suffix], items, f"{module}.{suffix}")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layers_that_engines_fuse_share_a_global_scale(layout: Layout, made: dict[tuple[str, Layout], Made]) -> None:
    output = made["nvfp4", layout]
    layers: dict[str, dict[str, int]] = {}
    for tensor in output.quantized:
        for module in tensor.modules:
            whole = int(output.stored(module)["weight_global_scale"][0])
            layers.setdefault(output.plan.layer_of(module), {})[module] = whole
    assert all(len(set(members.values())) == 1 for members in layers.values())
    sizes = {layer.rpartition(".")[2]: len(members) for layer, members in layers.items()}
    assert (sizes["qkv_proj"], sizes["gate_up_proj"], sizes["in_proj_qkvz"]) == (3, 2, 2)
    assert len({whole for members in layers.values() for whole in members.values()}) > 6
    experts = [layer for layer in layers if ".experts." in layer and layer.endswith("gate_up_proj")]
    assert len(experts) == 5 * 8


@every
def test_bits_equal_compressed_tensors_under_the_layers_largest_magnitude(
    kind: str, layout: Layout, made: dict[tuple[str, Layout], Made]
) -> None:
    pytest.importorskip("compressed_tensors")
    output = made[kind, layout]
    tops: dict[str, int] = {}
    for module, bits in output.weights():
        layer = output.plan.layer_of(module)
        tops[layer] = max(tops.get(layer, 0), int((bits & 0x7FFF).max()))
    for module, bits in output.weights():
        top = tops[output.plan.layer_of(module)]
        for suffix, items in peer(kind, bits, top).items():
            np.testing.assert_array_equal(output.stored(module)[suffix], items, f"{module}.{suffix}")


def arguments(kind: str) -> Any:
    from compressed_tensors.quantization import QuantizationArgs

    fields = {
        "nvfp4": {"strategy": "tensor_group", "group_size": 16, "scale_dtype": "float8_e4m3fn"},
        "mxfp4": {"strategy": "group", "group_size": 32, "scale_dtype": "uint8"},
    }[kind]
    zeros = fields["scale_dtype"]
    return QuantizationArgs(num_bits=4, type="float", zp_dtype=zeros, observer="memoryless_minmax", **fields)


def peer(kind: str, raw: Array, top: int) -> dict[str, Array]:
    """compressed-tensors' tensors of BF16 bits, given the bits of the layer's largest magnitude."""
    import torch
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationScheme
    from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam

    args = arguments(kind)
    weight = torch.from_numpy(raw.view(np.int16).copy()).view(torch.bfloat16)
    largest = torch.tensor([top], dtype=torch.int16).view(torch.bfloat16)
    whole = generate_gparam(-largest, largest) if kind == "nvfp4" else None
    groups = weight.unflatten(-1, (-1, args.group_size))
    scale, _ = calculate_qparams(groups.amin(-1), groups.amax(-1), args, global_scale=whole)
    state = {"weight": weight, "weight_scale": scale.to(torch.bfloat16)}
    if whole is not None:
        state["weight_global_scale"] = whole
    compressor = BaseCompressor.load_from_registry(f"{kind}-pack-quantized")
    made = compressor.compress(state, QuantizationScheme(targets=["Linear"], weights=args))
    return {suffix: items.view(torch.uint8).numpy().view(unsigned(items)) for suffix, items in made.items()}


def unsigned(tensor: Any) -> str:
    return f"u{tensor.element_size()}"


def test_bits_equal_model_free_ptq_where_it_fuses_the_same_layers(
    made: dict[tuple[str, Layout], Made], tmp_path: Path
) -> None:
    """For NVFP4 it fuses q, k and v of `self_attn`; of the experts one by one only down_proj stands alone as ours."""
    pytest.importorskip("llmcompressor")
    from compressed_tensors.quantization import QuantizationConfig, QuantizationScheme
    from llmcompressor import model_free_ptq

    for kind, targets in (
        ("nvfp4", ["re:.*self_attn.*_proj", "re:.*experts.*down_proj", "re:.*out_proj", "lm_head"]),
        ("mxfp4", ["re:.*self_attn.*_proj", "re:.*expert.*_proj", "re:.*in_proj_(qkv|z)", "re:.*out_proj", "lm_head"]),
    ):
        output = made[kind, "separate"]
        config = QuantizationConfig(
            config_groups={"fp4": QuantizationScheme(targets=targets, weights=arguments(kind))},
            ignore=["re:.*visual.*"],
        )
        model_free_ptq(str(output.source), str(tmp_path / kind), config=config, device="cpu")
        theirs = {name: items for path in (tmp_path / kind).glob("*.safetensors") for name, items in tensors_of(path)}
        compared = 0
        for tensor in output.quantized:
            for module in tensor.modules:
                if f"{module}.weight_packed" in theirs:
                    compared += 1
                    for suffix, items in output.stored(module).items():
                        np.testing.assert_array_equal(items, theirs[f"{module}.{suffix}"], f"{module}.{suffix}")
        assert compared > 40


@every
def test_bytes_do_not_depend_on_workers_or_on_torch(
    kind: str, layout: Layout, made: dict[tuple[str, Layout], Made], schemes: dict[str, Path], tmp_path: Path
) -> None:
    expected = made[kind, layout].contents()
    assert make(schemes[kind], made[kind, layout].source, tmp_path / "one", jobs=1).contents() == expected
    pytest.importorskip("torch")
    assert make(schemes[kind], made[kind, layout].source, tmp_path / "torch", "torch:cpu").contents() == expected


@every
def test_nor_on_the_cut_into_chunks(
    kind: str,
    layout: Layout,
    made: dict[tuple[str, Layout], Made],
    schemes: dict[str, Path],
    tmp_path: Path,
    small_steps: Any,
) -> None:
    output = make(schemes[kind], made[kind, layout].source, tmp_path / "out")
    assert small_steps.blocks > 10
    assert output.contents() == made[kind, layout].contents()
    schemegen.verify(output.path, output.source)


@pytest.mark.parametrize("kind", KINDS)
def test_nor_on_batches_of_chunks(
    kind: str, made: dict[tuple[str, Layout], Made], schemes: dict[str, Path], tmp_path: Path, small_steps: Any
) -> None:
    pytest.importorskip("torch")
    output = make(schemes[kind], made[kind, "fused"].source, tmp_path / "out", "torch:cpu")
    assert small_steps.blocks > 10
    # A chunk of NVFP4 goes alone: its layer's scale is not the next one's.
    assert (small_steps.batches > 10) == (kind == "mxfp4")
    assert output.contents() == made[kind, "fused"].contents()


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_stopped_goes_on_to_the_same_bytes(
    kind: str,
    made: dict[tuple[str, Layout], Made],
    schemes: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from schemegen.backends.native_rtn import NativeRtn

    class Stopped(KeyboardInterrupt):
        pass

    monkeypatch.setattr("schemegen.planner.chunks.CHUNK_BYTES", 50_000)
    quantize, calls = NativeRtn.quantize, iter(range(1000))

    def stopping(self: NativeRtn, *arguments: Any) -> None:
        if next(calls) == 17:
            raise Stopped
        quantize(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(NativeRtn, "quantize", stopping)
        with pytest.raises(Stopped):
            make(schemes[kind], made[kind, "fused"].source, tmp_path / "out", jobs=1)
    assert not (tmp_path / "out").exists()
    resumed = make(schemes[kind], made[kind, "fused"].source, tmp_path / "out")
    assert resumed.contents() == made[kind, "fused"].contents()


@pytest.fixture
def findings(made: dict[tuple[str, Layout], Made], forge: Callable[[Path], None], tmp_path: Path) -> Findings:
    """A factory: kind, piece of lm_head, what becomes of its middle item → its place, and the one finding of verify.

    The manifest is forged to match: digests tell nothing, only the source does.
    """

    def run(kind: str, suffix: str, change: Callable[[int], int]) -> tuple[tuple[int, ...], str, list[int], str]:
        output = made[kind, "fused"]
        copy = Path(shutil.copytree(output.path, tmp_path / "copy"))
        (piece,) = (o for t in output.quantized for o in t.outputs if o.name == f"lm_head.{suffix}")
        start = 8 + int.from_bytes((copy / piece.file).read_bytes()[:8], "little") + piece.offset
        items = np.memmap(copy / piece.file, "u4" if piece.dtype == "F32" else "u1", "r+", start, piece.shape)
        place = tuple(length // 2 for length in items.shape)
        items[place] = change(int(items[place]))
        items.flush()
        forge(copy)
        schemegen.verify(copy)
        with pytest.raises(VerificationError) as caught:
            schemegen.verify(copy, output.source)
        (found,) = caught.value.findings
        name, where, fault = re.fullmatch(r"lm_head\.(\w+) at (\[.*?\]) (.*)", found, re.DOTALL).groups()  # type: ignore[union-attr]
        return place, name, json.loads(where), fault

    return run


WRONG = "is not the code that the source's weight rounds to under the stored scale"
UNUSABLE = "is zero, infinite or no number"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bit", [0, 6])
def test_an_altered_code_is_found_against_the_source_alone(kind: str, bit: int, findings: Findings) -> None:
    (row, column), *found = findings(kind, "weight_packed", lambda item: item ^ 1 << bit)
    assert found == ["weight_packed", [row, 2 * column + bit // 4], WRONG]


@pytest.mark.parametrize(
    ("kind", "suffix", "bit"),
    [("nvfp4", "weight_scale", 3), ("nvfp4", "weight_global_scale", 23), ("mxfp4", "weight_scale", 0)],
)
def test_so_is_an_altered_scale_by_the_codes_under_it(kind: str, suffix: str, bit: int, findings: Findings) -> None:
    place, name, (row, column), fault = findings(kind, suffix, lambda item: item ^ 1 << bit)
    assert (name, fault) == ("weight_packed", WRONG)
    size = {"nvfp4": 16, "mxfp4": 32}[kind]
    assert suffix == "weight_global_scale" or (row, column // size) == place


@pytest.mark.parametrize(
    ("kind", "suffix", "item"),
    [("nvfp4", "weight_scale", 0x7F), ("nvfp4", "weight_global_scale", 0), ("mxfp4", "weight_scale", 0xFF)],
)
def test_and_a_scale_that_is_no_number(kind: str, suffix: str, item: int, findings: Findings) -> None:
    place, *found = findings(kind, suffix, lambda _: item)
    assert found == [suffix, list(place), UNUSABLE]


def test_a_weight_that_is_no_number_is_named_wherever_the_layer_meets_it(
    models: dict[Layout, Path], schemes: dict[str, Path], tmp_path: Path
) -> None:
    """The NaN of v_proj is found when another of its layer is made, and named as v_proj's."""
    source = Path(shutil.copytree(models["separate"], tmp_path / "model"))
    plan = schemegen.plan(schemes["nvfp4"], source)
    (tensor,) = (t for t in plan.tensors if t.name.endswith("layers.3.self_attn.v_proj.weight") and "mtp" not in t.name)
    with (source / tensor.source.file).open("r+b") as stream:
        stream.seek(tensor.source.offset + 2 * (5 * tensor.source.shape[1] + 9))
        stream.write(b"\xc0\x7f")
    with pytest.raises(CheckpointError, match=r"self_attn\.v_proj\.weight holds NaN or infinity at \[5, 9\]"):
        make(schemes["nvfp4"], source, tmp_path / "out")


def test_mse_is_refused_for_nvfp4_and_taken_for_mxfp4(
    models: dict[Layout, Path], schemes: dict[str, Path], tmp_path: Path
) -> None:
    chosen = {
        kind: schemes[kind].read_text().replace("group_size", "observer: mse, group_size")
        for kind in ("nvfp4", "mxfp4")
    }
    for kind, text in chosen.items():
        (tmp_path / f"{kind}.yaml").write_text(text)
    with pytest.raises(schemegen.errors.UnsupportedError, match="observer mse with one scale a fused layer"):
        schemegen.apply(tmp_path / "nvfp4.yaml", models["fused"], tmp_path / "out")
    pytest.importorskip("torch")
    output = make(tmp_path / "mxfp4.yaml", models["fused"], tmp_path / "out")
    schemegen.verify(output.path, output.source)
