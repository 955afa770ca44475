"""The manifest, `schemegen.json`: what an output was made from, how, and the digest of every byte in it.

It is written last. It holds no path, user name or time: equal results have equal manifests.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Final, Literal, NamedTuple, Self

from pydantic import AfterValidator, ConfigDict, Field, ValidationError, model_validator

from schemegen import digests
from schemegen.architectures.base import Part, Role
from schemegen.errors import CheckpointError, OutputError, VerificationError
from schemegen.planner import Action, ResolvedRule, Totals
from schemegen.positional import writing
from schemegen.rule import StrictModel
from schemegen.scheme import Scheme

MANIFEST_NAME: Final = "schemegen.json"
CARD_NAME: Final = "README.md"
_TEMPORARY_NAME: Final = f"{MANIFEST_NAME}.part"  # as unfinished downloads are called, which no source brings
_OWN_NAMES: Final = frozenset({CARD_NAME.casefold(), MANIFEST_NAME})
MAX_BYTES: Final = 256 << 20
# The last field is the digest of all bytes before it.
_SEALED: Final = re.compile(rb',\n  "digest": "([0-9a-f]{32})"\n}\n\Z')


def _plain_name(name: str) -> str:
    path = PurePosixPath(name)
    if not path.parts or path.is_absolute() or ".." in path.parts or "\0" in name or path.as_posix() != name:
        raise ValueError(f"{name!r} is no plain file name within the folder")
    return name


FileName = Annotated[str, AfterValidator(_plain_name)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
Bytes = Annotated[int, Field(ge=0, lt=1 << 63)]


class Tile(NamedTuple):
    """A run of bytes of a shard, right behind the one before it, and its digest."""

    nbytes: Annotated[int, Field(ge=1, lt=1 << 63)]
    digest: Digest


class SourceShard(StrictModel):
    """A source shard: bytes, digest of its header, digest of blocks sampled over its length."""

    name: FileName
    size: Bytes
    header_digest: str
    sample_digest: str


class RoleSums(StrictModel):
    """Sums over the tensors of one part, role and fate."""

    part: Part
    role: Role
    action: Action
    format: str | None
    tensors_in: Bytes
    tensors_out: Bytes
    parameters: Bytes
    bytes_in: Bytes
    bytes_out: Bytes


class Sums(StrictModel):
    """Sums over all tensors; bytes are those of tensors, without file headers."""

    tensors_in: Bytes
    tensors_out: Bytes
    bytes_in: Bytes
    bytes_out: Bytes
    by_role: tuple[RoleSums, ...]

    @classmethod
    def of(cls, totals: Totals) -> Self:
        """The plan's totals."""
        rows = tuple(RoleSums(**row._asdict()) for row in totals.by_role)
        return cls(**totals._asdict() | {"by_role": rows})


class Manifest(StrictModel):
    """What an output is: made by which version and backend, from what, under which scheme and rules, byte for byte.

    `shards` are the tiles of every output shard from its first byte, `files` the digests of all other files;
    `source_files` are those of the source's config.json and side files; `plugins` brought what is not schemegen's own.
    """

    model_config = ConfigDict(protected_namespaces=())  # pydantic keeps names in model_ for itself unless told

    schema_version: Literal[1] = 1
    schemegen: str
    backend: str
    backend_versions: dict[str, str]
    backend_report: tuple[str, ...]
    model_id: str
    revision: str | None
    base_model: str | None = None
    architecture: str
    plugins: dict[str, str] = Field(default_factory=dict)
    scheme: Scheme
    scheme_digest: str
    rules: list[dict[str, Any]]
    notes: tuple[str, ...]
    left_out: tuple[str, ...]
    totals: Sums
    source: tuple[SourceShard, ...]
    source_files: dict[FileName, Digest]
    digest_algorithm: Literal["xxh3-128"] = "xxh3-128"
    files: dict[FileName, Digest]
    shards: dict[FileName, tuple[Tile, ...]]

    @model_validator(mode="after")
    def _check_scheme(self) -> Self:
        if self.scheme.digest != self.scheme_digest:
            raise ValueError(f"scheme_digest is not the digest of scheme {self.scheme.name}")
        for position, row in enumerate(self.rules):
            if not self._is_rule(row):
                raise ValueError(f"rules.{position} is no rule of scheme {self.scheme.name}")
        return self

    def _is_rule(self, row: Mapping[str, Any]) -> bool:
        try:
            if not isinstance(row["label"], str):
                return False
            rule = ResolvedRule.from_dict(row)
            return rule.to_dict() == row and self.scheme.format_name(rule.rule.use, rule.label) == rule.format
        except (KeyError, TypeError, ValueError):
            return False

    def to_bytes(self) -> bytes:
        """The file: equal bytes for equal content, a line a chunk, sealed with a digest of itself."""
        body = "{\n  " + ",\n  ".join(self._members())
        raw = body.encode()
        return raw + f',\n  "digest": "{digests.digest([raw])}"\n}}\n'.encode()

    def _members(self) -> Iterator[str]:
        for name, value in self.model_dump(mode="json", exclude={"shards"}).items():
            yield f'"{name}": {_indented(value)}'
        shards = ",\n    ".join(f"{json.dumps(name)}: {_lines(tiles)}" for name, tiles in self.shards.items())
        yield f'"shards": {{\n    {shards}\n  }}'


def _indented(value: object) -> str:
    return json.dumps(value, indent=2).replace("\n", "\n  ")


def _lines(tiles: Iterable[Tile]) -> str:
    return "[\n      " + ",\n      ".join(f'[{tile.nbytes}, "{tile.digest}"]' for tile in tiles) + "\n    ]"


def tile(file: str, size: int, found: Iterable[tuple[int, int, str]]) -> tuple[Tile, ...]:
    """Tiles from (offset, bytes, digest) in any order; OutputError unless they cover the file, each byte once."""
    end = 0
    tiles = []
    for offset, nbytes, digest in sorted(found):
        if offset != end:
            fault = "overlaps" if offset < end else "leaves a gap behind"
            raise OutputError(
                f"{file}: what was written at {offset} {fault} what ends at {end}; run again with --restart"
            )
        tiles.append(Tile(nbytes, digest))
        end += nbytes
    if end != size:
        raise OutputError(f"{file}: {end:,} of {size:,} bytes were written; run the same command again")
    return tuple(tiles)


def travel_names(names: Iterable[str]) -> dict[str, str]:
    """The output's name for each side file of the source: its own, or NAME.base.EXT where the output has its own.

    What counts is the name at the top, a file's or a folder's, in any case: some disks take README.md for readme.md.
    """
    tops = {name: name.partition("/")[0] for name in names}
    taken = {top.casefold() for top in tops.values()} | _OWN_NAMES
    moved: dict[str, str] = {}
    for top in sorted(set(tops.values())):
        if top.casefold() in _OWN_NAMES:
            stem, _, suffix = top.rpartition(".")
            bases = (f"{stem}.base{'' if number == 1 else number}.{suffix}" for number in count(1))
            moved[top] = next(free for free in bases if free.casefold() not in taken)
            taken.add(moved[top].casefold())
    return {name: moved.get(top, top) + name[len(top) :] for name, top in tops.items()}


def check_names(side_names: Iterable[str], shard_names: Iterable[str]) -> None:
    """CheckpointError where a shard, which keeps its name, has that of a file which the output brings or renames."""
    moved = {new for old, new in travel_names(side_names).items() if old != new}
    taken = {name.partition("/")[0].casefold() for name in moved} | _OWN_NAMES | {"config.json", _TEMPORARY_NAME}
    for name in shard_names:
        if name.partition("/")[0].casefold() in taken:
            raise CheckpointError(
                f"shard {name!r} has the name of another file of the output; rename it in the source and its index"
            )


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest durably in one step; OutputError when the disk refuses."""
    path, temporary = folder / MANIFEST_NAME, folder / _TEMPORARY_NAME
    with writing(path):
        temporary.unlink(missing_ok=True)
        with temporary.open("xb") as file:
            file.write(manifest.to_bytes())
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)


def read_manifest(folder: Path) -> Manifest:
    """The manifest of an output; VerificationError when it is missing, damaged or of another schema."""
    path = folder / MANIFEST_NAME
    raw = _read(path)
    sealed = _SEALED.search(raw)
    if sealed is None or digests.digest([memoryview(raw)[: sealed.start()]]) != sealed[1].decode():
        raise VerificationError([f"{path} is damaged: it does not match its own digest; make the output again"])
    try:
        return Manifest.model_validate_json(raw[: sealed.start()] + b"}")
    except ValidationError as error:
        faults = "; ".join(_fault(item) for item in error.errors()[:3])
        raise VerificationError([f"{path} is not a manifest that this version reads: {faults}"]) from None


def _read(path: Path) -> bytes:
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:  # a pipe is not waited for
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
                raise VerificationError([f"{path} is no file of at most {MAX_BYTES:,} bytes; it is no manifest"])
            return file.read()
    except FileNotFoundError:
        finding = f"{path.parent} holds no {path.name}: it is not a finished output of schemegen"
        raise VerificationError([finding]) from None
    except OSError as error:
        raise VerificationError([f"{path} cannot be read: {error.strerror}"]) from error


def _fault(item: Mapping[str, Any]) -> str:
    return f"{'.'.join(map(str, item['loc']))}: {item['msg']}"
