"""Fills a folder that holds the finished shards: side files, index, config.json, card, and then the manifest."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from schemegen.checkpoint.assembly import CONFIG_NAME
from schemegen.checkpoint.identity import ShardIdentity
from schemegen.checkpoint.model import Checkpoint
from schemegen.engines import declare
from schemegen.manifest import (
    CARD_NAME,
    MANIFEST_NAME,
    Manifest,
    SourceShard,
    Sums,
    Tile,
    tile,
    travel_names,
    write_manifest,
)
from schemegen.positional import writing
from schemegen.seal.card import card
from schemegen.seal.durable import copy_file, sync, whole, write_file
from schemegen.seal.sealing import Sealing
from schemegen.seal.texts import index_text, spliced_config


def seal(folder: Path, sealing: Sealing) -> Manifest:
    """Write everything but the shards into `folder`, durably; equal bytes each time, and whatever the folder's name.

    OutputError when the disk refuses or the digests do not cover the shards, CheckpointError when the source changed.
    """
    plan = sealing.plan
    shards = {file: tile(file, _size(folder / file), sealing.digests.get(file, ())) for file in plan.files}
    files = {**_copy_side_files(folder, sealing.checkpoint), **_write_texts(folder, sealing)}
    sync(folder, [*files, *shards])
    manifest = _manifest(sealing, files, shards)
    write_manifest(folder, manifest)
    sync(folder, [MANIFEST_NAME])
    return manifest


def _size(path: Path) -> int:
    with writing(path):
        return path.stat().st_size


def _copy_side_files(folder: Path, checkpoint: Checkpoint) -> dict[str, str]:
    """The digests of the copies, by the output's name."""
    names = travel_names([file.name for file in checkpoint.side_files])
    return {
        names[file.name]: copy_file(checkpoint.path(file.name), folder / names[file.name], file.size)
        for file in checkpoint.side_files
    }


def _write_texts(folder: Path, sealing: Sealing) -> dict[str, str]:
    """Write what loaders and people read; the digests by name."""
    plan, checkpoint = sealing.plan, sealing.checkpoint
    block = declare(plan, sealing.architecture)
    texts = {CONFIG_NAME: spliced_config(checkpoint.config_text, block)}
    if checkpoint.index_name is not None:
        weight_map = {output.name: output.file for tensor in plan.tensors for output in tensor.outputs}
        texts[checkpoint.index_name] = index_text(weight_map, plan.totals.bytes_out, checkpoint.index_metadata)
    texts[CARD_NAME] = card(sealing, block["ignore"])
    return {name: write_file(folder / name, text) for name, text in texts.items()}


def _manifest(sealing: Sealing, files: Mapping[str, str], shards: Mapping[str, tuple[Tile, ...]]) -> Manifest:
    plan = sealing.plan
    return Manifest(
        schemegen=version("schemegen"),
        backend=whole(sealing.backend),
        backend_versions={whole(name): whole(number) for name, number in sealing.versions.items()},
        backend_report=tuple(map(whole, sealing.report)),
        model_id=plan.model_id,
        revision=plan.revision,
        base_model=sealing.base,
        architecture=plan.architecture,
        plugins={what: whole(plugin) for what, plugin in sealing.plugins.items()},
        scheme=plan.scheme,
        scheme_digest=plan.scheme.digest,
        rules=[rule.to_dict() for rule in plan.rules],
        notes=tuple(map(whole, plan.notes)),
        left_out=tuple(file.name for file in sealing.checkpoint.unindexed),
        totals=Sums.of(plan.totals),
        source=tuple(map(_source_shard, sealing.identity)),
        source_files=dict(sorted(sealing.source_files.items())),
        files=dict(sorted(files.items())),
        shards=dict(shards),
    )


def _source_shard(shard: ShardIdentity) -> SourceShard:
    return SourceShard(
        name=shard.name, size=shard.size, header_digest=shard.header_digest, sample_digest=shard.sample_digest
    )
