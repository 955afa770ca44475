"""Names that a plugin or a scheme can have: well formed, and nobody else's."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from schemegen.documents import YAML_SUFFIXES
from schemegen.errors import UnsupportedError, shortened
from schemegen.registry import NAME_PATTERN, NAME_RULE

if TYPE_CHECKING:
    from schemegen.catalog import Catalog

#: What package indexes make of every distribution's name (PEP 503), so that no two differ by it alone.
_NORMAL: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_NORMAL_RULE: Final = "use lower-case letters and digits, with single dashes between them"
_PREFIX: Final = "schemegen-"
_LONGEST: Final = 60


def check_plugin_name(name: str, catalog: Catalog) -> None:
    """UnsupportedError for a name that cannot follow `schemegen-` in a distribution's, or that a plugin has."""
    _check(name, "plugin", lambda text: bool(_NORMAL.fullmatch(text)), _NORMAL_RULE, _as_normal(name))
    if name.startswith(_PREFIX):
        short = name.removeprefix(_PREFIX)
        raise UnsupportedError(f"{_PREFIX} is put in front of {name!r} once more; did you mean {short}?")
    for plugin in catalog.plugins:
        if plugin.name == name:
            raise UnsupportedError(f"plugin {name!r} is taken by {plugin.origin}; choose another name")


def check_scheme_name(name: str, catalog: Catalog) -> None:
    """UnsupportedError for a name that no scheme can have, or that one has."""
    _check(name, "scheme", _names_scheme, NAME_RULE, _as_scheme(name))
    if name in catalog.schemes:
        raise UnsupportedError(
            f"scheme {name!r} is taken by {catalog.schemes.origin(name)}; "
            f"choose another name (schemegen show {name} prints it, to start from)"
        )


def _check(name: str, kind: str, fits: Callable[[str], bool], rule: str, near: str) -> None:
    if len(name) > _LONGEST:
        raise UnsupportedError(f"{shortened(name)} is too long to name a {kind}; take at most {_LONGEST} characters")
    if not fits(name):
        hint = f"; did you mean {near}?" if near and fits(near) else ""
        raise UnsupportedError(f"{shortened(name)} cannot name a {kind}; {rule}{hint}")


def _names_scheme(name: str) -> bool:
    # A name that ends so is read as a file's.
    return bool(NAME_PATTERN.fullmatch(name)) and not name.endswith(YAML_SUFFIXES)


def _as_normal(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", _plain(name)).strip("-")


def _as_scheme(name: str) -> str:
    for suffix in YAML_SUFFIXES:
        name = name.removesuffix(suffix)
    return re.sub(r"[^a-z0-9._-]+", "-", _plain(name)).strip("._-")


def _plain(name: str) -> str:
    """In small letters, without accents."""
    return unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
