"""What a start consists of: files by path, made of the templates beside this module."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Final

import yaml

from schemegen.starts.names import check_plugin_name, check_scheme_name

if TYPE_CHECKING:
    from schemegen.catalog import Catalog

_TEMPLATES: Final = Path(__file__).parent / "templates"
_TRIAL: Final = "sample:qwen3.6-moe"


@dataclass(frozen=True, slots=True)
class Start:
    """A folder's name, its files (path relative to it → text), and the commands to go on with, run inside it."""

    folder: str
    files: Mapping[str, str]
    commands: tuple[str, ...]


def plugin_start(name: str, catalog: Catalog) -> Start:
    """The distribution `schemegen-NAME` with a scheme `NAME-int4`; UnsupportedError for a name that will not do."""
    check_plugin_name(name, catalog)
    scheme, module = f"{name}-int4", f"schemegen_{name.replace('-', '_')}"
    check_scheme_name(scheme, catalog)
    words = {"name": name, "distribution": f"schemegen-{name}", "module": module, "scheme": scheme, "bounds": _bounds()}
    files = {
        "pyproject.toml": _filled("pyproject.toml", **words),
        "README.md": _filled("README.md", **words),
        f"src/{module}/__init__.py": _filled("plugin.py", **words),
        f"src/{module}/schemes/{scheme}.yaml": _scheme(scheme),
        f"src/{module}/py.typed": "",
        f"tests/cases/{scheme}.yaml": _filled("case.yaml", quoted=_quoted(scheme)),
        "tests/test_cases.py": _filled("test_cases.py"),
        "tests/test_plugin.py": _filled("test_plugin.py", **words),
    }
    commands = ("pip install -e '.[test]'", "pytest", f"schemegen apply {scheme} {_TRIAL}")
    return Start(words["distribution"], files, commands)


def scheme_start(name: str, catalog: Catalog) -> Start:
    """A scheme file with its case and its test; UnsupportedError for a name that will not do."""
    check_scheme_name(name, catalog)
    files = {
        f"{name}.yaml": _scheme(name),
        f"cases/{name}.yaml": _filled("case.yaml", quoted=_quoted(f"../{name}.yaml")),
        "test_cases.py": _filled("test_cases.py"),
    }
    commands = (f"schemegen plan {name}.yaml {_TRIAL}", "pytest", f"schemegen apply {name}.yaml {_TRIAL}")
    return Start(name, files, commands)


def _scheme(name: str) -> str:
    return _filled("scheme.yaml", name=name, quoted=_quoted(name))


def _quoted(text: str) -> str:
    """As YAML takes it for text: many a good name is a number, a date or nothing there when it stands alone."""
    return text if yaml.safe_load(text) == text else f'"{text}"'


def _filled(template: str, **words: str) -> str:
    text = (_TEMPLATES / f"{template}.template").read_text(encoding="utf-8")
    return Template(text).substitute(words)


def _bounds() -> str:
    """This minor release of schemegen and no later one: before 1.0 the next may change what plugins rely on."""
    major, minor = version("schemegen").split(".")[:2]
    return f">={major}.{minor},<{major}.{int(minor) + 1}"
