"""How an output is made again: the words of a command line, and the plugins that whoever types them needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVar

from schemegen.catalog import Catalog
from schemegen.checkpoint.model import Checkpoint
from schemegen.hookspecs import PROJECT
from schemegen.planner import Plan
from schemegen.policy import Policy
from schemegen.registry import Registry
from schemegen.scheme import Scheme
from schemegen.seal import argument, hub_id

DEFAULT_BACKEND: Final = "native-rtn"
_Model = TypeVar("_Model", Scheme, Policy)


def command_of(
    catalog: Catalog,
    plan: Plan,
    checkpoint: Checkpoint,
    policies: Sequence[str | Path | Policy],
    backend: str,
    base_model: str | None,
) -> Iterator[str]:
    """The words that make an output again; what is not registered is named as a file."""
    yield from ("schemegen", "apply", _word(catalog.schemes, plan.scheme), argument(plan.model_id))
    if plan.revision is not None:
        yield from ("--revision", plan.revision)
    for policy in policies:
        yield from ("--policy", _word(catalog.policies, catalog.policy(policy)))
    if backend != DEFAULT_BACKEND:
        yield from ("--backend", backend)
    if base_model not in (None, hub_id(plan.model_id)):
        yield from ("--base-model", str(base_model))
    if any(file.mtp for file in checkpoint.unindexed):
        yield from ("--unindexed", "drop")


def _word(registry: Registry[_Model], found: _Model) -> str:
    return found.name if _is_registered(registry, found) else f"{found.name}.yaml"


def _is_registered(registry: Registry[_Model], found: _Model) -> bool:
    return found.name in registry and registry.get(found.name) == found


def plugins_of(catalog: Catalog, plan: Plan, policies: Sequence[str | Path | Policy], backend: str) -> dict[str, str]:
    """Distribution and version of the plugins that brought the scheme, policies in front, architecture and backend."""
    origins = {"architecture": catalog.architectures.origin(plan.architecture)}
    if _is_registered(catalog.schemes, plan.scheme):
        origins["scheme"] = catalog.schemes.origin(plan.scheme.name)
    for policy in map(catalog.policy, policies):
        if _is_registered(catalog.policies, policy):
            origins[f"policy {policy.name}"] = catalog.policies.origin(policy.name)
    if backend in catalog.backends:
        origins["backend"] = catalog.backends.origin(backend)
    return {what: origin for what, origin in sorted(origins.items()) if origin != PROJECT}
