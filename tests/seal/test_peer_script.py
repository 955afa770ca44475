"""The llm-compressor script: run as it stands in a card, it makes the tensors of the output that the card lies in."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import schemegen
from bench.compare import stored_tensors, tensor_differences
from schemegen import Scheme
from schemegen.architectures.qwen3_5_moe import QWEN3_5_MOE
from schemegen.checkpoint.model import Unindexed
from schemegen.checkpoint.sample import write_sample
from schemegen.engines import declare
from schemegen.seal import Sealing
from schemegen.seal.patterns import quantized_of
from schemegen.seal.peer_script import PeerScript, peer_script

MakeSealing = Callable[..., Sealing]
PEER = "llm-compressor"
MakeScript = Callable[..., PeerScript | None]
needs_peer = pytest.mark.skipif(find_spec("llmcompressor") is None, reason="llm-compressor is not installed")
INT8 = {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": True}
INT4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": True}


TOKEN = {"num_bits": 8, "strategy": "token", "dynamic": True}
FP8 = {"num_bits": 8, "type": "float", "strategy": "channel", "input_activations": {**TOKEN, "type": "float"}}
NVFP4 = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}
MANY = {"experts": INT4, "shared": {**INT8, "symmetric": False}, "linear": FP8, "full": NVFP4}
MANY_POLICY = [
    {"role": "routed_expert", "use": "experts"},
    {"role": "shared_expert", "use": "shared"},
    {"role": "linear_attention", "use": "linear"},
    {"role": "attention", "use": "full"},
]


def scheme(weights: Mapping[str, Any] = INT4, policy: Any = "experts-only") -> Scheme:
    """A scheme with one format."""
    return mixed({"f": weights}, policy)


def mixed(formats: Mapping[str, Any], policy: Any) -> Scheme:
    """A scheme with several."""
    fields = {"schema_version": 1, "name": "other", "summary": "another", "policy": policy}
    return Scheme.model_validate({**fields, "formats": formats})


@pytest.fixture
def make_script(sample_folder: Path, finished: Path, make_sealing: MakeSealing) -> MakeScript:
    """A factory: policies and changed fields → the script."""

    def make(*policies: str, same_bits_as: str | None = PEER, **changes: object) -> PeerScript | None:
        told = {"same_bits_as": same_bits_as}
        sealing = make_sealing(sample_folder, finished, *policies, told=told, **changes)
        ignore = declare(sealing.plan, QWEN3_5_MOE)["ignore"]
        return peer_script(sealing, quantized_of(sealing.plan), ignore, "name")

    return make


#: Layout of all experts, dtype, scheme and policies.
CASES: dict[str, tuple[Any, Any, Any, list[str]]] = {
    "fused": ("fused", "BF16", "kimi-k2-int4", []),
    "one by one": ("separate", "F16", "kimi-k2-int4", []),
    "channels of 8 bits": ("fused", "F32", scheme(INT8), []),
    "activations": ("separate", "BF16", scheme({**INT8, "input_activations": TOKEN}), []),
    "packed beside activations": (
        "fused",
        "BF16",
        scheme({**INT4, "group_size": 128, "storage": "pack-quantized", "input_activations": FP8["input_activations"]}),
        [],
    ),
    "four formats": ("fused", "BF16", mixed(MANY, MANY_POLICY), []),
    "four formats, MTP kept": ("separate", "F16", mixed(MANY, MANY_POLICY), ["keep-mtp"]),
    "no experts": ("separate", "BF16", scheme(policy=[{"role": ["attention", "shared_expert"], "use": "f"}]), []),
}
STACKED_CASES: dict[str, tuple[Any, Any, Any, list[str]]] = {
    "fused, MTP kept": ("fused", "BF16", "kimi-k2-int4", ["keep-mtp"]),
    "fused, layers kept": ("fused", "BF16", scheme(policy=[{"layers": "0,2", "use": "keep"}, "experts-only"]), []),
}
RUN_ALL = """
import os, sys
for folder in sys.argv[1:]:
    os.chdir(folder)
    # Small matrices gain nothing from many workers, which wait for one another.
    exec(open("script.py").read().replace("max_workers=8", "max_workers=1"), {})
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, tuple[Path, Path]]:
    """By case: an output, and the folder that the script of its card makes. All scripts share one process."""
    root = tmp_path_factory.mktemp("scripts")
    found = {}
    for case, (experts, dtype, chosen, policies) in (CASES | STACKED_CASES).items():
        folder = root / case
        write_sample("qwen3.6-moe", folder / "model", experts=experts, mtp_experts=experts, dtype=dtype)
        schemegen.apply(chosen, folder / "model", folder / "ours", policies=policies)
        script = script_of(folder / "ours" / "README.md")
        (folder / "script.py").write_text(script)
        found[case] = folder / "ours", folder / str(re.findall(r'save_directory="(.*)"', script)[0])
    command = [sys.executable, "-c", RUN_ALL, *(str(root / case) for case in found)]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return found


def script_of(card: Path) -> str:
    """The llm-compressor script of a card."""
    blocks = re.findall(r"^```python\n(.*?)^```$", card.read_text(), re.MULTILINE | re.DOTALL)
    (script,) = (block for block in blocks if "llmcompressor" in block)
    return str(script)


@needs_peer
@pytest.mark.parametrize("case", CASES)
def test_it_makes_every_tensor_bit_for_bit(made: Mapping[str, tuple[Path, Path]], case: str) -> None:
    ours, theirs = made[case]
    assert list(tensor_differences(ours, theirs, same_shards=True)) == []
    assert "one by one" not in (ours / "README.md").read_text()


@needs_peer
@pytest.mark.parametrize("case", STACKED_CASES)
def test_kept_experts_have_their_values_one_by_one(made: Mapping[str, tuple[Path, Path]], case: str) -> None:
    ours, theirs = made[case]
    assert "stores the kept experts one by one" in (ours / "README.md").read_text()
    stored = stored_tensors(ours)
    stacks = {name for name in stored if re.search(r"experts\.(gate_up|down)_proj$", name)}
    assert stacks
    single = {name: raw for stack in stacks for name, raw in one_by_one(ours, stack)}
    assert stored_tensors(theirs).keys() == (stored.keys() - stacks) | single.keys()
    differences = list(tensor_differences(ours, theirs, same_shards=True))
    assert all(": only in " in line for line in differences), differences
    for name, raw in single.items():
        assert content(theirs, name) == raw, name


def content(folder: Path, name: str) -> bytes:
    """The bytes of a tensor."""
    tensor = stored_tensors(folder)[name]
    return (folder / tensor.file).read_bytes()[tensor.start : tensor.stop]


def one_by_one(folder: Path, stack: str) -> Iterator[tuple[str, bytes]]:
    """Each matrix of a stack of experts, by the name it has alone."""
    module, _, fused = stack.rpartition(".")
    words = ["gate_proj", "up_proj"] if fused == "gate_up_proj" else ["down_proj"]
    experts, raw = stored_tensors(folder)[stack].shape[0], content(folder, stack)
    size = len(raw) // (experts * len(words))
    names = [f"{module}.{expert}.{word}.weight" for expert in range(experts) for word in words]
    for place, name in enumerate(names):
        yield name, raw[place * size : (place + 1) * size]


def test_it_says_what_the_plan_says(make_script: MakeScript) -> None:
    script = make_script()
    assert script is not None
    assert 'targets=[r"re:.*mlp\\.experts\\.\\d+\\.(gate_proj|up_proj|down_proj)$"],' in script.text
    assert "ignore" not in script.text
    assert not script.unstacks
    assert 'num_bits=4, type="int", strategy="group", group_size=32, symmetric=True' in script.text
    assert 'model_stub="qwen3.6-moe",' in script.text
    compile(script.text, "script", "exec")


def test_what_a_policy_keeps_is_ignored(make_script: MakeScript) -> None:
    script = make_script("keep-mtp")
    assert script is not None
    assert '    ignore=[r"re:.*mtp\\..*"],' in script.text
    assert script.unstacks


@pytest.mark.parametrize(
    ("changes", "stub"),
    [
        ({"model_id": "a/b"}, 'model_stub="a/b",'),
        ({"model_id": "a/b", "revision": "abc"}, 'model_stub=snapshot_download("a/b", revision="abc"),'),
        ({"model_id": "sample:qwen3.6-moe"}, 'model_stub=open_checkpoint("sample:qwen3.6-moe").root,'),
        ({"model_id": 'x"\n```\nimport os'}, 'model_stub="x\\"\\n```\\nimport os",'),
        ({"model_id": "größe"}, 'model_stub="gr\\u00f6\\u00dfe",'),
    ],
)
def test_it_reads_the_model_where_it_lies(make_script: MakeScript, changes: dict[str, object], stub: str) -> None:
    script = make_script(**changes)
    assert script is not None
    assert f"    {stub}\n" in script.text
    compile(script.text, "script", "exec")
    assert not any(line.startswith("```") for line in script.text.splitlines())


@pytest.mark.parametrize(
    "changes",
    [
        {"same_bits_as": None},
        {"same_bits_as": "another tool"},
        {"unindexed": (Unindexed("consolidated.safetensors", 1, False),)},
    ],
)
def test_without_a_faithful_script_there_is_none(make_script: MakeScript, changes: dict[str, Any]) -> None:
    assert make_script() is not None
    assert make_script(**changes) is None


def changed(sealing: Sealing, formats: Mapping[str, Any], **changes: Any) -> PeerScript | None:
    """The script of a plan whose formats are others than it was made with."""
    others = sealing.plan.scheme.model_copy(update={"formats": mixed(formats, "experts-only").formats})
    plan = replace(sealing.plan, scheme=others, **changes)
    return peer_script(replace(sealing, plan=plan), quantized_of(plan), [], "name")


def test_layers_of_two_formats_make_none(sample_folder: Path, finished: Path, make_sealing: MakeSealing) -> None:
    """Patterns say nothing of layers: the first format would take the second one's modules."""
    sealing = make_sealing(sample_folder, finished, told={"same_bits_as": PEER})
    tensors = tuple(
        replace(tensor, format="int8") if tensor.format and tensor.layer == 2 else tensor
        for tensor in sealing.plan.tensors
    )
    assert changed(sealing, {"int4": INT4, "int8": INT8}) is not None
    assert changed(sealing, {"int4": INT4, "int8": INT8}, tensors=tensors) is None


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"symmetric": False}, "symmetric=False),"),
        ({"observer": "mse"}, 'symmetric=True, observer="memoryless_mse"),'),
        ({"type": "float"}, 'scale_dtype="uint8"),\n    format="mxfp4-pack-quantized",'),
        (
            {"input_activations": TOKEN, "storage": "pack-quantized"},
            'QuantizationArgs(num_bits=8, type="int", strategy="token", symmetric=True, dynamic=True),\n'
            '    format="pack-quantized",\n',
        ),
    ],
    ids=str,
)
def test_it_says_what_the_format_says(
    sample_folder: Path, finished: Path, make_sealing: MakeSealing, fields: dict[str, Any], told: str
) -> None:
    sealing = make_sealing(sample_folder, finished, told={"same_bits_as": PEER})
    script = changed(sealing, {"int4": {**INT4, **fields}})
    assert script is not None
    assert told in script.text


@pytest.mark.parametrize(
    "field",
    [
        {"narrow_range": True},
        {"observer": "signed_mse"},
        {"observer": "imatrix"},
        {"actorder": "static"},
        {**NVFP4},
        {"num_bits": 8, "type": "float", "strategy": "block", "group_size": None, "block_structure": [128, 128]},
    ],
    ids=str,
)
def test_a_format_that_it_rounds_otherwise_has_none(
    sample_folder: Path, finished: Path, make_sealing: MakeSealing, field: dict[str, Any]
) -> None:
    sealing = make_sealing(sample_folder, finished, told={"same_bits_as": PEER})
    assert changed(sealing, {"int4": INT4}) is not None
    assert changed(sealing, {"int4": {**INT4, **field}}) is None


def test_targets_that_hit_what_is_kept_make_none(
    sample_folder: Path, finished: Path, make_sealing: MakeSealing
) -> None:
    sealing = make_sealing(sample_folder, finished, "keep-mtp", told={"same_bits_as": PEER})
    assert peer_script(sealing, quantized_of(sealing.plan), [], "name") is None
