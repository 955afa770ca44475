"""Policies: lists of rules."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from schemegen.policy import Policy

KEEP: dict[str, Any] = {"use": "keep"}


def policy(*rules: dict[str, Any], **changes: Any) -> Policy:
    return Policy.model_validate({"schema_version": 1, "name": "mine", "summary": "s", "rules": list(rules)} | changes)


def test_a_policy_needs_a_rule() -> None:
    with pytest.raises(ValidationError, match="rules"):
        policy()


@pytest.mark.parametrize(
    "summary", ["", "a\nb", "a\tb", "a\x1b[31m", "a\x7f", "a\x85b", "a\u2028b", "\ud800", "x" * 301]
)
def test_a_summary_is_one_line(summary: str) -> None:
    with pytest.raises(ValidationError, match="summary"):
        policy(KEEP, summary=summary)


def test_a_summary_may_be_in_any_language() -> None:
    text = "Experten in vier Bit, 専門家だけ 🙂"
    assert policy(KEEP, summary=text).summary == text


def test_a_faulty_rule_is_told_without_a_word_on_shadows() -> None:
    with pytest.raises(ValidationError) as caught:
        policy(KEEP, {"role": "atention", "use": "keep"})
    assert [fault["loc"][:2] for fault in caught.value.errors()] == [("rules", 1)]
