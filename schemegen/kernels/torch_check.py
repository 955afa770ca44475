"""Whether torch can be used, and the way to the kernels that import it. Importing this module does not."""

from __future__ import annotations

import functools
import importlib
from typing import Any, Final

from schemegen.errors import UnsupportedError, shortened

INSTALL_TORCH: Final = "pip install torch"


@functools.cache
def torch_fault() -> str | None:
    """What keeps torch from use, with the way out, as what follows `torch, which`; None once it is imported."""
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name == "torch":
            return f"is not installed: {INSTALL_TORCH}"
        return _broken(error)
    except Exception as error:
        # A half-installed torch fails in any way: a shared library that is not there is an OSError.
        return _broken(error)
    return None


def load(module: str, what: str) -> Any:
    """A kernel module that imports torch; UnsupportedError, saying what of, where torch cannot be used."""
    if fault := torch_fault():
        raise UnsupportedError(f"{what} is computed with torch, which {fault}")
    return importlib.import_module(f"schemegen.kernels.{module}")


def _broken(error: Exception) -> str:
    told = shortened(str(error).partition("\n")[0])
    return f"cannot be imported ({type(error).__name__}: {told}): {INSTALL_TORCH} --force-reinstall"
