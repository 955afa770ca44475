"""All names: schemes, policies, architectures and backends of schemegen and its plugins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from schemegen import builtin
from schemegen.architectures.base import Architecture
from schemegen.backends.base import Backend
from schemegen.backends.guard import GuardedBackend
from schemegen.errors import DuplicateNameError, PluginError, UnknownNameError
from schemegen.loader import load_policy, load_scheme
from schemegen.plugins import Plugin, collect, plugin_manager
from schemegen.policy import Policy
from schemegen.registry import Registry
from schemegen.scheme import Scheme

_Model = TypeVar("_Model", Scheme, Policy)
_FILE_SUFFIXES = (".yaml", ".yml")


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
        return given if isinstance(given, Scheme) else self._find(given, self.schemes, load_scheme)

    def policy(self, given: str | Path | Policy) -> Policy:
        """A policy by name or by the path of a YAML file, or the policy itself."""
        return given if isinstance(given, Policy) else self._find(given, self.policies, load_policy)

    def backend(self, name: str) -> GuardedBackend:
        """A backend by name, guarded: its faults name it and its origin."""
        return GuardedBackend(self.backends.get(name, self.notes), self.backends.origin(name))

    def architecture_of(self, config: Mapping[str, Any]) -> Architecture:
        """The architecture that answers to the config's model_type; UnknownNameError with suggestions otherwise."""
        model_type = config.get("model_type")
        by_type = self._architectures_by_type()
        if not isinstance(model_type, str) or model_type not in by_type:
            raise UnknownNameError("model_type", str(model_type), by_type, self.notes)
        return by_type[model_type]

    def _architectures_by_type(self) -> dict[str, Architecture]:
        found: dict[str, Architecture] = {}
        for architecture in self.architectures:
            for model_type in architecture.model_types:
                if model_type in found:
                    origins = [
                        f"architecture {name} of {self.architectures.origin(name)}"
                        for name in (found[model_type].name, architecture.name)
                    ]
                    raise DuplicateNameError("model_type", model_type, *origins)
                found[model_type] = architecture
        return found

    @property
    def notes(self) -> list[str]:
        """Each failed plugin as a sentence: the name asked for may be that plugin's."""
        return [f"{failure} (it may have registered the name)" for failure in self.failures]

    def _find(self, given: str | Path, registry: Registry[_Model], load: Callable[[Path], _Model]) -> _Model:
        if isinstance(given, Path) or given.endswith(_FILE_SUFFIXES):
            return load(Path(given))
        return registry.get(given, self.notes)


def load_catalog() -> Catalog:
    """Load the built-ins and every plugin; a broken guest is skipped and stands in `failures`."""
    plugins = plugin_manager([builtin])
    schemes, policies = Registry("scheme", Scheme), Registry("policy", Policy)
    architectures = Registry("architecture", Architecture)
    backends: Registry[Backend] = Registry("backend", Backend)  # type: ignore[type-abstract]
    collect(plugins, "schemegen_register_schemes", schemes)
    collect(plugins, "schemegen_register_policies", policies)
    collect(plugins, "schemegen_register_architectures", architectures)
    collect(plugins, "schemegen_register_backends", backends)
    return Catalog(schemes, policies, architectures, backends, tuple(plugins.loaded), tuple(plugins.failures))
