"""SGLang without a GPU: its matching functions, and from its sources what its classes build and its server takes.

The package itself cannot be imported without CUDA; the file with the functions can be loaded, the others parsed.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import distribution, version
from pathlib import Path
from types import ModuleType
from typing import Any

VERSION = version("sglang")
_CLASSES = {
    "Qwen3VLForConditionalGeneration": "qwen3_vl",
    "Qwen3_5ForCausalLM": "qwen3_5",
    "Qwen3_5AttentionDecoderLayer": "qwen3_5",
    "Qwen3_5GatedDeltaNet": "qwen3_5",
    "Qwen3_5ForCausalLMMTP": "qwen3_5_mtp",
    "Qwen2MoeSparseMoeBlock": "qwen2_moe",
    "Qwen2MoeMLP": "qwen2_moe",
}


@dataclass(frozen=True, slots=True)
class Built:
    """A module that a class builds: its name below the class, its own class, whether it is handed a quant_config."""

    name: str
    kind: str
    quantizable: bool


def matching() -> ModuleType:
    """SGLang's `should_ignore_layer`, `find_matched_target` and `check_equal_or_regex_match`."""
    path = _path("layers/quantization/compressed_tensors/utils.py")
    spec = importlib.util.spec_from_file_location("sglang_matching", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with warnings.catch_warnings():
        # torch's own, about itself.
        warnings.simplefilter("ignore", DeprecationWarning)
        spec.loader.exec_module(module)
    return module


def fused_layers() -> dict[str, list[str]]:
    """The model's `packed_modules_mapping`, which matching is given."""
    for node in _class("Qwen3_5ForCausalLM").body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "packed_modules_mapping":
            found: dict[str, list[str]] = ast.literal_eval(node.value)
            return found
    raise LookupError("SGLang's Qwen3_5ForCausalLM has no packed_modules_mapping any more")


@cache
def built(class_name: str) -> tuple[Built, ...]:
    """What the class builds under `add_prefix("name", prefix)`, each name once."""
    found = {module.name: module for module in _calls(_class(class_name))}
    return tuple(found.values())


def argument_parser() -> argparse.ArgumentParser:
    """The server's flags as its sources declare them: what takes no value, what takes a number; none shortened."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for path in sorted(_path("arg_groups/fields").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation).startswith("A["):
                _add_field(parser, ast.unparse(node.target), ast.unparse(node.annotation))
    # The one of the others, which are added by hand, that cards have.
    assert '"--reasoning-parser"' in _path("server_args.py").read_text()
    parser.add_argument("--reasoning-parser", choices=_reasoning_parsers())
    return parser


def _add_field(parser: argparse.ArgumentParser, name: str, annotation: str) -> None:
    if not any(word in annotation for word in ("no_cli=True", "cli_name=", "action=")):
        kind = annotation.removeprefix("A[").partition(",")[0]
        taken: dict[str, Any] = {"action": "store_true"} if kind == "bool" else {"type": int if "int" in kind else str}
        parser.add_argument("--" + name.replace("_", "-"), **taken)


def _reasoning_parsers() -> list[str]:
    tree = ast.parse(_path("parser/reasoning_parser_names.py").read_text())
    lists = (node.value for node in ast.walk(tree) if isinstance(node, ast.Assign))
    found: list[str] = ast.literal_eval(next(lists))
    return found


def _calls(node: ast.ClassDef) -> Iterator[Built]:
    for call in ast.walk(node):
        if isinstance(call, ast.Call):
            keywords = {keyword.arg: keyword.value for keyword in call.keywords}
            prefix, given = keywords.get("prefix"), keywords.get("quant_config")
            if isinstance(prefix, ast.Call) and ast.unparse(prefix.func) == "add_prefix":
                # Handed over by position in the drafter.
                by_position = any(ast.unparse(argument) == "quant_config" for argument in call.args)
                takes = by_position or (given is not None and ast.unparse(given) != "None")
                yield Built(ast.literal_eval(prefix.args[0]), _kind(call), takes)


def _kind(call: ast.Call) -> str:
    """The class that is built; methods that build one return a merged linear layer."""
    name = ast.unparse(call.func)
    if name.startswith("get_moe_impl_class"):
        return "FusedMoE"
    return "MergedColumnParallelLinear" if name.startswith("self.create_") else name


@cache
def _class(name: str) -> ast.ClassDef:
    tree = ast.parse(_path(f"models/{_CLASSES[name]}.py").read_text())
    return next(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == name)


def _path(name: str) -> Path:
    return Path(str(distribution("sglang").locate_file(f"sglang/srt/{name}")))
