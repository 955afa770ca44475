"""reference/policies.md: each built-in policy with its file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from docs.writing.markdown import block, sentence, table
from schemegen.builtin import schemegen_register_policies
from schemegen.data import schemes_folder
from schemegen.policy import Policy

_INTRODUCTION: Final = """\
# Built-in policies

A policy hands out formats by role, part and layer. A scheme names one, or several in a list; `--policy` puts more in
front of them. The first rule that selects a tensor decides, and what no rule selects is kept. `use: default` is the
scheme's only format, so a policy with it goes with schemes of one format; the `keep-…` ones go with any."""


def page() -> Iterator[str]:
    """The page."""
    policies = sorted(schemegen_register_policies(), key=lambda policy: (policy.name.startswith("keep-"), policy.name))
    rows = ((f"[`{policy.name}`](#{policy.name})", sentence(policy.summary)) for policy in policies)
    yield from (_INTRODUCTION, "", *table(("policy", "what it does"), rows), "")
    for policy in policies:
        yield from _section(policy)


def _section(policy: Policy) -> Iterator[str]:
    file = schemes_folder() / "policies" / f"{policy.name}.yaml"
    yield from (f"## {policy.name}", "", sentence(policy.summary), "", *block("yaml", file.read_text(encoding="utf-8")))
