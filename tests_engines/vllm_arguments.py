"""Reads a command line of `vllm serve` as vLLM does: `python -m tests_engines.vllm_arguments WORD...` prints JSON."""

from __future__ import annotations

import json
import os
import sys

from bench.quality.generation import ENVIRONMENT


def main() -> None:
    """Command line; the words are those after `vllm serve`. Exit code 2 for a flag that vLLM does not have."""
    # Before the first import of anything of vLLM.
    os.environ.update(ENVIRONMENT)
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.reasoning import ReasoningParserManager
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parsed = make_arg_parser(FlexibleArgumentParser()).parse_args(sys.argv[1:])
    found = {
        "model": parsed.model_tag,
        "max_model_len": parsed.max_model_len,
        "tensor_parallel_size": parsed.tensor_parallel_size,
        "language_model_only": parsed.language_model_only,
        "speculative_config": parsed.speculative_config,
        "knows_reasoning_parser": parsed.reasoning_parser in ReasoningParserManager.list_registered(),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
