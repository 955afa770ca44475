"""What is written works: installed and tested as somebody would who has just run the command."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from schemegen.catalog import load_catalog
from schemegen.starts import Start, plugin_start, scheme_start, write_start

ROOT = Path(__file__).parents[2]
#: Runs the tests of the folder it is in, then says who brings the scheme.
TESTED = """
import sys, pytest
from schemegen.catalog import load_catalog
if code := pytest.main(["-p", "no:cacheprovider"]):
    sys.exit(code)
print(load_catalog().schemes.origin("acme-int4"))
"""


def run(*arguments: str | Path, cwd: Path, **environment: str) -> str:
    """Standard output of this interpreter; what it said of a failure is the test's."""
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def lines(start: Start, suffix: str) -> list[str]:
    """The lines that count of the one file of that name."""
    (text,) = [text for name, text in start.files.items() if name.endswith(suffix)]
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]


def test_a_scheme_is_eight_lines_and_its_plugin_ten() -> None:
    plugin, scheme = plugin_start("acme", load_catalog()), scheme_start("acme-int4", load_catalog())
    assert len(lines(plugin, "schemes/acme-int4.yaml")) <= 8
    assert len(lines(plugin, "schemegen_acme/__init__.py")) <= 10
    assert len(lines(Start("", {"x": scheme.files["acme-int4.yaml"]}, ()), "x")) <= 8


def test_the_tests_of_a_plugin_pass_where_it_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = pytest.importorskip("hatchling.build")
    folder = write_start(plugin_start("acme", load_catalog()), tmp_path / "schemegen-acme")
    monkeypatch.chdir(folder)
    with zipfile.ZipFile(tmp_path / backend.build_wheel(str(tmp_path))) as wheel:
        wheel.extractall(tmp_path / "site")
    assert (tmp_path / "site" / "schemegen_acme" / "py.typed").is_file()
    paths = os.pathsep.join([str(tmp_path / "site"), str(ROOT)])
    said = run("-c", TESTED, cwd=folder, PYTHONPATH=paths, SCHEMEGEN_STRICT="1")
    assert "2 passed" in said
    assert said.splitlines()[-1] == "schemegen-acme 0.1.0"


def test_the_test_of_a_scheme_passes_where_it_lies(tmp_path: Path) -> None:
    folder = write_start(scheme_start("acme-int4", load_catalog()), tmp_path / "acme-int4")
    case = (folder / "cases" / "acme-int4.yaml").read_text()
    wrong = case.replace("gate_up_proj: [routed_expert, int4]", "gate_up_proj: [router, int4]")
    (folder / "cases" / "wrong.yaml").write_text(wrong)
    with pytest.raises(AssertionError, match=r"is \[routed_expert, int4\], the case says \[router, int4\]") as caught:
        run("-m", "pytest", "-p", "no:cacheprovider", cwd=folder, PYTHONPATH=str(ROOT))
    assert "1 failed, 1 passed" in str(caught.value)


def test_a_plugin_asks_for_this_minor_release() -> None:
    from importlib.metadata import version

    major, minor = version("schemegen").split(".")[:2]
    asked = f'dependencies = ["schemegen>={major}.{minor},<{major}.{int(minor) + 1}"]'
    assert asked in plugin_start("acme", load_catalog()).files["pyproject.toml"]


def test_no_line_of_a_readme_is_too_long_whatever_the_name() -> None:
    for name in ("acme", "a" * 40):
        readme = plugin_start(name, load_catalog()).files["README.md"]
        assert max(len(line) for line in readme.splitlines()) <= 120
