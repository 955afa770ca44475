"""Loads checkpoints with vLLM's model classes and loader, trunk and drafter, and stops before any kernel is needed.

`python -m tests_engines.vllm_load REQUEST.json ANSWER.json`: the request lists folders; all in one process, a second
each. Where the CPU has no kernel for a format a stand-in takes its place, for none is run; parameters are vLLM's own.
"""

from __future__ import annotations

import enum
import importlib
import json
import os
import pkgutil
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

from bench.quality.generation import ENVIRONMENT

_CHOICE = re.compile(r"select_\w+_moe_backend|init_\w+_linear_kernel|choose_\w+_kernel")
_EXPERT = re.compile(r"(.+\.experts)\.(\d+)\.(gate|up|down)_proj\.(\w+)")
_ORACLES = "vllm.model_executor.layers.fused_moe.oracle."
_ENGINE = {"dtype": "bfloat16", "max_model_len": 512, "enforce_eager": True, "enable_prefix_caching": False}
_SPECULATIVE = {"method": "mtp", "num_speculative_tokens": 1}


def main() -> None:
    """Command line."""
    os.environ.update(ENVIRONMENT | {"VLLM_LOGGING_LEVEL": "ERROR"})
    stand_in_for_kernels()
    folders = json.loads(Path(sys.argv[1]).read_text())
    Path(sys.argv[2]).write_text(json.dumps({folder: answer(folder) for folder in folders}))


def answer(folder: str) -> dict[str, Any]:
    """What vLLM made of a checkpoint, or the error that it raised."""
    try:
        return loaded(folder)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def stand_in_for_kernels() -> None:
    """Let a choice of kernels that fails give a stand-in, in every module of vLLM's compressed-tensors schemes."""
    import vllm.model_executor.layers.quantization.compressed_tensors as package

    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        with suppress(ImportError):  # other hardware's
            _replace_choices(importlib.import_module(found.name))


def _replace_choices(module: ModuleType) -> None:
    for name in filter(_CHOICE.fullmatch, list(vars(module))):
        setattr(module, name, _with_stand_in(getattr(module, name)))


def _with_stand_in(choose: Callable[..., Any]) -> Callable[..., Any]:
    def chosen(*args: Any, **named: Any) -> Any:
        kernel = MagicMock(__name__="stand-in")
        if choose.__name__.startswith("select"):
            return _backend(choose), kernel
        try:
            return choose(*args, **named)
        except (NotImplementedError, ValueError):
            return kernel

    return chosen


def _backend(choose: Callable[..., Any]) -> Any:
    """A GPU's member of the enumeration that a choice of experts' kernels answers with: Marlin where there is one."""
    oracles = [module for name, module in sys.modules.items() if name.startswith(_ORACLES)]
    oracle = next(module for module in oracles if hasattr(module, choose.__name__))
    kinds = [kind for kind in vars(oracle).values() if isinstance(kind, type) and issubclass(kind, enum.Enum)]
    backends = [kind for kind in kinds if kind.__name__.lower().endswith("moebackend")]
    return next(
        backend["MARLIN" if "MARLIN" in backend.__members__ else next(iter(backend.__members__))]
        for backend in backends
    )


def loaded(folder: str) -> dict[str, Any]:
    """Lookups, and how the parameters of quantized modules compare with what is stored; of the rest, those not loaded.

    `lookups`: (part, module, vLLM's class, format). `fused`, `renamed`: see `running.VllmRun`.
    """
    from vllm.config import set_current_vllm_config
    from vllm.engine.arg_utils import EngineArgs

    arguments = EngineArgs(model=folder, skip_tokenizer_init=True, speculative_config=dict(_SPECULATIVE), **_ENGINE)
    config = arguments.create_engine_config()
    stored = _stored(Path(folder))
    found: dict[str, Any] = {"lookups": [], "fused": {}, "compared": [], "differing": [], "missing": []}
    with set_current_vllm_config(config):
        _one_process()
        trunk = _load(config, config.model_config, "trunk", found)
        mapper = trunk.hf_to_vllm_mapper
        found["renamed"] = {name: name if name.startswith("mtp.") else mapper._map_name(name) for name in stored}
        _compare(trunk, {found["renamed"][n]: t for n, t in stored.items() if not n.startswith("mtp.")}, found)
        drafter = _load(config, config.speculative_config.draft_model_config, "drafter", found)
        _compare(drafter, {n: t for n, t in stored.items() if n.startswith("mtp.")}, found)
    return found


def _one_process() -> None:
    from torch import distributed
    from vllm.distributed import ensure_model_parallel_initialized, init_distributed_environment

    if not distributed.is_initialized():
        init_distributed_environment(1, 0, _rendezvous(), 0, "gloo")
        ensure_model_parallel_initialized(1, 1)


def _rendezvous() -> str:
    from tempfile import mkdtemp

    return f"file://{mkdtemp()}/rendezvous"


def _stored(folder: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    return {name: tensor for shard in sorted(folder.glob("*.safetensors")) for name, tensor in load_file(shard).items()}


def _load(config: Any, model_config: Any, part: str, found: dict[str, Any]) -> Any:
    """One of vLLM's models, built with a watch on its lookups, filled with what no checkpoint holds, and loaded."""
    import torch
    from vllm.model_executor.model_loader import get_model_loader
    from vllm.model_executor.model_loader.utils import initialize_model
    from vllm.utils.torch_utils import set_default_torch_dtype

    with set_default_torch_dtype(torch.bfloat16), _watched(part, found):
        model = initialize_model(config, model_config=model_config)
    for parameter in model.parameters():
        _spoil(parameter.data)
    get_model_loader(config.load_config).load_weights(model, model_config)
    named = ((name, parameter) for name, parameter in model.named_parameters() if parameter.numel() > 1)
    wide = ((name, value) for name, value in named if value.is_floating_point() and value.element_size() > 1)
    found["missing"] += [f"{part} {name}" for name, parameter in wide if bool(parameter.isnan().any())]
    return model


def _spoil(values: Any) -> None:
    """NaN, or the bits of one."""
    import torch

    if values.is_floating_point() and values.element_size() > 1:
        values.fill_(float("nan"))
    elif values.numel():
        values.view(torch.uint8).fill_(0xFF)


@contextmanager
def _watched(part: str, found: dict[str, Any]) -> Iterator[None]:
    """Write down what vLLM's matcher says to each module, while a model is built."""
    from vllm.model_executor.layers.quantization.compressed_tensors.compressed_tensors import CompressedTensorsConfig

    choose = CompressedTensorsConfig.get_quant_method

    def get_quant_method(config: Any, layer: Any, prefix: str) -> Any:
        method = choose(config, layer, prefix)
        found["fused"] |= config.packed_modules_mapping
        if type(layer).__name__ != "Attention":  # which asks about its cache
            found["lookups"].append((part, prefix, type(layer).__name__, _format(config, layer, prefix)))
        return method

    CompressedTensorsConfig.get_quant_method = get_quant_method
    try:
        yield
    finally:
        CompressedTensorsConfig.get_quant_method = choose


def _format(config: Any, layer: Any, prefix: str) -> str | None:
    """The format that vLLM has found, in the words of `schemes.summary_of`; of experts by the name it asks for."""
    from vllm.model_executor.layers.fused_moe import RoutedExperts

    is_experts = isinstance(layer, RoutedExperts)
    name = f"{prefix}.0.{layer.ckpt_gate_proj_name}" if is_experts else prefix
    scheme = config.get_scheme_dict(layer, name)
    if scheme is None:
        return None
    weights, acts = scheme["weights"], scheme.get("input_activations")
    told = "" if acts is None else f" with {acts.type}{acts.num_bits} {acts.strategy}"
    return f"{weights.type}{weights.num_bits} {weights.strategy} {weights.group_size} {weights.symmetric}{told}"


def _compare(model: Any, stored: dict[str, Any], found: dict[str, Any]) -> None:
    """Every parameter of a quantized module with the stored tensors that it takes, joined as vLLM joins them."""
    # The drafter calls itself model, experts lie one level deeper than they are named.
    plain = {
        name.replace(".experts.routed_experts.", ".experts."): parameter for name, parameter in model.named_parameters()
    }
    for name, wanted in _expected(stored, found["fused"]).items():
        held = plain.get(name, plain.get(name.replace("mtp.", "model.", 1)))
        found["compared"].append(name)
        if held is None or not is_same(held.data, wanted):
            found["differing"].append(name)


def is_same(held: Any, wanted: Any) -> bool:
    """Whether a parameter of vLLM's holds the stored values bit for bit, in its own dtype."""
    import torch

    if wanted.ndim == 1 and held.numel() > wanted.numel():
        # Numbers of whole matrices, each of which vLLM holds once for every matrix that it counts in one.
        held, wanted = (torch.unique_consecutive(values.flatten()) for values in (held, wanted))
    cast = wanted.to(held.dtype) if wanted.is_floating_point() and held.dtype != wanted.dtype else wanted
    return bool(cast.dtype == held.dtype) and torch.equal(
        held.flatten().contiguous().view(torch.uint8), cast.flatten().contiguous().view(torch.uint8)
    )


def _expected(stored: dict[str, Any], fused: dict[str, list[str]]) -> dict[str, Any]:
    """By vLLM's parameter, what it must hold; shapes of matrices, which nobody reads, left out."""
    import torch

    quantized = {name.removesuffix("_scale") for name in stored if name.endswith(".weight_scale")}
    of = {member: layer for layer, members in fused.items() for member in members}
    stacks: dict[str, dict[Any, Any]] = defaultdict(dict)
    for name, tensor in stored.items():
        module, _, suffix = name.rpartition(".")
        if f"{module}.weight" not in quantized or suffix == "weight_shape":
            continue
        if parts := _EXPERT.fullmatch(name):
            projection = ("gate", "up", "down").index(parts[3])
            stacks[f"{parts[1]}.{'w2' if projection == 2 else 'w13'}_{suffix}"][int(parts[2]), projection] = tensor
        else:
            parent, _, last = module.rpartition(".")
            place = fused[of[last]].index(last) if last in of else 0
            stacks[f"{parent}.{of.get(last, last)}.{suffix}".removeprefix(".")][0, place] = tensor
    return {name: torch.cat([tensor for _, tensor in sorted(parts.items())]) for name, parts in stacks.items()}


if __name__ == "__main__":
    main()
