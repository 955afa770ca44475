"""What reaches a person: tables and fields, results on stdout alone, a bar on a terminal and plain lines elsewhere."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from schemegen.cli import render
from schemegen.cli.lines import Lines
from schemegen.errors import escaped

if TYPE_CHECKING:
    from tests.cli.conftest import Start

WORK = """
import time
from schemegen.cli import render
with render.progress() as progress:
    progress.start("quantize", 2_000_000_000, done=500_000_000)
    for _ in range(15):
        time.sleep(0.01)
        progress.advance(100_000_000)
    progress.finish()
    {after}
render.text("the result")
"""
ROOT = Path(__file__).parents[2]
SHOW_CURSOR, HIDE_CURSOR = "\x1b[?25h", "\x1b[?25l"


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """It says so."""
        return True


def read_terminal(master: int) -> str:
    """All that was written to the other end until it was closed."""
    chunks: list[bytes] = []
    while True:
        try:
            chunk = os.read(master, 4096)
        except OSError:
            chunk = b""
        if not chunk:
            os.close(master)
            return b"".join(chunks).decode()
        chunks.append(chunk)


def on_terminal(start: Start, code: str, channel: str, **env: str) -> tuple[subprocess.Popen[bytes], str]:
    """Run code with stdout or stderr on a terminal; the process and what the terminal was sent."""
    master, slave = pty.openpty()
    process = start(code, env={"TERM": "xterm", **env}, **{channel: slave})
    os.close(slave)
    return process, read_terminal(master)


def test_a_terminal_shows_a_bar_and_stdout_only_the_result(start: Start) -> None:
    process, drawn = on_terminal(start, WORK.format(after=""), "stderr", PYTHONIOENCODING="utf-8")
    assert process.communicate(timeout=30)[0] == b"the result\n"
    assert "quantize" in drawn
    assert "\u2501" in drawn
    assert re.search(r"2\.0 of 2\.0 GB  100 %  [\d.]+ GB/s  0\.\d\d s", drawn)
    assert drawn.count(HIDE_CURSOR) == drawn.count(SHOW_CURSOR) == 1


def test_an_error_gives_the_terminal_back(start: Start) -> None:
    code = WORK.format(after='progress.start("verify", 5); raise KeyboardInterrupt')
    process, drawn = on_terminal(start, code, "stderr")
    process.communicate(timeout=30)
    assert drawn.count(HIDE_CURSOR) == drawn.count(SHOW_CURSOR) == 2
    assert drawn.rindex(SHOW_CURSOR) > drawn.rindex(HIDE_CURSOR)


def test_no_color_is_respected(start: Start) -> None:
    _, drawn = on_terminal(start, WORK.format(after=""), "stderr", NO_COLOR="1")
    assert "100 %" in drawn
    assert re.findall(r"\x1b\[[\d;]*3\d[\d;]*m", drawn) == []


LINES = r"quantize  2.00 GB, 500 MB of it done before\r?\nquantize  2.0 of 2.0 GB  100 %  [\d.]+ [GT]B/s  0.\d\d s\r?\n"


def test_a_dumb_terminal_gets_plain_lines(start: Start) -> None:
    _, drawn = on_terminal(start, WORK.format(after=""), "stderr", TERM="dumb")
    assert re.fullmatch(LINES, drawn)


def test_without_a_terminal_there_are_plain_lines_and_rich_stays_away(start: Start) -> None:
    code = WORK.format(after='import sys; assert "rich" not in sys.modules')
    process = start(code)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, b"the result\n")
    assert re.fullmatch(LINES, err.decode())


def test_a_closed_stderr_does_not_stop_the_work(start: Start) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = start(WORK.format(after=""), stderr=writer)
    os.close(writer)
    out, _ = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, b"the result\n")


def test_a_stderr_closed_from_the_start_leaves_stdout_alone() -> None:
    code = "import os, sys\nassert sys.stderr is None\nfrom schemegen.cli import render\n" + WORK.format(after="")
    shell = ["sh", "-c", 'exec "$0" -c "$1" 2>&-', sys.executable, code]
    done = subprocess.run(shell, cwd=ROOT, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, b"the result\n")


@pytest.mark.parametrize(
    ("term", "terminal"), [("xterm", True), ("xterm-256color", True), ("dumb", False), ("unknown", False), ("", True)]
)
def test_what_is_a_terminal(monkeypatch: pytest.MonkeyPatch, term: str, terminal: bool) -> None:
    monkeypatch.setenv("TERM", term)
    assert render.is_terminal(Terminal()) is terminal
    assert not render.is_terminal(io.StringIO())
    assert not render.is_terminal(None)


def test_without_a_known_terminal_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TERM", raising=False)
    assert not render.is_terminal(Terminal())


def test_progress_outside_a_terminal_is_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with render.progress() as progress:
        assert isinstance(progress, Lines)


HEAD = ("name", "tensors", "said of it")
ROWS = [("a", "1,045", "short"), ("longer", "7", "a sentence that does not fit into the room that is left")]


def test_columns_line_up_and_nothing_wraps_outside_a_terminal() -> None:
    assert render.table(HEAD, ROWS, right=["tensors"]) == [
        "name    tensors  said of it",
        "a         1,045  short",
        "longer        7  a sentence that does not fit into the room that is left",
    ]


def test_on_a_terminal_the_last_column_wraps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "47")
    assert render.table(HEAD, ROWS) == [
        "name    tensors  said of it",
        "a       1,045    short",
        "longer  7        a sentence that does not fit",
        "                 into the room that is left",
    ]


def test_a_total_is_ruled_off_below_the_numbers() -> None:
    assert render.table(HEAD, ROWS, ["tensors"], ["total", "1,052", ""]) == [
        "name    tensors  said of it",
        "a         1,045  short",
        "longer        7  a sentence that does not fit into the room that is left",
        "        -------",
        "total     1,052",
    ]


def test_on_a_terminal_long_values_wrap_and_names_stay_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    name = "model.language_model.layers.0.self_attn.q-proj.weight"
    assert render.fields([("told", ["a sentence that needs two lines of it", name])], "  ") == [
        "  told  a sentence that needs two lines",
        "          of it",
        f"        {name}",
    ]


def test_what_cannot_be_seen_is_escaped() -> None:
    odd = "a\x1b[31m\nb\u202e\ud800 é…"
    shown = r"a\x1b[31m\nb\u202e\ud800 é…"
    assert escaped(odd) == shown
    assert render.fields([("name", odd)]) == [f"name  {shown}"]
    assert render.table(["name"], [[odd]]) == ["name", shown]
    assert render.heading(odd) == shown


def test_columns_without_a_head() -> None:
    assert render.aligned([("a", "I32", ""), ("long", "F8", "2")]) == ["a     I32", "long  F8   2"]
    assert render.aligned([]) == []


def test_on_a_terminal_the_head_is_bold_unless_color_is_unwanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    assert render.table(["a"], []) == ["\x1b[1ma\x1b[0m"]
    monkeypatch.setenv("NO_COLOR", "1")
    assert render.table(["a"], []) == ["a"]


def test_fields_line_up_and_a_label_without_a_value_is_left_out() -> None:
    assert render.fields([("model", "m"), ("checked", ["one", "two"]), ("note", [])]) == [
        "model    m",
        "checked  one",
        "         two",
    ]


def test_data_is_ascii_json_and_paths_are_text(capsys: pytest.CaptureFixture[str]) -> None:
    from pathlib import PurePosixPath

    render.data({"path": PurePosixPath("größer"), "n": 1})
    assert capsys.readouterr().out == '{"path": "gr\\u00f6\\u00dfer", "n": 1}\n'
