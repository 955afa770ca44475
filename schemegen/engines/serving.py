"""How engines serve an output: the command lines of vLLM and SGLang, with what the model's parts allow."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from schemegen.architectures.base import Architecture, Part
from schemegen.architectures.known import ARCHITECTURES
from schemegen.checkpoint.model import Checkpoint
from schemegen.planner import Plan

#: By the word that a scheme's `served_by` has for it.
ENGINES: Final[Mapping[str, str]] = {"vllm": "vLLM", "sglang": "SGLang", "transformers": "transformers"}
#: The releases whose sources were read.
VERSIONS: Final[Mapping[str, str]] = {"vLLM": "0.32", "SGLang": "0.5.23", "transformers": "5.17"}
#: Those with a command line.
SERVERS: Final = ("vLLM", "SGLang")
PORT: Final = 8000
_CONTEXT: Final = 8192
#: Both engines' reasoning parsers need the closing mark in the vocabulary.
_MARK: Final = b"</think>"
_VOCABULARIES: Final = ("tokenizer.json", "tokenizer_config.json")
_MAX_BYTES: Final = 64 << 20
_TEXT_ONLY: Final = ("--language-model-only", "serve text alone, without the vision tower")
#: One draft token in vLLM: a block that was trained for one guesses it best. SGLang's are its defaults for models of
#: this kind.
_VLLM_DRAFT: Final = """--speculative-config '{"method": "mtp", "num_speculative_tokens": 1}'"""
_SGLANG_DRAFT: Final = (
    "--speculative-algorithm NEXTN --speculative-num-steps 3 --speculative-eagle-topk 1"
    " --speculative-num-draft-tokens 4"
)
_DRAFT: Final = "draft tokens with the MTP block (speculative decoding)"


class Serving(NamedTuple):
    """An engine, its command line by line, and what may be added: flags and what they are for."""

    engine: str
    command: tuple[str, ...]
    additions: tuple[tuple[str, str], ...]


def serve_command(name: str) -> str:
    """The shortest command line that serves a folder or a model of the Hub."""
    return f"vllm serve {shlex.quote(name)}"


def untried_notes(architecture: Architecture) -> tuple[str, ...]:
    """What to say of a family that is not schemegen's own: the rules and flags are those of families that are."""
    if architecture.name in {known.name for known in ARCHITECTURES}:
        return ()
    told = f"architecture {architecture.name} is a plugin's, and nobody here has looked up or tried if engines serve it"
    return (f"{told}; what is said of engines, and the command lines, are those of other families",)


def servings(plan: Plan, checkpoint: Checkpoint, architecture: Architecture, name: str) -> tuple[Serving, ...]:
    """How vLLM and SGLang serve the output that is called `name`."""
    context = _context(checkpoint.config)
    parser = _reasoning(checkpoint, architecture)
    parsed = (f"--reasoning-parser {shlex.quote(parser)}",) if parser else ()
    vllm = (serve_command(name), "--tensor-parallel-size 1", f"--max-model-len {context}", *parsed)
    sglang = (
        f"python -m sglang.launch_server --model-path {shlex.quote(name)}",
        f"--port {PORT}",
        "--tp-size 1",
        f"--context-length {context}",
        *parsed,
    )
    return (
        Serving("vLLM", vllm, tuple(_additions(plan, _VLLM_DRAFT))),
        Serving("SGLang", sglang, tuple(_additions(plan, _SGLANG_DRAFT))),
    )


def _additions(plan: Plan, draft: str) -> Iterator[tuple[str, str]]:
    parts = {row.part for row in plan.totals.by_role}
    if Part.VISION in parts:
        yield _TEXT_ONLY
    if Part.MTP in parts:
        yield draft, _DRAFT


def _context(config: Mapping[str, Any]) -> int:
    """Tokens of context: a modest number that fits one GPU, or the model's own where that is less."""
    text = config.get("text_config")
    places = (config, text) if isinstance(text, Mapping) else (config,)
    found = [place.get("max_position_embeddings") for place in places]
    return min([_CONTEXT, *(number for number in found if type(number) is int and number > 0)])


def _reasoning(checkpoint: Checkpoint, architecture: Architecture) -> str | None:
    """The parser of the model's thoughts, where its vocabulary has a mark for their end."""
    names = {file.name for file in checkpoint.side_files if file.size <= _MAX_BYTES}
    found = (name for name in _VOCABULARIES if name in names and _holds_mark(checkpoint, name))
    return architecture.reasoning_parser if architecture.reasoning_parser and next(found, None) else None


def _holds_mark(checkpoint: Checkpoint, name: str) -> bool:
    try:
        return _MARK in checkpoint.path(name).read_bytes()
    except OSError:
        return False
