"""What the seal tells, in one place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from schemegen.architectures.base import Architecture
from schemegen.checkpoint.identity import ShardIdentity
from schemegen.checkpoint.model import Checkpoint
from schemegen.planner import Plan
from schemegen.seal.base_model import base_of


@dataclass(frozen=True, slots=True)
class Sealing:
    """What the seal tells: plan and source, the source's identity, digests of the shards' bytes, and who computed.

    `source_files` are the digests of the source's config.json and side files.
    `digests` are (offset in the file, bytes, digest) by shard, in any order; `versions` are those of packages that
    computed; `command` are the words that make it again; `report` are the backend's remarks. `base_model` is the Hub id
    that somebody named. `same_bits_as` is the tool whose bits the backend's are, where it says so.
    `plugins` are distribution and version of what is not schemegen's own, by "scheme", "policy NAME", "architecture",
    "backend".
    """

    plan: Plan
    checkpoint: Checkpoint
    architecture: Architecture
    identity: Sequence[ShardIdentity]
    source_files: Mapping[str, str]
    digests: Mapping[str, Sequence[tuple[int, int, str]]]
    backend: str
    versions: Mapping[str, str]
    command: Sequence[str]
    report: Sequence[str] = ()
    base_model: str | None = None
    same_bits_as: str | None = None
    plugins: Mapping[str, str] = field(default_factory=dict)

    @property
    def base(self) -> str | None:
        """The base model's Hub id, where one is known."""
        return base_of(self.base_model, self.plan.model_id)
