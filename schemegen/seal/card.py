"""The model card: what was quantized and what was kept, the sizes, how to serve it and how to make it again."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from itertools import pairwise
from typing import Any, Final
from urllib.parse import quote

from schemegen.engines.serving import ENGINES, PORT, SERVERS, VERSIONS, Serving, servings
from schemegen.formats import DTYPE_BITS, storage_of
from schemegen.formats.words import activations_in_words, bits_in_words, kind_of, observer_in_words, weights_in_words
from schemegen.manifest import CARD_NAME, travel_names
from schemegen.planner import Plan
from schemegen.scheme import Format, Method, Scheme
from schemegen.seal.base_model import hub_id
from schemegen.seal.contents import contents
from schemegen.seal.front_matter import front_matter_of, rendered
from schemegen.seal.hub_rules import taken
from schemegen.seal.markdown import code, linked, one_line, plain
from schemegen.seal.patterns import Quantized, quantized_of
from schemegen.seal.peer_script import RELEASE, peer_script
from schemegen.seal.sealing import Sealing

_METHODS: Final = {"rtn": "RTN (round-to-nearest, data-free)"}
_HUB: Final = "https://huggingface.co"


def default_name(model_id: str, scheme_name: str) -> str:
    """What an output is called: `<model>-<scheme>`, fit for a folder and a Hub repository."""
    last = model_id.removeprefix("sample:").rpartition("/")[2]
    return f"{re.sub(r'[^A-Za-z0-9._-]+', '-', last).strip('-.') or 'model'}-{scheme_name}"


def argument(path: str) -> str:
    """A folder's path as a command line takes it for one, whatever it begins with."""
    return f"./{path}" if path.startswith("-") else path


def card(sealing: Sealing, ignore: Sequence[str]) -> str:
    """The text of README.md; `ignore` is that of the output's quantization_config."""
    from importlib.resources import files

    import jinja2

    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.filters |= {"plain": plain, "code": code, "linked": linked}
    template = files("schemegen.seal").joinpath("card.md.jinja").read_text(encoding="utf-8")
    quantized = quantized_of(sealing.plan)
    text = environment.from_string(template).render(
        **_identity(sealing),
        **_quantization(sealing.plan),
        **contents(sealing.plan, quantized),
        **_use(sealing, quantized, ignore),
    )
    return re.sub(r"\n{3,}", "\n\n", text)


def _identity(sealing: Sealing) -> dict[str, Any]:
    """Names, links and license."""
    plan, names = sealing.plan, travel_names([file.name for file in sealing.checkpoint.side_files])
    fields = taken(front_matter_of(sealing.checkpoint), list(names.values()), sealing.base)
    return {
        "front_matter": rendered(fields, sealing.base, _tags(plan)),
        "name": default_name(plan.model_id, plan.scheme.name),
        "base": f"[{plain(sealing.base)}]({_HUB}/{sealing.base})" if sealing.base else f"`{code(plan.model_id)}`",
        "read_from": _read_from(sealing),
        "version": version("schemegen"),
        "scheme": plan.scheme,
        "policies": _policies(sealing.command),
        "backend": sealing.backend,
        "backend_versions": [f"{name} {number}" for name, number in sealing.versions.items()],
        "license": _license_words(fields),
        "license_link": fields.get("license_link"),
        "own_readme": names.get(CARD_NAME),
        "notes": list(_notes(sealing)),
    }


def _tags(plan: Plan) -> list[str]:
    """As cards of such models have them."""
    kinds = dict.fromkeys(kind_of(found).lower() for found in _formats(plan).values())
    return ["compressed-tensors", *kinds, "vllm", "schemegen"]


def _read_from(sealing: Sealing) -> str | None:
    """Where the weights were read, in words that the base model's link does not say yet."""
    plan, own = sealing.plan, hub_id(sealing.plan.model_id)
    if own is None:
        return None
    place = "" if own == sealing.base else f" of [{plain(own)}]({_HUB}/{own})"
    if plan.revision is None:
        return f"the weights{place}" if place else None
    return f"revision [`{code(plan.revision)[:12]}`]({_HUB}/{own}/tree/{quote(plan.revision, safe='')}){place}"


def _policies(command: Sequence[str]) -> list[str]:
    """What a command line puts in front of the scheme's own rules."""
    return [code(word) for option, word in pairwise(command) if option == "--policy"]


def _license_words(fields: dict[str, Any]) -> str:
    found = fields.get("license_name") or fields.get("license") or ""
    return found if isinstance(found, str) else ", ".join(found)


def _quantization(plan: Plan) -> dict[str, Any]:
    """How values are computed, and what each format is."""
    formats = _formats(plan)
    return {
        "method": _method(plan.scheme.method),
        "precision_words": _headline(formats.values()),
        "formats": [_told(plan, name, found, len(formats) > 1) for name, found in formats.items()],
    }


def _method(method: Method) -> str:
    options = ", ".join(f"{name} {value}" for name, value in method.options.items())
    told = _METHODS.get(method.name, method.name)
    return f"{told} ({plain(options)})" if options else told


def _formats(plan: Plan) -> dict[str, Format]:
    """The formats that tensors have, in the scheme's order."""
    return {name: found for name, found in plan.scheme.formats.items() if name in plan.formats_used}


def _headline(formats: Iterable[Format]) -> str:
    found = list(formats)
    kinds = " and ".join(dict.fromkeys(kind_of(each) for each in found))
    return f"{kinds}{' weight-only' if all(each.input_activations is None for each in found) else ''} quantization"


def _told(plan: Plan, name: str, found: Format, one_of_several: bool) -> dict[str, str]:
    """One format, row by row; `of` names it where there are several."""
    weights, bits = found.weights, _activation_bits(plan, name, found)
    sort = "integer" if weights.type == "int" else "floating-point"
    group = "" if weights.group_size is None else f", group_size = {weights.group_size}"
    return {
        "of": f" of {name}" if one_of_several else "",
        "precision": f"{bits_in_words(found, bits)} ({weights.num_bits}-bit {sort} weights, {bits}-bit activations)",
        "weights": weights_in_words(found),
        "activations": activations_in_words(found.input_activations),
        "strategy": weights.strategy + group,
        "symmetric": str(weights.symmetric).lower(),
        "observer": plain(observer_in_words(weights)),
        "storage": storage_of(found),
    }


def _activation_bits(plan: Plan, name: str, found: Format) -> int:
    if found.input_activations is not None:
        return found.input_activations.num_bits
    return max(DTYPE_BITS[tensor.source.dtype] for tensor in plan.tensors if tensor.format == name)


def _servings(sealing: Sealing, name: str) -> list[Serving]:
    """The command lines of the engines that the scheme says serve it, of all where it does not say."""
    told = {ENGINES.get(engine) for engine in sealing.plan.scheme.served_by}
    found = servings(sealing.plan, sealing.checkpoint, sealing.architecture, name)
    return [serving for serving in found if not told or serving.engine in told]


def _served_by(scheme: Scheme) -> list[tuple[str, str]]:
    return [(ENGINES.get(engine, engine), told) for engine, told in scheme.served_by.items()]


def _use(sealing: Sealing, quantized: Quantized, ignore: Sequence[str]) -> dict[str, Any]:
    """Command lines and scripts: to serve it, and to make it again."""
    plan = sealing.plan
    name = default_name(plan.model_id, plan.scheme.name)
    words = [one_line(word) for word in sealing.command]
    return {
        "servings": _servings(sealing, name),
        "served_by": _served_by(plan.scheme),
        "engine_versions": " and ".join(f"{engine} {VERSIONS[engine]}" for engine in SERVERS),
        "port": PORT,
        "command": shlex.join(words),
        "verify": shlex.join(["schemegen", "verify", name, "--against", argument(one_line(plan.model_id))]),
        "plugins": _plugins(sealing),
        "own_scheme": words[2] if words[2].endswith(".yaml") else None,
        "own_policies": [word for word in _policies(words) if word.endswith(".yaml")],
        "peer": peer_script(sealing, quantized, ignore, name),
        "peer_release": RELEASE,
    }


def _plugins(sealing: Sealing) -> list[str]:
    """What has to be installed beside schemegen: "schemegen-acme 0.1.0 (scheme, architecture)"."""
    brought: dict[str, list[str]] = {}
    for what, plugin in sealing.plugins.items():
        brought.setdefault(plugin, []).append(what)
    return [f"{plugin} ({', '.join(whats)})" for plugin, whats in brought.items()]


def _notes(sealing: Sealing) -> Iterator[str]:
    yield from sealing.plan.notes
    yield from sealing.report
    if left := [file.name for file in sealing.checkpoint.unindexed]:
        yield "Left out, since the index does not name them: " + ", ".join(left)
