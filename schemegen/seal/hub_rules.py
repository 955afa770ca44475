"""What the Hub takes as a model card's metadata: a field of the base model's that it would refuse is mended or dropped.

Rules as the Hub's validator words them in its errors (licenses: of May 2026), and as its documentation of cards says.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from schemegen.seal.markdown import is_address, one_line

# fmt: off
LICENSES: Final = frozenset(
    {
        "apache-2.0", "mit", "openrail", "bigscience-openrail-m", "creativeml-openrail-m",
        "bigscience-bloom-rail-1.0", "bigcode-openrail-m", "afl-3.0", "artistic-2.0", "bsl-1.0", "bsd",
        "bsd-2-clause", "bsd-3-clause", "bsd-3-clause-clear", "c-uda", "cc", "cc0-1.0", "cc-by-2.0", "cc-by-2.5",
        "cc-by-3.0", "cc-by-4.0", "cc-by-sa-3.0", "cc-by-sa-4.0", "cc-by-nc-2.0", "cc-by-nc-3.0", "cc-by-nc-4.0",
        "cc-by-nd-4.0", "cc-by-nc-nd-3.0", "cc-by-nc-nd-4.0", "cc-by-nc-sa-2.0", "cc-by-nc-sa-3.0",
        "cc-by-nc-sa-4.0", "cdla-sharing-1.0", "cdla-permissive-1.0", "cdla-permissive-2.0", "wtfpl", "ecl-2.0",
        "epl-1.0", "epl-2.0", "etalab-2.0", "eupl-1.1", "eupl-1.2", "agpl-3.0", "gfdl", "gpl", "gpl-2.0", "gpl-3.0",
        "lgpl", "lgpl-2.1", "lgpl-3.0", "isc", "h-research", "intel-research", "lppl-1.3c", "ms-pl", "apple-ascl",
        "apple-amlr", "mpl-2.0", "odc-by", "odbl", "openmdw-1.0", "openrail++", "osl-3.0", "postgresql", "ofl-1.1",
        "ncsa", "unlicense", "zlib", "pddl", "lgpl-lr", "deepfloyd-if-license",
        "fair-noncommercial-research-license", "llama2", "llama3", "llama3.1", "llama3.2", "llama3.3", "llama4",
        "grok2-community", "gemma", "unknown", "other",
    }
)
# fmt: on
_LICENSE_FILES: Final = ("LICENSE", "LICENSE.md")
_WORD: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_LIBRARY: Final = re.compile(r"[A-Za-z0-9][\w.-]{0,63}", re.ASCII)
_LANGUAGE: Final = re.compile(r"[a-z]{2,3}|code|multilingual")
_MAX_TAG: Final = 100


def taken(inherited: Mapping[str, Any], files: Collection[str], base: str | None) -> dict[str, Any]:
    """The inherited fields as the Hub takes them, in a fixed order.

    `files` are the names that travel, `base` is the base model's id: a link to its license file leads into either.
    """
    fields = {
        **_license(inherited, files, base),
        "language": list(_languages(_listed(inherited.get("language")))),
        "library_name": _matching(_LIBRARY, inherited.get("library_name")),
        "pipeline_tag": _matching(_WORD, inherited.get("pipeline_tag")),
        "tags": _tags(_listed(inherited.get("tags"))),
    }
    return {name: value for name, value in fields.items() if value}


def _listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value or ())


def _matching(pattern: re.Pattern[str], value: Any) -> str | None:
    return value if isinstance(value, str) and pattern.fullmatch(value) else None


def _license(inherited: Mapping[str, Any], files: Collection[str], base: str | None) -> dict[str, Any]:
    """The license; one that the Hub does not list is `other` with its identifier as the name."""
    found = [one_line(name).lower() for name in _listed(inherited.get("license"))]
    name = _slug(inherited.get("license_name") or "")
    own_name = name or _slug(" and ".join(found))
    if not own_name:
        return {}
    link = _license_link(inherited.get("license_link") or "", files, base)
    if found and LICENSES.issuperset(found):
        return {"license": found if len(found) > 1 else found[0], "license_name": name, "license_link": link}
    known_file = next((file for file in _LICENSE_FILES if file in files), None)
    return {"license": "other", "license_name": own_name, "license_link": link or known_file}


def _slug(text: str) -> str:
    """A license's name in the form that the Hub's own cards use."""
    return re.sub(r"[^a-z0-9.+_-]+", "-", text.lower()).strip("-.")[:_MAX_TAG]


def _license_link(link: str, files: Collection[str], base: str | None) -> str | None:
    """The link where it leads somewhere: on the web, to a license file here, or to a file of the base model."""
    if is_address(link) or (link in _LICENSE_FILES and link in files):
        return link
    if base is not None and re.fullmatch(r"\w[\w.-]*", link, re.ASCII):
        return f"https://huggingface.co/{base}/blob/main/{link}"
    return None


def _languages(found: Iterable[str]) -> dict[str, None]:
    """ISO 639 codes, each once; of a longer tag such as zh-Hans the language."""
    codes = (re.split("[-_]", text.strip().lower())[0] for text in found)
    return dict.fromkeys(code for code in codes if _LANGUAGE.fullmatch(code))


def _tags(found: Iterable[str]) -> list[str]:
    lines = (one_line(tag) for tag in found)
    return list(dict.fromkeys(tag for tag in lines if 0 < len(tag) <= _MAX_TAG))
