"""What else there is, for messages: models of a similar name, the same name of another kind, existing revisions.

All of it is a courtesy: whatever fails here leaves a message shorter.
"""

from __future__ import annotations

import difflib
from contextlib import suppress
from itertools import islice
from typing import Final

from schemegen.checkpoint.hub.client import api
from schemegen.checkpoint.hub.settings import cache_folder
from schemegen.checkpoint.hub.store import known_repos

_SEARCHED: Final = 200
_LONGEST: Final = 200


def has_token() -> bool:
    """Whether requests say who asks."""
    with suppress(Exception):
        from huggingface_hub import get_token

        return get_token() is not None
    return False


def other_kind(repo: str) -> str | None:
    """`dataset` or `space`, where the Hub has one of this name."""
    with suppress(Exception):
        return next((kind for kind in ("dataset", "space") if api().repo_exists(repo, repo_type=kind)), None)
    return None


def near_repos(repo: str) -> list[str]:
    """Models with a name much like it: of the same owner, or found by the Hub's search, or in the cache."""
    owner, _, name = repo.partition("/")
    known = set(known_repos(cache_folder()))
    with suppress(Exception):
        known |= {model.id for model in islice(api().list_models(author=owner, limit=_SEARCHED), _SEARCHED)}
    if not any(model.startswith(f"{owner}/") for model in known):
        with suppress(Exception):
            known |= {model.id for model in islice(api().list_models(search=name, limit=20), 20)}
    return _near(repo, known)


def near_cached(repo: str) -> list[str]:
    """Models in the cache with a name much like it."""
    return _near(repo, set(known_repos(cache_folder())))


def _near(repo: str, known: set[str]) -> list[str]:
    by_case = {model.lower(): model for model in known - {repo} if _can_be_shown(model)}
    return [by_case[near] for near in difflib.get_close_matches(repo.lower(), by_case, n=3, cutoff=0.75)]


def revisions(repo: str) -> list[str]:
    """Branches and tags of a model."""
    with suppress(Exception):
        refs = api().list_repo_refs(repo)
        return [ref.name for ref in [*refs.branches, *refs.tags] if _can_be_shown(ref.name)]
    return []


def _can_be_shown(name: str) -> bool:
    return name.isprintable() and len(name) <= _LONGEST
