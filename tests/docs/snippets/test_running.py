"""A page fails where it says what is not so, with the line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.snippets.exceptions import NOT_RUN, exception_of
from docs.snippets.running import SnippetError, run_page

SCHEME = """\
schema_version: 1
name: mine
summary: Mine
formats: {int4: {num_bits: 4, type: int, strategy: group, group_size: 32}}
policy: experts-only
"""


def run(tmp_path: Path, text: str) -> int:
    page = tmp_path / "page.md"
    page.write_text(text)
    place = tmp_path / "place"
    place.mkdir()
    return run_page(page, place)


@pytest.mark.parametrize(
    "text",
    [
        "```sh\nmkdir a\ncd a\n```\n\n```console\n$ basename $PWD\na\n```\n",
        "```sh\nexport WORD='two words'\n```\n```console\n$ echo $WORD\ntwo words\n```\n",
        "Write this as `a/b.txt`:\n\n```text\nhello\n```\n\n```console\n$ cat a/b.txt\nhello\n```\n",
        f"Write this as `mine.yaml`:\n```yaml\n{SCHEME}```\n```sh\nschemegen show mine.yaml\n```\n",
        "```python\nx = 1\n```\n```python\nassert x == 1\n```\n",
        "```console\n$ echo error: no; exit 1\nerror: no\n```\n",
        "```sh\nschemegen apply kimi-k2-int4 Qwen/Qwen3.6-35B-A3B --device cuda:0\n```\n",
        "```yaml\n- a fragment\n```\n```toml\na = 1\n```\n```json\n{}\n```\n```\nanything\n```\n",
    ],
)
def test_these_run(tmp_path: Path, text: str) -> None:
    assert run(tmp_path, text) >= 1


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("```sh\ntrue\nfalse\n```\n", "page.md:3: false\nended with 1"),
        ("```console\n$ echo a\nb\n```\n", "page.md:2: echo a\n--- the page says"),
        ("```console\n$ true\nerror: it fails\n```\n", "page.md:2: true\nended with 0"),
        ("```python\n1 / 0\n```\n", "ZeroDivisionError"),
        ("Write this as `a.py`:\n```python\n1 +\n```\n", "page.md:3: invalid syntax"),
        ("```toml\na =\n```\n", "page.md:2: Invalid value"),
        ("```json\n{,}\n```\n", "page.md:2: Expecting property name"),
        ("```yaml\na: [\n```\n", "page.md:2: while parsing"),
        (f"```yaml\n{SCHEME}more: 1\n```\n", "more: unknown field"),
        (f"```yaml\n{SCHEME.replace('experts', 'expert')}```\n", "unknown policy 'expert-only'"),
        ("```yaml\nrules: []\n```\n", "schema_version: field required"),
        ("```sh\nschemegen apply kimi-k2-int4 Qwen/Qwen3.6-35B-A3B --devices 1\n```\n", "No such option"),
        ("```sh\nmake tset\n```\n", "no target tset in the Makefile"),
        ("Write this as `../out.txt`:\n```text\nx\n```\n", "lies outside the page's folder"),
    ],
)
def test_these_fail_with_the_line(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(SnippetError, match=re.escape(fault)):
        run(tmp_path, text)


PLUGIN = """\
Write this as `acme/pyproject.toml`:

```toml
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "acme"
version = "1.0"

[project.entry-points.schemegen]
acme = "acme"
```

Write this as `acme/acme.py`:

```python
from schemegen import hookimpl


@hookimpl
def schemegen_register_schemes():
    return []
```

```sh
pip install -e './acme[test]'
```

```console
$ schemegen list plugins --json | grep -o '"plugin": "[a-z.]*"'
"plugin": "schemegen.builtin"
"plugin": "acme"
```
"""


def test_a_page_may_install_its_own_plugin_and_sees_no_other(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    pytest.importorskip("pip")
    assert run(tmp_path, PLUGIN) == 4


@pytest.mark.parametrize(
    "command",
    [
        "schemegen plan kimi-k2-int4 sample:qwen3.6-moe",
        "schemegen apply mine.yaml sample:qwen3.6-moe -o out --device cpu",
        "pip install ./acme",
        "pip install -e ./acme",
        "pip install -e './acme[test]'",
        "python -m pip install ./acme",
        "python quantize.py",
        "pytest acme",
    ],
)
def test_what_can_be_run_is_run(command: str) -> None:
    assert exception_of(command) is None


def test_every_exception_has_a_reason() -> None:
    assert [found.pattern for found in NOT_RUN if not found.reason] == []
