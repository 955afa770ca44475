"""All names: schemes, policies, architectures and backends of schemegen and its plugins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from schemegen import builtin
from schemegen.architectures.base import Architecture
from schemegen.architectures.guard import guarded
from schemegen.backends.base import Backend
from schemegen.backends.guard import GuardedBackend, attribute_fault
from schemegen.blame import invalid
from schemegen.documents import YAML_SUFFIXES, is_file_name
from schemegen.errors import PlanError, PluginError, UnknownNameError, plain, shortened
from schemegen.hookspecs import PROJECT
from schemegen.loader import load_policy, load_scheme
from schemegen.plugins import PLUGINS_VARIABLE, Plugin, are_plugins_off, collect, plugin_manager
from schemegen.policy import Policy
from schemegen.registry import Registry, typed
from schemegen.scheme import Scheme

_Model = TypeVar("_Model", Scheme, Policy)
_ADVICE = "a model family of your own is one object in a plugin (docs/how-to/architecture.md)"


@dataclass(frozen=True, slots=True)
class Catalog:
    """Everything that has a name, the plugins that brought it, and the plugins that failed."""

    schemes: Registry[Scheme]
    policies: Registry[Policy]
    architectures: Registry[Architecture]
    backends: Registry[Backend]
    plugins: tuple[Plugin, ...]
    failures: tuple[PluginError, ...]

    def scheme(self, given: str | Path | Scheme) -> Scheme:
        """A scheme by name or by the path of a YAML file, or the scheme itself."""
        return _valid(given) if isinstance(given, Scheme) else self._find(given, self.schemes, load_scheme)

    def policy(self, given: str | Path | Policy) -> Policy:
        """A policy by name or by the path of a YAML file, or the policy itself."""
        return _valid(given) if isinstance(given, Policy) else self._find(given, self.policies, load_policy)

    def policies_beside(self, given: str | Path | Scheme) -> Callable[[str], Policy]:
        """Finds the policies that a scheme names; files among them lie beside the scheme's own, where it has one."""
        folder = Path(given).parent if not isinstance(given, Scheme) and is_file_name(given) else Path()

        def find(name: str) -> Policy:
            given = folder / name if is_file_name(name) else name
            return self._find(given, self.policies, load_policy, folder)

        return find

    def backend(self, given: str | Backend) -> GuardedBackend:
        """A backend by name, or the one given, guarded: its faults name it and its origin."""
        if not isinstance(given, str):
            return own_backend(given)
        return GuardedBackend(self.backends.get(given, self.notes), self.backends.origin(given))

    def all_backends(self) -> list[GuardedBackend]:
        """Every backend, guarded: schemegen's own first, whose answers are the ones to show first."""
        names = sorted(self.backends.names(), key=lambda name: (self.backends.origin(name) != PROJECT, name))
        return [self.backend(name) for name in names]

    def architecture_of(self, config: Mapping[str, Any]) -> Architecture:
        """The architecture that answers to the config's model_type; UnknownNameError with suggestions otherwise."""
        model_type = config.get("model_type")
        by_type = self._architectures_by_type()
        if not isinstance(model_type, str) or model_type not in by_type:
            notes = [_ADVICE, *self.notes]
            raise UnknownNameError("model_type", str(model_type), by_type, notes, cutoff=0.9)
        found = by_type[model_type]
        origin = self.architectures.origin(found.name)
        return found if origin == PROJECT else guarded(found, origin)

    def _architectures_by_type(self) -> dict[str, Architecture]:
        return {name: architecture for architecture in self.architectures for name in architecture.model_types}

    @property
    def notes(self) -> list[str]:
        """Why the name asked for may be unknown here: each failed plugin, or that none is loaded."""
        failed = [f"{failure} (it may have registered the name)" for failure in self.failures]
        return [*failed, *([f"plugins are off ({PLUGINS_VARIABLE})"] if are_plugins_off() else [])]

    def _find(
        self, given: str | Path, registry: Registry[_Model], load: Callable[[Path], _Model], folder: Path = Path()
    ) -> _Model:
        """By name, or from a file; `folder` is where a file of that name would lie, whose suffix was left out."""
        if is_file_name(given):
            return load(Path(given))
        asked: str = str(given)
        notes = [] if asked in registry else [*file_notes(asked, folder), *self.notes]
        return registry.get(asked, notes)


def file_notes(name: str, folder: Path = Path()) -> list[str]:
    """That a file has the name asked for, where one does."""
    found = [f"{name}{suffix}" for suffix in YAML_SUFFIXES if _is_there(folder / f"{name}{suffix}")]
    return [f"there is a file {plain(file)}: give it with its suffix" for file in found[:1]]


def _is_there(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        # Longer than a file's name may be.
        return False


def own_backend(backend: Backend) -> GuardedBackend:
    """A backend that nobody registered, held to what is asked of those: PluginError for a wrong type or name."""
    # Of a class that was passed in place of an instance its own module, not that of its metaclass.
    module = backend.__module__ if isinstance(backend, type) else type(backend).__module__
    origin = f"{module} (not registered)"
    _backends().add(backend, origin=origin)
    return GuardedBackend(backend, origin)


def _backends() -> Registry[Backend]:
    return Registry("backend", Backend, lambda backend, _: attribute_fault(backend))  # type: ignore[type-abstract]


def _model_type_fault(architecture: Architecture, others: Iterable[Architecture]) -> str | None:
    """Why an architecture cannot answer to its model types: a type has one architecture, whoever brings it."""
    names: object = architecture.model_types
    if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names):
        return f"model_types is {typed(names)}, and must be a tuple of names"
    taken = {name: other.name for other in others for name in other.model_types}
    twin = next((name for name in names if name in taken), None)
    return twin and f"model_type {twin!r} is that of architecture {taken[twin]} already; take it out of one"


def _model_fault(model: Scheme | Policy) -> str | None:
    """What is wrong with a model that pydantic was told to make without looking, as by model_copy."""
    kind: type[Scheme | Policy] = Scheme if isinstance(model, Scheme) else Policy
    try:
        valid = kind.model_validate(model.model_dump(warnings=False))
    except ValidationError as error:
        return invalid(error)
    except PydanticSerializationError:
        return "a field is of another type than it may be; make it by model_validate, which looks at every field"
    # A mapping in the place of a model is dumped alike, and is none to whoever reads it.
    wrong = [name for name in kind.model_fields if getattr(model, name) != getattr(valid, name)]
    told = "is of another type than it may be; make it by model_validate, which reads mappings"
    return f"{wrong[0]} {told}" if wrong else None


def _valid(model: _Model) -> _Model:
    """The model; PlanError for one that pydantic was told to make without looking."""
    if fault := _model_fault(model):
        raise PlanError(f"{type(model).__name__.lower()} {shortened(str(model.name))}: {fault}")
    return model


def load_catalog() -> Catalog:
    """Load the built-ins and every plugin; a broken guest is skipped and stands in `failures`."""
    plugins = plugin_manager([builtin])
    schemes = Registry("scheme", Scheme, lambda scheme, _: _model_fault(scheme))
    policies = Registry("policy", Policy, lambda policy, _: _model_fault(policy))
    architectures, backends = Registry("architecture", Architecture, _model_type_fault), _backends()
    collect(plugins, "schemegen_register_schemes", schemes)
    collect(plugins, "schemegen_register_policies", policies)
    collect(plugins, "schemegen_register_architectures", architectures)
    collect(plugins, "schemegen_register_backends", backends)
    return Catalog(schemes, policies, architectures, backends, tuple(plugins.loaded), tuple(plugins.failures))
