"""The process that runs llm-compressor: `python worker.py ORDER FAILURE LINKS`: a JSON file of orders.py, the pipe
in which to tell what goes wrong, and the folder of links to make.

It lives on its own for three reasons: llm-compressor writes to stdout, swallows Ctrl-C while it validates, and its
memory goes back to the system when it is done. It imports nothing of schemegen. It stops when its stdin ends, so that
it never outlives the run that started it, however that ended; then it removes the folder, which else its parent does.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
import threading
from pathlib import Path
from typing import Any

#: What every pipe holds without a reader, and how much of an error's text fits in: as JSON a character takes up to 12.
PIPE_BYTES = 4096
_TEXT = 300
_STOPPED = 3
_OS_ERROR = re.compile(r"\(os error (\d+)\)")


def main(order_file: str, failure: int, links: str) -> None:
    """Carry out an order; what goes wrong is written to the descriptor `failure`."""
    order = json.loads(Path(order_file).read_bytes())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        threading.Thread(target=_stop_with_parent, args=(links,), daemon=True).start()
        # Only now: where the folder is, somebody is there to remove it.
        Path(links).mkdir(0o700)
        quantize(order, Path(links))
    except BaseException as error:
        os.write(failure, json.dumps(failure_of(error)).encode())
        raise


def _stop_with_parent(links: str) -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    shutil.rmtree(links, ignore_errors=True)
    os._exit(_STOPPED)


def failure_of(error: BaseException) -> dict[str, Any]:
    """Type, text and the system's error number, if any; safetensors has the number in its text."""
    number = getattr(error, "errno", None)
    if number is None and (found := _OS_ERROR.search(str(error))):
        number = int(found[1])
    return {"type": type(error).__name__, "text": str(error)[:_TEXT], "errno": number}


def quantize(order: dict[str, Any], links: Path) -> None:
    """One call of model_free_ptq for each format of the order."""
    for number, run in enumerate(order["runs"]):
        folder = links / str(number)
        _link_source(folder, run["shards"], run["weight_map"])
        _model_free_ptq(folder, order["result"], run)


def _link_source(folder: Path, shards: dict[str, str], weight_map: dict[str, str]) -> None:
    """A source folder of links. Its index names only tensors to quantize, and those alone are read and written."""
    folder.mkdir()
    for name, target in shards.items():
        (folder / name).symlink_to(target)
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def _model_free_ptq(source: Path, result: str, run: dict[str, Any]) -> None:
    from compressed_tensors.quantization import QuantizationScheme
    from llmcompressor import model_free_ptq

    _save_strided()
    model_free_ptq(
        model_stub=str(source),
        save_directory=result,
        # "Linear" is every weight of the source; regexes over names would be matched one by one.
        scheme=QuantizationScheme(targets=["Linear"], **run["scheme"]),
        max_workers=len(run["devices"]),
        device=run["devices"],
    )


def _save_strided() -> None:
    """Let it write blocks: they come out strided, and safetensors takes no such tensor. The values stay as they are."""
    from llmcompressor.entrypoints import model_free
    from safetensors.torch import save_file

    def save_contiguous(tensors: dict[str, Any], path: str) -> None:
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)

    model_free.save_file = save_contiguous


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
