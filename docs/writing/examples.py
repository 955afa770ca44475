"""An example of each error, raised for the page in an empty folder."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from unittest.mock import patch

import schemegen
from schemegen.catalog import load_catalog
from schemegen.checkpoint.sample import write_sample
from schemegen.errors import (
    CheckpointError,
    DuplicateNameError,
    OutputError,
    PlanError,
    PluginError,
    SchemeFileError,
    SchemegenError,
    UnknownNameError,
    UnsupportedError,
    VerificationError,
)
from schemegen.registry import Registry
from schemegen.scheme import Scheme

_SAMPLE: Final = "sample:qwen3.6-moe"
_SCHEME: Final = """\
schema_version: 1
name: mine
summary: An example
formats: {int4: {num_bits: 4, type: int, strategy: group, group_size: 32}}
policy: experts-only
"""


@dataclass(frozen=True, slots=True)
class Example:
    """An error, when it comes, and what makes it come; the working folder is an empty one."""

    error: type[SchemegenError]
    when: str
    act: Callable[[], object]


def raised(example: Example) -> str:
    """The message; AssertionError where the error does not come."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        try:
            example.act()
        except example.error as error:
            return str(error).replace(f"{Path.cwd()}/", "")
    raise AssertionError(f"no {example.error.__name__} {example.when}")


def _unknown() -> None:
    with patch.dict(os.environ, SCHEMEGEN_PLUGINS="off"):
        schemegen.plan("kimi-k2-int5", _SAMPLE)


def _twice() -> None:
    registry, scheme = Registry("scheme", Scheme), load_catalog().schemes.get("kimi-k2-int4")
    registry.add_all([scheme], origin="schemegen")
    registry.add_all([scheme], origin="acme-schemes 1.0")


def _broken_plugin() -> None:
    """A distribution on the path whose module has a hook's name misspelt."""
    facts = Path("acme_schemes-1.0.dist-info")
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-schemes\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[schemegen]\nacme = acme_schemes\n")
    code = "from schemegen import hookimpl\n\n@hookimpl\ndef schemegen_register_shemes():\n    return []\n"
    Path("acme_schemes.py").write_text(code)
    try:
        with patch.object(sys, "path", [str(Path.cwd()), *sys.path]), patch.dict(os.environ, SCHEMEGEN_STRICT="1"):
            load_catalog()
    finally:
        sys.modules.pop("acme_schemes", None)


def _file() -> None:
    text = _SCHEME.replace("group_size: 32", "group_size: 0").replace("policy:", "polcy:")
    Path("mine.yaml").write_text(text)
    schemegen.load_scheme("mine.yaml")


def _unsupported() -> None:
    Path("mine.yaml").write_text(_SCHEME + "calibration: {dataset: acme/texts}\n")
    schemegen.plan("mine.yaml", _SAMPLE)


def _checkpoint() -> None:
    write_sample("qwen3.6-moe", Path("model"))
    min(Path("model").glob("*.safetensors")).unlink()
    schemegen.plan("kimi-k2-int4", "model")


def _plan() -> None:
    rule = "[{part: text, role: routed_expert, layers: '0', projection: down, use: int4}]"
    Path("mine.yaml").write_text(_SCHEME.replace("32", "100").replace("experts-only", rule))
    schemegen.plan("mine.yaml", _SAMPLE)


def _output() -> None:
    write_sample("qwen3.6-moe", Path("model"))
    schemegen.apply("kimi-k2-int4", "model", "model/quantized")


def _changed() -> None:
    schemegen.apply("kimi-k2-int4", _SAMPLE, "out")
    config = json.loads(Path("out/config.json").read_text())
    Path("out/config.json").write_text(json.dumps(config | {"tie_word_embeddings": True}))
    schemegen.verify("out")


EXAMPLES: Final = (
    Example(UnknownNameError, "`schemegen plan kimi-k2-int5 MODEL`", _unknown),
    Example(DuplicateNameError, "where a plugin brings a scheme of a built-in one's name", _twice),
    Example(PluginError, "where the name of a plugin's hook is misspelt, under `SCHEMEGEN_STRICT=1`", _broken_plugin),
    Example(SchemeFileError, "for a file with three faults", _file),
    Example(UnsupportedError, "for a scheme with calibration, which no backend takes", _unsupported),
    Example(CheckpointError, "where a shard is missing", _checkpoint),
    Example(PlanError, "for groups of 100 on a model whose rows they do not divide", _plan),
    Example(OutputError, "for an output inside the model's folder", _output),
    Example(VerificationError, "where a result's `config.json` was edited", _changed),
)
