"""llm-compressor as a backend of schemegen: `schemegen apply SCHEME MODEL --backend llmcompressor-rtn`."""

from __future__ import annotations

from schemegen import Backend, hookimpl
from schemegen_llmcompressor.backend import LlmCompressorRtn

__all__ = ["LlmCompressorRtn"]


@hookimpl
def schemegen_register_backends() -> list[Backend]:
    """The backend `llmcompressor-rtn`."""
    return [LlmCompressorRtn()]
