"""Broken guests, installed as real distributions: each is blamed by name and left out, and the rest works."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from schemegen.cli.exits import DEBUG_VARIABLE
from schemegen.plugins import PLUGINS_VARIABLE, STRICT_VARIABLE

ROOT = Path(__file__).parents[1]
HEAD = """\
from schemegen import Backend, Format, Scheme, WeightBackend, hookimpl, load_schemes

def scheme(name):
    formats = {"int4": {"num_bits": 4, "group_size": 32}}
    return Scheme(schema_version=1, name=name, summary="INT4", formats=formats, policy="experts-only")

"""
SCHEMES = "@hookimpl\ndef schemegen_register_schemes():\n    "
GOOD = f"{HEAD}{SCHEMES}return [scheme('good-int4')]\n"
HOOK = "schemegen_register_schemes: "


@dataclass(frozen=True)
class Kind:
    """A way to be broken: the module's code, the reason it is blamed for, and what its entry point names."""

    source: str
    reason: str
    target: str = "{plugin}_plugin"


def returning(body: str, reason: str) -> Kind:
    """A guest whose hook is broken."""
    return Kind(f"{HEAD}{SCHEMES}{body}\n", HOOK + reason)


BACKEND = f"""{HEAD}
class Half(WeightBackend):
    name = "half-rtn"
    devices = ("cpu",)
    def refuses(self, format):
        return None
    def quantize(self, weights, format, out):
        raise OSError("no\\x1b[31m disk")

@hookimpl
def schemegen_register_backends():
    return [Half()]
"""
TWIN = f"""{HEAD}
from dataclasses import replace
from schemegen.architectures.qwen3_5_moe import QWEN3_5_MOE

@hookimpl
def schemegen_register_architectures():
    return [replace(QWEN3_5_MOE, name="twin")]
"""
HOOKS = "schemegen_register_architectures, schemegen_register_backends, "
#: The first six are those that everybody makes.
KINDS = {
    "import error": Kind(
        "import no_such_module\n",
        "bad_plugin cannot be imported: ModuleNotFoundError: No module named 'no_such_module' (bad_plugin.py, line 1)",
    ),
    "wrong signature": Kind(
        f"{HEAD}@hookimpl\ndef schemegen_register_schemes(config):\n    return []\n",
        "schemegen_register_schemes(config) asks for {'config'}, which the hook does not give; take the argument out",
    ),
    "misspelt hook": Kind(
        f"{GOOD}@hookimpl\ndef schemegen_register_scheme():\n    return []\n",
        "unknown hook 'schemegen_register_scheme'; did you mean schemegen_register_schemes?",
    ),
    "wrong type": returning("return [scheme('a'), {'name': 'b'}]", "a scheme must be a Scheme, not dict {'name': 'b'}"),
    "a built-in's name": returning(
        "return [scheme('kimi-k2-int4')]",
        "scheme 'kimi-k2-int4' is registered twice: by schemegen and by bad-dist 0.3; rename one or uninstall one",
    ),
    "raises at call": returning("raise OSError('no disk')", "OSError: no disk (bad_plugin.py, line 9)"),
    "another guest's name": returning(
        "return [scheme('aaa-int4')]",
        "scheme 'aaa-int4' is registered twice: by aaa-dist 1.0 and by bad-dist 0.3; rename one or uninstall one",
    ),
    "syntax error": Kind(
        "def broken(:\n",
        "bad_plugin cannot be imported: SyntaxError: invalid syntax (bad_plugin.py, line 1)",
    ),
    "exits": Kind("import sys\nsys.exit()\n", "bad_plugin cannot be imported: SystemExit (bad_plugin.py, line 2)"),
    "stops everything": Kind(
        "class Stop(BaseException): pass\nraise Stop('now')\n",
        "bad_plugin cannot be imported: Stop: now (bad_plugin.py, line 2)",
    ),
    "no decorator": Kind(
        "def schemegen_register_schemes():\n    return []\n",
        f"implements no hook; decorate functions with schemegen's @hookimpl ({HOOKS}"
        "schemegen_register_policies, schemegen_register_schemes)",
    ),
    "missing attribute": Kind(
        GOOD,
        "bad_plugin:plugin cannot be imported: AttributeError: module 'bad_plugin' has no attribute 'plugin'",
        "{plugin}_plugin:plugin",
    ),
    "a function": Kind(
        GOOD,
        "its entry point names the function schemegen_register_schemes; name a module, or an instance of a class",
        "{plugin}_plugin:schemegen_register_schemes",
    ),
    "a class": Kind(
        f"{HEAD}class Plugin:\n    @hookimpl\n    def schemegen_register_schemes(self):\n        return []\n",
        "its entry point names the class Plugin; name a module, or an instance of a class",
        "{plugin}_plugin:Plugin",
    ),
    "returns nothing": returning("pass", "returned NoneType; return an iterable of Scheme"),
    "returns a class": returning("return [Scheme]", "a scheme must be a Scheme, not the class Scheme"),
    "raises half way": returning(
        "yield scheme('half')\n    raise KeyError('rest')", "KeyError: 'rest' (bad_plugin.py, line 10)"
    ),
    "exits at call": returning("raise SystemExit('enough')", "SystemExit: enough (bad_plugin.py, line 9)"),
    "no repr": returning(
        "return [type('Mute', (), {'__repr__': lambda self: 1 // 0})()]", "a scheme must be a Scheme, not Mute"
    ),
    "a faulty file": returning(
        "from pathlib import Path\n    return load_schemes(Path(__file__).parent / 'bad')",
        "{site}/bad/a.yaml: schema_version: field required, and 3 more; schemegen check tells all",
    ),
    "no name": Kind(
        BACKEND.replace("half-rtn", "Half RTN"),
        "schemegen_register_backends: 'Half RTN' cannot name a backend; use lower-case letters, digits, dots, "
        "dashes and underscores, with a letter or digit first",
    ),
    "a backend of no device": Kind(
        BACKEND.replace("cpu", "mps"),
        "schemegen_register_backends: backend half-rtn: devices is tuple ('mps',), and must be a tuple of cpu or cuda, "
        "or both",
    ),
    "a backend that is a class": Kind(
        BACKEND.replace("[Half()]", "[Half]"),
        "schemegen_register_backends: a backend must be a Backend, not the class Half",
    ),
    "half a backend": Kind(
        BACKEND.replace("def refuses", "def refusez"),
        "schemegen_register_backends: TypeError: Can't instantiate abstract class Half with",
    ),
    "a copy with other values": returning(
        "return [scheme('a').model_copy(update={'name': 'b', 'formats': {'a': {'num_bits': 99}}})]",
        "scheme b: Scheme.formats.a.weights.num_bits: input should be less than or equal to 16",
    ),
    "a copy with mappings for models": returning(
        "return [scheme('a').model_copy(update={'formats': {'a': {'num_bits': 8, 'strategy': 'channel'}}})]",
        "scheme a: formats is of another type than it may be; make it by model_validate, which reads mappings",
    ),
    "a copy with text for a model": returning(
        "return [scheme('a').model_copy(update={'method': 'rtn'})]",
        "scheme a: a field is of another type than it may be; make it by model_validate, which looks at every field",
    ),
    "made without looking": Kind(
        f"from schemegen import Policy, hookimpl\n{SCHEMES.replace('schemes', 'policies')}"
        "return [Policy.model_construct(name='p', summary='s')]\n",
        "schemegen_register_policies: policy p: Policy.schema_version: field required, and 1 more",
    ),
    "made with wrong values": returning(
        "return [Scheme(schema_version=2, name='a', summary='s', formats={}, policy=[])]",
        "Scheme.schema_version: 2 is no version of this file format; write 1, and 1 more (bad_plugin.py, line 9)",
    ),
    "a name that is a file's": returning(
        "return [scheme('a').model_copy(update={'name': 'a.yaml'})]",
        "'a.yaml' cannot name a scheme; what ends in .yaml or .yml is read as a file",
    ),
    "its own name twice": returning(
        "return [scheme('twice'), scheme('twice')]",
        "scheme 'twice' is registered twice by bad-dist 0.3; take one out",
    ),
    "a wrapper": Kind(
        f"{HEAD}@hookimpl(wrapper=True)\ndef schemegen_register_schemes():\n    return (yield)\n",
        "schemegen_register_schemes is a wrapper, and those are not taken; return what the plugin adds",
    ),
    "no entry point": Kind(GOOD, "its entry point is 'bad target!'; name a module, or module:object", "bad target!"),
    "an empty folder": returning(
        "from pathlib import Path\n    return load_schemes(Path(__file__).parent / 'none')",
        "{site}/none: cannot be read: no such folder",
    ),
    "an architecture of nothing": Kind(
        TWIN.replace('name="twin"', 'name="twin", depth=None'),
        "schemegen_register_architectures: architecture twin: depth is no function; give one of the config",
    ),
    "an architecture of no model": Kind(
        TWIN.replace('name="twin"', 'name="twin", model_types=()'),
        "schemegen_register_architectures: architecture twin: model_types is empty; name the model_type of its config",
    ),
    "another's model type": Kind(
        TWIN,
        "schemegen_register_architectures: architecture twin: model_type 'qwen3_5_moe' is that of architecture "
        "qwen3_5_moe already; take it out of one",
    ),
}
PROMISED = list(KINDS)[:6]


def install(site: Path, plugin: str, source: str, target: str = "{plugin}_plugin", version: str = "1.0") -> None:
    """A distribution as pip leaves it: a module, and beside it its metadata and entry point."""
    info = site / f"{plugin}_dist-{version}.dist-info"
    info.mkdir(parents=True)
    (site / f"{plugin}_plugin.py").write_text(source, encoding="utf-8")
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {plugin}-dist\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(f"[schemegen]\n{plugin} = {target.format(plugin=plugin)}\n")


def run(site: Path, *args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command line, as a process of its own that finds what is installed in `site`."""
    kept = {k: v for k, v in os.environ.items() if k not in (STRICT_VARIABLE, PLUGINS_VARIABLE, DEBUG_VARIABLE)}
    paths = [str(site), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**kept, "PYTHONPATH": os.pathsep.join(paths), **environment}
    command = [sys.executable, "-m", "schemegen", *args]
    return subprocess.run(command, cwd=site, env=env, capture_output=True, text=True, check=False)


def plugins(site: Path, **environment: str) -> dict[str, dict[str, Any]]:
    """What `list plugins --json` says, by plugin."""
    done = run(site, "list", "plugins", "--json", **environment)
    assert done.returncode == 0, done.stderr
    return {row["plugin"]: row for row in json.loads(done.stdout)}


def install_good(site: Path) -> None:
    """Two guests that work, one of which prints and warns while it is imported."""
    loud = "import warnings\nprint('hello')\nwarnings.warn('old')\n"
    install(site, "aaa", loud + GOOD.replace("good-int4", "aaa-int4") + "print('bye')\n")
    install(site, "good", GOOD.replace("    return", "    print('more')\n    return"))
    (site / "bad").mkdir()
    (site / "bad" / "a.yaml").write_text("name: a\n", encoding="utf-8")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder on the path with the guests that work."""
    install_good(tmp_path)
    return tmp_path


def named(kind: str) -> str:
    """The name of a broken guest among all of them."""
    return f"bad{list(KINDS).index(kind)}"


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The guests that work, every broken one under a name of its own, and one that is fine until it is run."""
    site = tmp_path_factory.mktemp("crowd")
    install_good(site)
    for name, kind in KINDS.items():
        source = kind.source.replace("half-rtn", f"half-{named(name)}")
        install(site, named(name), source, kind.target, version="0.3")
    install(site, "late", BACKEND)
    return site


@pytest.fixture(scope="module")
def listed(crowd: Path) -> dict[str, dict[str, Any]]:
    """What is told of all of them."""
    return plugins(crowd)


@pytest.mark.parametrize("name", KINDS)
def test_a_broken_guest_is_blamed_by_name(crowd: Path, listed: dict[str, dict[str, Any]], name: str) -> None:
    bad = listed[named(name)]
    assert (bad["distribution"], bad["version"]) == (f"{named(name)}-dist", "0.3")
    assert (bad["state"], bad["brings"]) == ("failed", {})
    (fault,) = bad["faults"]
    reason = KINDS[name].reason.replace("{site}", str(crowd))
    assert fault.startswith(re.sub(r"\bbad(?=[-_])", named(name), reason).replace("half-rtn", f"half-{named(name)}"))


def test_the_others_work(listed: dict[str, dict[str, Any]]) -> None:
    for name, brings in (("aaa", {"scheme": ["aaa-int4"]}), ("good", {"scheme": ["good-int4"]})):
        assert (listed[name]["state"], listed[name]["brings"], listed[name]["faults"]) == ("loaded", brings, [])


@pytest.mark.parametrize("name", PROMISED)
def test_strict_makes_it_fatal(site: Path, name: str) -> None:
    kind = KINDS[name]
    install(site, "bad", kind.source, kind.target, version="0.3")
    done = run(site, "list", **{STRICT_VARIABLE: "1"})
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1] == f"error: plugin 'bad' of bad-dist 0.3: {kind.reason}"
    assert "Traceback" not in done.stderr


def test_off_loads_none(crowd: Path) -> None:
    assert list(plugins(crowd, **{STRICT_VARIABLE: "1", PLUGINS_VARIABLE: "off"})) == ["schemegen.builtin"]


def test_apply_works_among_all_of_them(crowd: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    done = run(crowd, "apply", "good-int4", "sample:qwen3.6-moe", "-o", out, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "written"
    assert run(crowd, "verify", out).returncode == 0


def test_a_backend_that_raises_in_a_run_is_blamed_and_leaves_nothing(crowd: Path, tmp_path: Path) -> None:
    args = "apply", "kimi-k2-int4", "sample:qwen3.6-moe", "-o", str(tmp_path / "out")
    done = run(crowd, *args, "--backend", "half-rtn")
    assert done.returncode == 1
    told = r"plugin 'backend half-rtn' of late-dist 1.0: quantize_\w+ raised OSError: no\\x1b\[31m disk"
    assert re.search(told, done.stderr.splitlines()[-1])
    assert not (tmp_path / "out").exists()
    assert run(crowd, *args, "--restart").returncode == 0


def test_a_guest_that_moves_elsewhere_moves_nobody(site: Path) -> None:
    install(site, "mover", f"import os\nos.chdir('/')\n{GOOD.replace('good-int4', 'mover-int4')}")
    (site / "mine.yaml").write_text("name: [\n", encoding="utf-8")
    assert "mine.yaml:1: " in run(site, "plan", "mine.yaml", "sample:qwen3.6-moe").stderr


def test_a_name_is_unknown_where_plugins_are_off(site: Path) -> None:
    done = run(site, "plan", "good-int4", "sample:qwen3.6-moe", **{PLUGINS_VARIABLE: "off"})
    assert done.stderr.endswith("plugins are off (SCHEMEGEN_PLUGINS)\n")


def test_a_name_that_a_broken_guest_may_have_had_mentions_it(site: Path) -> None:
    install(site, "bad", "import no_such_module\n", version="0.3")
    done = run(site, "plan", "bad-int4", "sample:qwen3.6-moe")
    assert done.returncode == 1
    assert "plugin 'bad' of bad-dist 0.3: bad_plugin cannot be imported: " in done.stderr
    assert "it may have registered the name" in done.stderr


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (
            "[schemegen]\nbad = not a module!\n",
            "its entry point is 'not a module!'; name a module, or module:object",
        ),
        ("[schemegen]\nbad\x1b[31m = no_such_module\n", "no_such_module cannot be imported: "),
    ],
)
def test_damaged_entry_points_hide_no_others(site: Path, damage: str, told: str) -> None:
    install(site, "bad", GOOD, version="0.3")
    (site / "bad_dist-0.3.dist-info" / "entry_points.txt").write_text(damage)
    found = plugins(site)
    assert found["good"]["state"] == "loaded"
    (bad,) = [row for row in found.values() if row["distribution"] == "bad-dist"]
    assert bad["faults"][0].startswith(told)
    assert "\x1b" not in run(site, "list", "plugins").stdout


def test_a_distribution_without_metadata_is_no_reason_to_stop(site: Path) -> None:
    install(site, "bad", "import no_such_module\n", version="0.3")
    (site / "bad_dist-0.3.dist-info" / "METADATA").unlink()
    bad = plugins(site)["bad"]
    assert (bad["state"], bad["distribution"], bad["version"]) == ("failed", "unknown distribution", "unknown version")
