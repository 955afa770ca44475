"""The wheel: what it holds, and that it runs where it is installed, away from the source tree."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from schemegen.data import schemes_folder
from schemegen.errors import SchemeFileError

ROOT = Path(__file__).parent.parent


def run(*arguments: str | Path, cwd: Path, **environment: str) -> str:
    """Standard output of this interpreter run with the arguments; its standard error when it fails."""
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, env={**os.environ, **environment}, check=False
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from the source tree without a network."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    run("-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", folder, ROOT, cwd=folder)
    (built,) = folder.glob("schemegen-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path) -> Path:
    """The folder the wheel is installed into."""
    target = wheel.parent / "site"
    run("-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", target, wheel, cwd=wheel.parent)
    return target


def test_the_wheel_holds_the_data_files(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    data = {path.relative_to(ROOT).as_posix() for path in (ROOT / "schemes").rglob("*.yaml")}
    assert {"schemes/kimi-k2-int4.yaml", "schemes/policies/experts-only.yaml"} <= data
    assert {f"schemegen/{name}" for name in data} <= names
    assert {"schemegen/seal/card.md.jinja", "schemegen/py.typed"} <= names
    templates = {path.relative_to(ROOT).as_posix() for path in (ROOT / "schemegen" / "starts").rglob("*.template")}
    assert "schemegen/starts/templates/plugin.py.template" in templates
    assert templates <= names


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "schemegen").rglob("*.py")}
    assert modules <= set(names)
    assert {name.split("/")[0] for name in names} <= {"schemegen", wheel.name.split("-py3")[0] + ".dist-info"}
    assert not [name for name in names if name.endswith(".pyc")]


def test_the_wheel_runs_away_from_the_source_tree(installed: Path, tmp_path: Path) -> None:
    environment = {"PYTHONPATH": str(installed), "SCHEMEGEN_PLUGINS": "off"}
    where = run("-c", "import schemegen.data as d; print(d.schemes_folder())", cwd=tmp_path, **environment)
    assert Path(where.strip()) == installed / "schemegen" / "schemes"
    assert "kimi-k2-int4" in run("-m", "schemegen", "list", cwd=tmp_path, **environment)
    run("-m", "schemegen", "new", "plugin", "acme", cwd=tmp_path, **environment)
    assert (tmp_path / "schemegen-acme" / "src" / "schemegen_acme" / "__init__.py").is_file()


def test_the_source_tree_finds_its_schemes() -> None:
    assert schemes_folder() == ROOT / "schemes"


def test_a_stranger_beside_the_package_is_not_taken_for_the_schemes(tmp_path: Path) -> None:
    package = tmp_path / "schemegen"
    (tmp_path / "schemes").mkdir()
    with pytest.raises(SchemeFileError, match=r"schemes: the built-in scheme files are missing; reinstall"):
        schemes_folder(package)
    (package / "schemes" / "policies").mkdir(parents=True)
    assert schemes_folder(package) == package / "schemes"
