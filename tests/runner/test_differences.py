"""Differences name the place."""

from __future__ import annotations

from typing import Any

import pytest

from schemegen.runner.differences import differences, from_headers


@pytest.mark.parametrize(
    ("there", "now", "lines"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"scheme": "x"}, {"scheme": "y"}, ["  scheme: there x, now y"]),
        (
            {"source": [{"name": "s1", "size": 1}, {"name": "s2", "size": 1}]},
            {"source": [{"name": "s1", "size": 1}, {"name": "s2", "size": 2}]},
            ["  source.s2.size: there 1, now 2"],
        ),
        ({"files": {"a": "1"}}, {"files": {"a": "1", "b": "2"}}, ["  files.b: there null, now 2"]),
        ({"rules": []}, {"rules": [1]}, ["  rules: there [], now [1]"]),
        (
            {"rules": [{"label": "experts-only[0]", "format": "int4", "rule": {"use": "default"}}]},
            {
                "rules": [
                    {"label": "keep-mtp[0]", "format": None, "rule": {"use": "keep"}},
                    {"label": "experts-only[0]", "format": "int4", "rule": {"use": "default"}},
                ]
            },
            ["  rules: made with experts-only[0]; now keep-mtp[0], experts-only[0]"],
        ),
        (
            {"rules": [{"label": "mine[0]", "format": "int4"}]},
            {"rules": [{"label": "other[0]", "format": "int4"}]},
            ["  rules: made with mine[0]; now other[0]"],
        ),
        (
            {"rules": [{"label": "mine[0]", "format": "int4"}]},
            {"rules": [{"label": "mine[0]", "format": "int8"}]},
            ["  rules.mine[0].format: there int4, now int8"],
        ),
        (
            {"source": []},
            {"source": [{"name": f"s{number}"} for number in range(14)]},
            [f"  source: made with none; now {', '.join(f's{number}' for number in range(12))} and 2 more"],
        ),
        ({}, {"new": "v" * 100}, [f"  new: there null, now {'v' * 57}..."]),
    ],
)
def test_differences(there: dict[str, Any], now: dict[str, Any], lines: list[str]) -> None:
    assert differences(there, now) == lines


def test_what_headers_tell_of_a_run() -> None:
    shard = {"name": "a", "size": 1, "header_digest": "h"}
    run = {"scheme": "x", "source": [{**shard, "mtime_ns": 1, "sample_digest": "s"}], "source_files": {"b": "c"}}
    assert from_headers(run) == {"scheme": "x", "source": [shard]}
    damages: list[Any] = [None, {}, [1]]
    for damaged in damages:
        assert from_headers({"source": damaged}) == {"source": []}
