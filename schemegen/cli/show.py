"""`schemegen show`: a scheme, policy, architecture or backend in full, or the scheme of a quantized model."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from schemegen.cli import options, render
from schemegen.cli.verbs import Verb
from schemegen.errors import UnknownNameError, escaped

if TYPE_CHECKING:
    from schemegen.architectures.base import Architecture, TensorRule
    from schemegen.backends.base import Backend
    from schemegen.catalog import Catalog
    from schemegen.policy import Policy
    from schemegen.scheme import Scheme

Body = dict[str, Any]
_WIDTH: Final = 118
_MAP: Final = "tag:yaml.org,2002:map"


@dataclass(frozen=True, slots=True)
class Shown:
    """Something that has a name: its kind, who brings it, and all it says as plain values."""

    kind: str
    origin: str
    body: Body


@click.command("show", cls=Verb)
@click.argument("name", required=False, callback=options.given)
@click.option(
    "--from", "model", callback=options.given, metavar="MODEL", help="Print the scheme of this quantized model instead."
)
@options.revision
@options.as_json
def command(name: str | None, model: str | None, revision: str | None, as_json: bool) -> None:
    """Print a scheme, policy, architecture or backend in full.

    NAME is one that `schemegen list` knows, or a YAML file. What is printed of a scheme or policy is a file to start
    your own from. Where two kinds share a name, KIND:NAME tells them apart.

    --from MODEL prints the scheme that a quantized model's config describes, told from headers alone: which formats,
    and which tensors have them. Its comments say what no config tells.
    """
    if (name is None) == (model is None):
        raise click.UsageError("give either NAME or --from MODEL")
    if name is not None and revision is not None:
        raise click.UsageError("--revision is that of --from MODEL")
    _show_model(model, revision, as_json) if model is not None else _show_name(str(name), as_json)


def _show_model(model: str, revision: str | None, as_json: bool) -> None:
    from schemegen import api

    found = api.describe(model, revision=revision)
    place = found.model_id if found.revision is None else f"{found.model_id} at {found.revision}"
    body = _scheme(found.scheme)
    if as_json:
        render.data({"kind": "scheme", "from": place, "content": body, "remarks": found.remarks})
    else:
        render.text(*_comment(f"scheme from the config of {place}"), *map("\n".join, map(_comment, found.remarks)))
        render.text(_yaml(body))
    for note in found.notes:
        render.note(f"note: {note}")


def _comment(line: str) -> list[str]:
    """The line as YAML comments; what is not printable, a line break too, is escaped."""
    return textwrap.wrap(escaped(line), _WIDTH, initial_indent="# ", subsequent_indent="#   ", break_on_hyphens=False)


def _show_name(name: str, as_json: bool) -> None:
    from schemegen.catalog import load_catalog
    from schemegen.documents import is_file_name

    catalog = load_catalog()
    shown, *others = [_from_file(name)] if is_file_name(name) else _named(catalog, name)
    if as_json:
        render.data({"kind": shown.kind, "from": shown.origin, "content": shown.body})
    else:
        render.text(f"# {shown.kind} from {shown.origin}", _yaml(shown.body))
    for other in others:
        render.note(f"note: there is also {other.kind} {name}; see it with show {other.kind}:{name}")


def _named(catalog: Catalog, given: str) -> list[Shown]:
    """Everything of that name, schemes first."""
    from schemegen.catalog import file_notes

    kind, _, name = given.rpartition(":")
    found = [shown for shown in _all(catalog, name) if kind in ("", shown.kind)]
    if not found:
        known = {*catalog.schemes.names(), *catalog.policies.names()}
        known |= {*catalog.architectures.names(), *catalog.backends.names()}
        raise UnknownNameError("name", given, known, [*file_notes(given), *catalog.notes])
    return found


def _all(catalog: Catalog, name: str) -> Iterator[Shown]:
    if name in catalog.schemes:
        yield Shown("scheme", catalog.schemes.origin(name), _scheme(catalog.schemes.get(name)))
    if name in catalog.policies:
        yield Shown("policy", catalog.policies.origin(name), _policy(catalog.policies.get(name)))
    if name in catalog.architectures:
        yield Shown("architecture", catalog.architectures.origin(name), _architecture(catalog.architectures.get(name)))
    if name in catalog.backends:
        yield Shown("backend", catalog.backends.origin(name), _backend(catalog.backends.get(name)))


def _from_file(path: str) -> Shown:
    from schemegen.loader import load_file
    from schemegen.policy import Policy

    found = load_file(path)
    if isinstance(found, Policy):
        return Shown("policy", path, _policy(found))
    return Shown("scheme", path, _scheme(found))


def _scheme(scheme: Scheme) -> Body:
    """The scheme as a person would write it."""
    body = scheme.model_dump(mode="json", exclude_unset=True)
    body["formats"] = {name: _short(given) for name, given in body["formats"].items()}
    entries = [entry if isinstance(entry, str) else _rule(entry) for entry in body["policy"]]
    body["policy"] = entries[0] if len(entries) == 1 and isinstance(entries[0], str) else entries
    return body


def _short(given: Body) -> Body:
    """A format of weights alone in short form, which `num_bits` marks."""
    weights: Body = given["weights"]
    return weights if len(given) == 1 and "num_bits" in weights else given


class _Line(dict[str, Any]):
    """What people write on one line."""


def _rule(given: Body) -> Body:
    """A rule as people write it: what it selects, then what that gets."""
    return _Line({**{name: value for name, value in given.items() if name != "use"}, "use": given["use"]})


def _policy(policy: Policy) -> Body:
    body = policy.model_dump(mode="json", exclude_unset=True)
    return body | {"rules": [_rule(rule) for rule in body["rules"]]}


def _architecture(architecture: Architecture) -> Body:
    return {
        "name": architecture.name,
        "summary": architecture.summary,
        "reference": architecture.reference,
        "model_types": list(architecture.model_types),
        "tensors": [_tensor(rule) for rule in architecture.rules],
    }


def _tensor(rule: TensorRule) -> Body:
    stacked = {"stack_of": ", ".join(rule.experts.projections)} if rule.experts else {}
    return {"pattern": rule.pattern, "role": str(rule.role), "part": str(rule.part), **stacked}


def _backend(backend: Backend) -> Body:
    return {
        "name": backend.name,
        "summary": backend.summary,
        "method": backend.method,
        "options": [] if backend.options is None else list(backend.options.model_fields),
        "built_on": list(backend.versions),
        "devices": list(backend.devices),
    }


def _yaml(body: Body) -> str:
    import yaml

    class Dumper(yaml.SafeDumper):
        """Knows what stands on one line."""

    Dumper.add_representer(_Line, lambda dumper, line: dumper.represent_mapping(_MAP, line, flow_style=True))
    encoding = getattr(render.results(), "encoding", None) or "ascii"
    plain = encoding.lower().replace("-", "") == "utf8"
    # Flow style for the innermost, as people write formats and rules; the width is one that no line reaches.
    dumped: str = yaml.dump(
        body, Dumper=Dumper, sort_keys=False, default_flow_style=None, width=10_000, allow_unicode=plain
    )
    return dumped.rstrip("\n")
