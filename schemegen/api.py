"""schemegen as a library: plan, apply, verify, inspect, describe."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from schemegen.architectures.base import Architecture
from schemegen.backends.base import Backend
from schemegen.backends.guard import GuardedBackend
from schemegen.backends.offers import check_offers
from schemegen.catalog import Catalog, load_catalog
from schemegen.checkpoint import open_checkpoint
from schemegen.checkpoint.model import Checkpoint
from schemegen.checkpoint.quantized import refuse_quantized
from schemegen.engines import check_declaration, engine_notes, serve_command, untried_notes
from schemegen.errors import OutputError, UnknownNameError, UnsupportedError, shortened
from schemegen.hookspecs import PROJECT
from schemegen.inspection import Inspection, NamedTensor, look_at, names_of
from schemegen.manifest import Manifest, read_manifest
from schemegen.planner import Plan, make_plan, resolve_rules
from schemegen.planner.rules import ResolvedRule
from schemegen.policy import Policy
from schemegen.progress import Progress, Silent
from schemegen.reproduction import DEFAULT_BACKEND, command_of, plugins_of
from schemegen.runner.asked import devices_of, revision_of, workers_of
from schemegen.runner.place import settled
from schemegen.runner.produce import Order, Produced, produce
from schemegen.scheme import Scheme
from schemegen.seal import argument, base_model_id, default_name
from schemegen.verifier import Report, check_source_headers, verify_folder
from schemegen.verifier.against import source_of

if TYPE_CHECKING:
    from schemegen.described import Description

__all__ = ["Inspection", "Report", "Result", "apply", "describe", "inspect", "plan", "verify"]


@dataclass(frozen=True, slots=True)
class Result:
    """What `apply` made. Bytes are those of tensors; `serve` is the command line that serves the output."""

    path: Path
    status: Literal["written", "unchanged"]
    plan: Plan
    seconds: float
    bytes_in: int
    bytes_out: int
    resumed_bytes: int
    checks: tuple[str, ...]
    serve: str
    notes: tuple[str, ...]
    unindexed: tuple[str, ...]


def plan(
    scheme: str | Path | Scheme,
    model: str | Path,
    *,
    policies: Sequence[str | Path | Policy] = (),
    revision: str | None = None,
) -> Plan:
    """Plan a scheme (name, YAML file or object) on a model (Hub id, folder or sample:NAME) from headers alone."""
    checkpoint = open_checkpoint(model, revision_of(revision))
    catalog = load_catalog()
    planned, _ = _planned(catalog, scheme, checkpoint, policies)
    # A plan that no backend can carry out is not worth showing.
    _check_backends(catalog, planned)
    return replace(planned, notes=checkpoint.notes + planned.notes)


def apply(
    scheme: str | Path | Scheme,
    model: str | Path,
    output: str | Path | None = None,
    *,
    policies: Sequence[str | Path | Policy] = (),
    backend: str | Backend = DEFAULT_BACKEND,
    device: str | Sequence[str] = "auto",
    jobs: int | None = None,
    revision: str | None = None,
    base_model: str | None = None,
    overwrite: bool = False,
    restart: bool = False,
    unindexed: Literal["refuse", "drop"] = "refuse",
    progress: Progress | None = None,
) -> Result:
    """Quantize a model into a folder, by default ./<model>-<scheme>; resumes what an earlier run left.

    `backend` is a name, or a Backend that need not be registered; `device` is cpu, cuda:N, several of those, or auto;
    `revision` a Hub id's branch, tag or commit; `base_model` the Hub id that the model card names, whatever the model
    or its place tells.
    Raises a SchemegenError; whatever it is, the output folder is either finished or not there.
    """
    base = None if base_model is None else base_model_id(base_model)
    devices, workers = devices_of(device), workers_of(jobs)
    catalog, checkpoint = load_catalog(), open_checkpoint(model, revision_of(revision))
    planned, architecture = _planned(catalog, scheme, checkpoint, policies)
    chosen = catalog.backend(backend)
    _check_backends(catalog, planned, chosen)
    folder = settled(Path(default_name(planned.model_id, planned.scheme.name) if output is None else output))
    order = Order(
        planned,
        checkpoint,
        architecture,
        chosen,
        folder,
        devices,
        workers,
        overwrite,
        restart,
        unindexed,
        tuple(command_of(catalog, planned, checkpoint, policies, chosen.name, base)),
        base_model=base,
        plugins=plugins_of(catalog, planned, policies, chosen.name),
    )
    return _result(order, produce(order, progress or Silent()))


def verify(
    folder: str | Path,
    against: str | Path | None = None,
    *,
    jobs: int | None = None,
    revision: str | None = None,
    progress: Progress | None = None,
) -> Report:
    """Check an output against its manifest and, given the source model, against plan and source.

    Raises VerificationError with every finding.
    """
    place, revision, workers = Path(folder), revision_of(revision), workers_of(jobs)
    if not place.is_dir():
        raise OutputError(f"no folder {place}; give the folder that apply wrote")
    manifest = read_manifest(place)
    shown = progress or Silent()
    checkpoint = source_of(manifest, against, revision)
    planned, architecture = (None, None) if checkpoint is None else _replanned(manifest, checkpoint)
    if checkpoint is not None:
        check_source_headers(manifest, checkpoint)
        checkpoint = checkpoint.fetched(shown)
    report = verify_folder(
        place, manifest, planned, checkpoint, architecture=architecture, jobs=workers, progress=shown
    )
    return report if checkpoint is None else replace(report, notes=checkpoint.notes)


def inspect(model: str | Path, *, revision: str | None = None) -> Inspection:
    """What a model is made of, by part and role, from headers alone."""
    checkpoint = open_checkpoint(model, revision_of(revision))
    return look_at(checkpoint, load_catalog().architecture_of(checkpoint.config))


def tensor_names(model: str | Path, *, revision: str | None = None) -> tuple[NamedTensor, ...]:
    """Every tensor of a model by name, with part and role where its architecture is known and knows it."""
    checkpoint, catalog = open_checkpoint(model, revision_of(revision)), load_catalog()
    try:
        architecture = catalog.architecture_of(checkpoint.config)
    except UnknownNameError:
        architecture = None
    return names_of(checkpoint, architecture)


def describe(model: str | Path, *, revision: str | None = None) -> Description:
    """The scheme that a quantized model's config describes, from headers alone, and remarks on what that does not tell.

    It names built-in policies only. UnsupportedError for a model that compressed-tensors did not make or no scheme can
    say; CheckpointError where config and tensors disagree.
    """
    from schemegen.described import describe_checkpoint

    checkpoint, catalog = open_checkpoint(model, revision_of(revision)), load_catalog()
    policies = [policy for policy in catalog.policies if catalog.policies.origin(policy.name) == PROJECT]
    return describe_checkpoint(checkpoint, catalog.architecture_of, policies)


def _result(order: Order, made: Produced) -> Result:
    plan, checkpoint = order.plan, order.checkpoint
    return Result(
        order.output,
        made.status,
        plan,
        made.seconds,
        plan.totals.bytes_in,
        plan.totals.bytes_out,
        made.resumed_bytes,
        made.checks,
        serve_command(argument(str(order.output))),
        checkpoint.notes + plan.notes + made.report,
        tuple(file.name for file in checkpoint.unindexed),
    )


def _planned(
    catalog: Catalog, scheme: str | Path | Scheme, checkpoint: Checkpoint, policies: Sequence[str | Path | Policy]
) -> tuple[Plan, Architecture]:
    found = catalog.scheme(scheme)
    rules = resolve_rules(found, catalog.policies_beside(scheme), [catalog.policy(policy) for policy in policies])
    refuse_quantized(checkpoint)
    architecture = catalog.architecture_of(checkpoint.config)
    planned = make_plan(checkpoint, architecture, found, rules)
    notes = engine_notes(planned, architecture, check_declaration(planned, architecture)) + untried_notes(architecture)
    return replace(planned, notes=planned.notes + notes), architecture


def _check_backends(catalog: Catalog, plan: Plan, chosen: GuardedBackend | None = None) -> None:
    """Refuse what `chosen` cannot compute or, where none is, no backend."""
    backends = {backend.name: backend for backend in catalog.all_backends()}
    if chosen is not None:
        backends[chosen.name] = chosen
    check_offers(plan, list(backends.values()), chosen, catalog.notes)


def _replanned(manifest: Manifest, checkpoint: Checkpoint) -> tuple[Plan, Architecture]:
    """The plan of a finished output again: the manifest holds scheme and rules in full, so no name is looked up."""
    try:
        architecture = load_catalog().architecture_of(checkpoint.config)
    except UnknownNameError as error:
        if plugin := manifest.plugins.get("architecture"):
            told = f"architecture {shortened(manifest.architecture)} came from the plugin {shortened(plugin)}"
            raise UnsupportedError(f"{told}, which is not loaded; install it to compare with the source") from error
        raise
    rules = [ResolvedRule.from_dict(rule) for rule in manifest.rules]
    plan = make_plan(checkpoint, architecture, manifest.scheme, rules, again=True)
    _check_projections(manifest, plan)
    return plan, architecture


def _check_projections(manifest: Manifest, plan: Plan) -> None:
    """UnsupportedError where the plan cannot be made again: before 0.4 no rule of projections reached a stack."""
    is_old = re.match(r"0\.[0-3]\.", manifest.schemegen) is not None
    if is_old and any(rule.rule.projection for rule in plan.rules) and any(tensor.stacked for tensor in plan.tensors):
        raise UnsupportedError(
            f"{shortened(manifest.model_id)} was quantized by schemegen {shortened(manifest.schemegen)}, whose rules "
            "of projections did not reach stacks of experts, and cannot be planned again; verify it without the "
            "source, or make it again"
        )
