"""The public names: all there, sorted, documented, and cheap until used."""

from __future__ import annotations

import subprocess
import sys

import schemegen


def test_all_is_sorted_and_every_name_resolves_with_a_docstring() -> None:
    assert schemegen.__all__ == sorted(schemegen.__all__)
    for name in schemegen.__all__:
        value = getattr(schemegen, name)
        assert name == "__version__" or value.__doc__ or name == "hookimpl", name


def test_designed_names_are_public() -> None:
    designed = "hookimpl load_scheme load_schemes load_policy plan apply verify Scheme Format Policy Rule Plan Backend"
    assert set(designed.split()) | {"WeightBackend", "Architecture"} <= set(schemegen.__all__)


def test_unknown_attributes_are_attribute_errors() -> None:
    assert not hasattr(schemegen, "quantise")


def test_using_names_does_not_turn_functions_into_modules() -> None:
    code = (
        "import schemegen, schemegen.planner, schemegen.verifier, schemegen.api\n"
        "assert all(callable(getattr(schemegen, n)) for n in ('plan', 'apply', 'verify', 'inspect'))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_native_run_imports_neither_torch_nor_compressed_tensors(sample_folder: object, tmp_path: object) -> None:
    code = (
        "import sys, schemegen\n"
        f"schemegen.apply('kimi-k2-int4', {str(sample_folder)!r}, {str(tmp_path)!r} + '/out')\n"
        "print(sorted(m for m in ('torch', 'compressed_tensors', 'llmcompressor', 'rich') if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
