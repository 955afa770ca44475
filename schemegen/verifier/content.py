"""Reads every byte of the shards, once, in parallel: digests against the manifest and, given a source, its meaning."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from schemegen.checkpoint.headers import Header
from schemegen.checkpoint.model import Checkpoint
from schemegen.compilation import compiling, uses_of
from schemegen.digests import digest
from schemegen.errors import VerificationError
from schemegen.manifest import Manifest, Tile
from schemegen.planner import Action, Chunk, Plan, PlannedTensor, plan_chunks
from schemegen.positional import MAX_JOBS
from schemegen.progress import Progress
from schemegen.verifier.buffers import Files, Memory, spans
from schemegen.verifier.report import Findings, counted
from schemegen.verifier.source import Comparison

#: A piece of work: what it does with a worker's memory, giving the bytes it has read.
_Work = Callable[[Memory], int]


@dataclass(frozen=True, slots=True)
class Source:
    """What a folder is compared with, and which of its shards have the plan's header and can be."""

    plan: Plan
    checkpoint: Checkpoint
    sound: Collection[str]

    @property
    def comparable(self) -> tuple[PlannedTensor, ...]:
        """The tensors of the sound shards."""
        return tuple(tensor for tensor in self.plan.tensors if tensor.source.file in self.sound)

    def path(self, tensor: PlannedTensor) -> Path:
        """Where a tensor lies in the source."""
        return self.checkpoint.path(tensor.source.file)


def check_content(
    folder: Path,
    manifest: Manifest,
    headers: Mapping[str, Header],
    source: Source | None,
    findings: Findings,
    jobs: int,
    progress: Progress,
) -> float:
    """Compare every tile of the shards with its digest, and every tensor with the source where there is one.

    Returns the seconds that the compiling of kernels took before.
    """
    comparable = source.comparable if source else ()
    outputs = Files({file: folder / file for file in headers})
    sources = Files({tensor.source.file: source.path(tensor) for tensor in comparable} if source else {})
    tiles = _Tiles(manifest, headers, outputs, findings)
    comparisons: Iterator[_Work] = iter(())
    if source:
        starts = {file: header.start for file, header in headers.items()}
        comparison = Comparison(source.plan, outputs, sources, starts, findings)
        chunks = (chunk for tensor in comparable for chunk in plan_chunks(source.plan, tensor))
        comparisons = (_compare(chunk, comparison, tiles) for chunk in chunks)
    compiled = _warm_up(source.plan, progress) if source else 0.0
    progress.start("verify", tiles.nbytes + sum(tensor.source.nbytes for tensor in comparable))
    _work_off(chain(comparisons, tiles.rest()), jobs, findings, progress)
    progress.finish()
    findings.checked(f"{counted(tiles.count, 'digest')} of {tiles.nbytes:,} bytes as in the manifest")
    if source:
        findings.checked(_compared(comparable))
    return compiled


def _warm_up(plan: Plan, progress: Progress) -> float:
    """Have the kernels ready that codes are compared with; the seconds it took to compile them."""
    with compiling(plan, progress) as compiled:
        for codec, dtype, columns in uses_of(plan):
            codec.warm_up_recode(dtype, columns)
    return compiled.seconds


def _compared(tensors: Sequence[PlannedTensor]) -> str:
    kept = sum(tensor.action is Action.COPY for tensor in tensors)
    matrices = sum(tensor.matrices for tensor in tensors if tensor.action is Action.QUANTIZE)
    codes = f"the codes of {counted(matrices, 'quantized matrix', 'quantized matrices')} as the source rounds"
    return f"{counted(kept, 'kept tensor')} as in the source, {codes}"


def _compare(chunk: Chunk, comparison: Comparison, tiles: _Tiles) -> _Work:
    return lambda memory: chunk.nbytes + comparison.check(chunk, memory, tiles.check)


class _Tiles:
    """The tiles that are still to be compared, by file and offset; whoever has the bytes at hand takes one out."""

    def __init__(self, manifest: Manifest, headers: Mapping[str, Header], files: Files, findings: Findings) -> None:
        self._headers, self._files, self._findings = headers, files, findings
        self._left: dict[tuple[str, int], Tile] = {}
        for file in headers:
            tiles = manifest.shards[file]
            offsets = (offset for offset, _ in spans(tile.nbytes for tile in tiles))
            self._left.update({(file, offset): tile for offset, tile in zip(offsets, tiles, strict=True)})
        self.count = len(self._left)
        self.nbytes = sum(tile.nbytes for tile in self._left.values())

    def check(self, file: str, offset: int, view: memoryview) -> int:
        """Compare bytes at hand if they are just one tile; the bytes compared, else 0."""
        tile = self._left.get((file, offset))
        if tile is None or tile.nbytes != len(view) or self._left.pop((file, offset), None) is None:
            return 0
        self._compare(file, offset, tile, digest([view]))
        return tile.nbytes

    def rest(self) -> Iterator[_Work]:
        """Work for every tile that is left once this is asked."""
        for key in list(self._left):
            yield lambda memory, key=key: self._read(memory, *key)  # type: ignore[misc]

    def _read(self, memory: Memory, file: str, offset: int) -> int:
        tile = self._left.pop((file, offset), None)
        if tile is None:
            return 0
        self._compare(file, offset, tile, digest(memory.blocks(self._files, file, offset, tile.nbytes)))
        return tile.nbytes

    def _compare(self, file: str, offset: int, tile: Tile, found: str) -> None:
        if found != tile.digest:
            end = offset + tile.nbytes
            fault = f"{file}: bytes {offset} to {end} ({self._what(file, offset, end)}) are not the manifest's"
            self._findings.add_at(file, offset, fault)

    def _what(self, file: str, offset: int, end: int) -> str:
        header = self._headers[file]
        if offset < header.start:
            return "the header"
        names = [t.name for t in header.tensors if t.offset < end and t.offset + t.nbytes > offset]
        return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"


def _work_off(work: Iterator[_Work], jobs: int, findings: Findings, progress: Progress) -> None:
    lock = threading.Lock()
    stop = threading.Event()

    def worker() -> None:
        memory = Memory()
        while not stop.is_set():
            with lock:
                do = next(work, None)
            if do is None:
                return
            done = _done(do, memory, findings)
            with lock:
                findings.bytes_read += done
            progress.advance(done)

    jobs = min(jobs, MAX_JOBS)
    with ThreadPoolExecutor(jobs, "verify") as pool:
        try:
            for future in [pool.submit(worker) for _ in range(jobs)]:
                future.result()
        finally:
            stop.set()


def _done(do: _Work, memory: Memory, findings: Findings) -> int:
    """Do a piece of work; a file that cannot be read is a finding like any other."""
    try:
        return do(memory)
    except VerificationError as error:
        for finding in error.findings:
            findings.add_at("", 0, finding)
        return 0
