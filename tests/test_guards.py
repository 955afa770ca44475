"""Guards over the source tree: size, documentation, words that do not belong here, and what a start imports."""

from __future__ import annotations

import ast
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MODULES = sorted((ROOT / "schemegen").rglob("*.py"))
SOURCES = [
    *MODULES,
    *(
        path
        for folder in ("tests", "tests_engines", "bench", "plugins")
        for path in sorted((ROOT / folder).rglob("*.py"))
    ),
]
MAX_MODULE_LINES = 250
MAX_FUNCTION_LINES = 50

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef


def relative(path: Path) -> str:
    """A path as messages show it."""
    return path.relative_to(ROOT).as_posix()


def functions(path: Path) -> Iterator[Function]:
    """All functions of a module, nested ones and methods too."""
    return (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, Function))


def length(node: Function) -> int:
    """The lines of a function from `def` to its last, docstring included."""
    return (node.end_lineno or node.lineno) - node.lineno + 1


def public(node: ast.Module | Definition, prefix: str = "") -> Iterator[tuple[str, Definition]]:
    """Public functions and classes of a module, and the public methods of those classes, with dotted names."""
    for child in node.body:
        if isinstance(child, Definition) and not child.name.startswith("_"):
            yield prefix + child.name, child
            if isinstance(child, ast.ClassDef):
                yield from public(child, f"{prefix}{child.name}.")


def test_no_module_is_too_long() -> None:
    sizes = {relative(path): len(path.read_text().splitlines()) for path in MODULES}
    assert {name: size for name, size in sizes.items() if size > MAX_MODULE_LINES} == {}


def test_no_function_is_too_long() -> None:
    sizes = {f"{relative(path)}:{node.name}": length(node) for path in SOURCES for node in functions(path)}
    assert {name: size for name, size in sizes.items() if size > MAX_FUNCTION_LINES} == {}


def test_functions_are_there_to_measure(capsys: pytest.CaptureFixture[str]) -> None:
    """The aim is a median of 8 lines; a figure to watch, so it is shown and not enforced."""
    lengths = [length(node) for path in MODULES for node in functions(path)]
    assert lengths
    with capsys.disabled():
        print(
            f" [{len(lengths)} functions, median {statistics.median(lengths):g} lines, longest {max(lengths)}]", end=""
        )


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_everything_public_is_documented(path: Path) -> None:
    module = ast.parse(path.read_text())
    assert ast.get_docstring(module), "the module has no docstring"
    assert [name for name, node in public(module) if not ast.get_docstring(node)] == []


# Each is spelled in two pieces, so that this file holds none of them.
FORBIDDEN = {
    "a path of one machine": [
        r"(?<![\w.])/(work|root|farm)" + r"/",
        r"/tmp" + r"/env",
        r"/home" + r"/\w",
        r"/Users" + r"/\w",
    ],
    "a package host or index": [
        r"pypi\." + r"org",
        r"python" + r"hosted",
        r"download\.py" + r"torch",
        r"--(extra-)?index" + r"-url",
        r"--find" + r"-links",
        r"--trusted" + r"-host",
    ],
    "what lies beside the checkout": [
        r"\bROOT\.par" + r"ent\b",
        r"\.\./sha" + r"red\b",
        r"\bshared/(yard" + r"stick|facts|seed)\b",
    ],
    "how it was written": [
        r"(?i:\bwork" + r"place\b)",
        r"(?i:\b(this|another|next|last|previous|earlier|later) sess" + r"ion\b)",
        r"(?i:\bsub-?" + r"agent)",
        r"(?i:\bCE" + r"O\b)",
        r"(?i:\bcla" + r"ude\b)",
        r"(?i:\banthro" + r"pic\b)",
    ],
}


def tracked() -> list[Path]:
    """The text files under version control or about to be."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    files = (ROOT / name for name in listed.stdout.decode().split("\0") if name)
    return [path for path in files if path.is_file() and b"\0" not in path.read_bytes()[:1024]]


@pytest.mark.parametrize(("what", "patterns"), FORBIDDEN.items(), ids=FORBIDDEN)
def test_the_project_speaks_of_itself_alone(what: str, patterns: list[str]) -> None:
    expression = re.compile("|".join(patterns))
    found = [
        f"{relative(path)}:{number}: {what}: {line.strip()}"
        for path in tracked()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if expression.search(line)
    ]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "see /wo" + "rk/main",
        "use /tmp" + "/env/x",
        "in /home" + "/me",
        "--extra-index" + "-url=x",
        "https://py" + "pi.org/simple",
        "the last Sess" + "ion did it",
        "a sub" + "agent wrote it",
        "ROOT.par" + "ent / 'weights'",
        "see ../sha" + "red/design",
    ],
)
def test_the_patterns_catch_what_they_are_for(text: str) -> None:
    assert any(re.search(pattern, text) for patterns in FORBIDDEN.values() for pattern in patterns)


HEAVY = {"torch", "compressed_tensors", "transformers", "numba", "numpy", "pydantic", "jinja2", "safetensors"}


def heavy_modules(code: str) -> set[str]:
    """The heavy packages that a fresh interpreter has imported after running the code."""
    report = "\nimport sys; print(*(name for name in sys.modules if '.' not in name), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code + report], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stderr.split()) & {*HEAVY, "rich"}


def test_importing_schemegen_is_light() -> None:
    assert heavy_modules("import schemegen") == set()


def test_help_is_light() -> None:
    code = "import contextlib, schemegen.cli\nwith contextlib.suppress(SystemExit): schemegen.cli.main(['--help'])"
    assert heavy_modules(code) == set()
