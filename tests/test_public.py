"""The public names: all there, sorted, documented, typed, and cheap until used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import schemegen

ROOT = Path(__file__).parents[1]
DESIGNED = (
    "hookimpl load_scheme load_schemes load_policy load_policies check json_schema plan explain apply verify inspect "
    "describe Scheme Format Policy Rule Plan Explanation Backend WeightBackend Architecture"
)


def test_all_is_sorted_and_every_name_resolves_with_a_docstring() -> None:
    assert schemegen.__all__ == sorted(schemegen.__all__)
    for name in schemegen.__all__:
        value = getattr(schemegen, name)
        assert name == "__version__" or value.__doc__ or name == "hookimpl", name


def test_designed_names_are_public() -> None:
    assert set(DESIGNED.split()) - set(schemegen.__all__) == set()


@pytest.mark.parametrize("name", schemegen.__all__)
def test_every_name_has_its_place_in_the_reference(name: str) -> None:
    reference = ROOT / "docs" / "reference"
    page = "".join((reference / page).read_text(encoding="utf-8") for page in ("extending.md", "api.md"))
    assert f"\n### {name}\n" in page.replace("\\_", "_") or f"`{name}`" in page.rpartition("## Errors")[2]


def test_unknown_attributes_are_attribute_errors() -> None:
    assert not hasattr(schemegen, "quantise")


def test_types_are_shipped_and_type_checkers_see_every_name() -> None:
    assert (Path(schemegen.__file__).parent / "py.typed").is_file()
    source = Path(schemegen.__file__).read_text(encoding="utf-8")
    seen = source.partition("if TYPE_CHECKING:")[2].partition("_HOMES")[0]
    assert [name for name in schemegen.__all__ if name != "__version__" and name not in seen] == []


def test_a_name_is_imported_when_it_is_used() -> None:
    code = (
        "import sys, schemegen\n"
        "before = {m for m in sys.modules if m.startswith('schemegen.')}\n"
        "schemegen.SchemegenError\n"
        "print(sorted({m for m in sys.modules if m.startswith('schemegen.')} - before), sorted(before))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "['schemegen.errors'] []"


def test_using_names_does_not_turn_functions_into_modules() -> None:
    code = (
        "import pkgutil, importlib, schemegen\n"
        "for found in pkgutil.iter_modules(schemegen.__path__):\n"
        "    if found.name != '__main__': importlib.import_module(f'schemegen.{found.name}')\n"
        "modules = [n for n in schemegen.__all__ if type(getattr(schemegen, n)).__name__ == 'module']\n"
        "assert not modules, modules"
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
