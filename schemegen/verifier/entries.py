"""What stands in a folder, without following a link: files by name, and all that is no file by what it is."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from schemegen.checkpoint.hub_cache import blob_folders, is_blob, model_folder
from schemegen.checkpoint.tree import STAYS_BEHIND
from schemegen.manifest import MANIFEST_NAME, Manifest
from schemegen.verifier.report import Findings, counted

FILE: Final = "a file"
FOLDER: Final = "a folder"
LINK: Final = "a link"
_KINDS: Final = {
    stat.S_IFREG: FILE,
    stat.S_IFDIR: FOLDER,
    stat.S_IFLNK: LINK,
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
#: What a checkout brings along at the top, and no loader reads.
_NOT_OURS: Final = frozenset({".gitattributes"})


def check_entries(folder: Path, manifest: Manifest, findings: Findings) -> set[str]:
    """Every file of the manifest is there, as a file of its own, and no other; those that are."""
    expected = {*manifest.files, *manifest.shards, MANIFEST_NAME}
    found = entries(folder, findings)
    for name in sorted(expected):
        if name not in found:
            findings.add(f"{_told(name)} is missing")
        elif found[name] != FILE:
            findings.add(f"{_told(name)} is {found[name]}, not a file; put the file itself there")
    for name in sorted(found.keys() - expected - _NOT_OURS):
        if found[name] == FILE:
            findings.add(f"{_told(name)} is no file of this output; loaders may read it: remove it")
        elif found[name] != FOLDER:
            findings.add(f"{_told(name)} is {found[name]}, and nothing of this output: remove it")
    findings.checked(f"{counted(len(expected), 'file')} there, and no other")
    return {name for name in expected if found.get(name) == FILE}


def _told(name: str) -> str:
    """A name as a line may hold it: others could spell findings, or move the cursor."""
    return name if name.isprintable() else repr(name)


def entries(folder: Path, findings: Findings) -> Mapping[str, str]:
    """Kinds by posix name of all that lies below the folder, but for what belongs to a checkout or a run."""
    return dict(_walk(folder, blob_folders(model_folder(folder)), findings))


def _walk(folder: Path, blobs: Sequence[Path], findings: Findings) -> Iterator[tuple[str, str]]:
    left = [folder]
    while left:
        place = left.pop()
        try:
            with os.scandir(place) as scan:
                found = [entry for entry in scan if entry.name not in STAYS_BEHIND]
            kinds = {Path(entry.path): _kind(entry, blobs) for entry in found}
        except OSError as error:
            name = place.relative_to(folder).as_posix()
            findings.add(f"folder {_told(name)} cannot be read: {error.strerror}; make it readable")
            continue
        left += [path for path, kind in kinds.items() if kind == FOLDER]
        yield from ((path.relative_to(folder).as_posix(), kind) for path, kind in kinds.items())


def _kind(entry: os.DirEntry[str], blobs: Sequence[Path]) -> str:
    kind = _KINDS.get(stat.S_IFMT(entry.stat(follow_symlinks=False).st_mode), "nothing known")
    if kind == LINK:
        # There, and only there, a link is what a download into the Hub's cache puts.
        target = Path(os.path.realpath(entry.path))
        return FILE if target.is_file() and any(is_blob(target, place) for place in blobs) else LINK
    return kind
