"""Every kind of damage gives a finding that names it; what is sound gives a report of what was looked at."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import schemegen
from schemegen.checkpoint.headers import read_header
from schemegen.checkpoint.identity import source_identity
from schemegen.checkpoint.local import open_local
from schemegen.checkpoint.model import TensorHeader
from schemegen.checkpoint.sample import write_sample
from schemegen.digests import digest, file_digest
from schemegen.errors import OutputError, VerificationError
from schemegen.manifest import Tile, read_manifest, write_manifest
from schemegen.planner import chunks
from schemegen.positional import MAX_JOBS, read_into
from schemegen.progress import Silent
from schemegen.verifier import Report, buffers, check_small_files, check_unread, verify_folder

Verify = Callable[..., Report]
Findings = Callable[..., list[str]]
Forge = Callable[[Path], None]
INDEX = "model.safetensors.index.json"
FIRST = "model-00001-of-00003.safetensors"
EXPERT = "model.language_model.layers.0.mlp.experts.5.up_proj"
KEPT = "model.language_model.layers.0.mlp.gate.weight"


def stored(output: Path, name: str) -> tuple[Path, TensorHeader]:
    """The shard of a stored tensor, and its place there."""
    for path in sorted(output.glob("*.safetensors")):
        for tensor in read_header(path, path.name).tensors:
            if tensor.name == name:
                return path, tensor
    raise AssertionError(name)


def write_at(path: Path, offset: int, raw: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(raw)


def flip(path: Path, offset: int) -> None:
    """Flip the lowest bit of one byte."""
    byte = path.read_bytes()[offset]
    write_at(path, offset, bytes([byte ^ 1]))


def change_json(path: Path, change: Callable[[Any], None]) -> None:
    body = json.loads(path.read_text())
    change(body)
    path.write_text(json.dumps(body, indent=2))


@pytest.mark.parametrize("jobs", [1, 3])
def test_a_sound_output_passes_and_says_what_was_read(
    finished: Path, sample_folder: Path, verify: Verify, jobs: int
) -> None:
    alone = verify(finished, jobs=jobs)
    sizes = {path.name: path.stat().st_size for path in finished.rglob("*") if path.is_file()}
    assert alone.bytes_read == sum(sizes.values()) - sizes["schemegen.json"]
    against = verify(finished, sample_folder, jobs=jobs)
    assert against.bytes_read == alone.bytes_read + open_local(sample_folder).nbytes
    assert set(alone.checks) < set(against.checks)
    assert "3 shards opened with safetensors, 474 tensors" in alone.checks
    assert "114 kept tensors as in the source, the codes of 120 quantized matrices as the source rounds" in (
        against.checks
    )


@pytest.mark.parametrize("suffix", ["weight_packed", "weight_scale", "weight_shape"])
@pytest.mark.parametrize("against", [False, True])
def test_a_flipped_bit_in_a_quantized_matrix(
    output: Path, sample_folder: Path, findings: Findings, suffix: str, against: bool
) -> None:
    path, tensor = stored(output, f"{EXPERT}.{suffix}")
    # The high byte: a scale whose last bit differs may give the same codes, and then only the digest tells.
    flip(path, tensor.offset + (suffix == "weight_scale"))
    found = findings(output, sample_folder if against else None)
    assert any(path.name in finding and "not the manifest's" in finding for finding in found)
    assert any(EXPERT in finding for finding in found) or not against


@pytest.mark.parametrize("against", [False, True])
def test_a_flipped_bit_in_a_kept_tensor(output: Path, sample_folder: Path, findings: Findings, against: bool) -> None:
    path, tensor = stored(output, KEPT)
    flip(path, tensor.offset + 7)
    expected = [
        f"{path.name}: bytes {tensor.offset} to {tensor.offset + tensor.nbytes} ({KEPT}) are not the manifest's"
    ]
    if against:
        expected.append(f"tensor {KEPT} is kept, but its byte 7 is not the source's")
    assert findings(output, sample_folder if against else None) == expected


def test_a_flipped_bit_in_a_header(output: Path, findings: Findings) -> None:
    path = output / FIRST
    flip(path, path.read_bytes().index(b"embed_tokens"))
    found = findings(output)
    assert any(f"{FIRST}: bytes 0 to" in finding and "the header" in finding for finding in found)
    assert any("index" in finding and "embed_tokens" in finding for finding in found)


def test_a_header_that_does_not_parse(output: Path, findings: Findings) -> None:
    flip(output / FIRST, 8)
    found = findings(output)
    assert any(finding.startswith(f"{FIRST} does not open") for finding in found)


@pytest.mark.parametrize("name", ["config.json", INDEX, "README.md", "tokenizer.json", "examples/prompt.txt"])
def test_a_flipped_bit_in_another_file(output: Path, findings: Findings, name: str) -> None:
    flip(output / name, (output / name).stat().st_size // 2)
    assert any(finding.startswith(f"{name} is not what the manifest says") for finding in findings(output))


def test_a_flipped_bit_in_the_manifest(output: Path, verify: Verify) -> None:
    flip(output / "schemegen.json", 500)
    with pytest.raises(VerificationError, match="damaged"):
        verify(output)


@pytest.mark.parametrize("name", [FIRST, INDEX, "config.json", "tokenizer.json", "README.base.md"])
@pytest.mark.parametrize("against", [False, True])
def test_a_missing_file(output: Path, sample_folder: Path, findings: Findings, name: str, against: bool) -> None:
    (output / name).unlink()
    assert f"{name} is missing" in findings(output, sample_folder if against else None)


@pytest.mark.parametrize("against", [False, True])
def test_a_cut_shard(output: Path, sample_folder: Path, findings: Findings, against: bool) -> None:
    os.truncate(output / FIRST, (output / FIRST).stat().st_size - 1)
    found = findings(output, sample_folder if against else None)
    assert any(FIRST in finding and "cut short" in finding for finding in found)


def test_a_shard_that_grew(output: Path, findings: Findings) -> None:
    with (output / FIRST).open("ab") as file:
        file.write(b"\0")
    assert any(FIRST in finding and "after its last tensor" in finding for finding in findings(output))


@pytest.mark.parametrize("name", ["model-00009.safetensors", "pytorch_model.bin", "sub/extra.txt", ".hidden"])
def test_a_file_too_many(output: Path, findings: Findings, name: str) -> None:
    (output / name).parent.mkdir(exist_ok=True)
    (output / name).write_bytes(b"x")
    assert findings(output) == [f"{name} is no file of this output; loaders may read it: remove it"]


def test_what_a_download_leaves_is_no_finding(output: Path, findings: Findings) -> None:
    (output / ".gitattributes").touch()
    (output / ".cache" / "huggingface").mkdir(parents=True)
    (output / ".cache" / "huggingface" / "x.lock").touch()
    assert findings(output) == []


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        (lambda body: body["weight_map"].pop(KEPT), f"tensor {KEPT} stands in {FIRST}, the index says None"),
        (lambda body: body["weight_map"].update(x=FIRST), "the index names tensor x, which no shard holds"),
        (lambda body: body["metadata"].update(total_size=4.5), "the index gives total_size 4.5"),
        (lambda body: body["metadata"].pop("total_size"), "the index gives total_size None"),
        (lambda body: body.pop("metadata"), "the index gives total_size None"),
        (lambda body: body.pop("weight_map"), "the index has no weight_map"),
    ],
)
def test_an_index_that_disagrees(
    output: Path, findings: Findings, forge: Forge, change: Callable[[Any], None], finding: str
) -> None:
    change_json(output / INDEX, change)
    forge(output)
    assert [found[: len(finding)] for found in findings(output)] == [finding]


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        (lambda body: body.pop("quantization_config"), "config.json has no quantization_config"),
        (lambda body: body["quantization_config"].pop("ignore"), "quantization_config.ignore in config.json is not"),
        (lambda body: body["quantization_config"].update(ignore=["re:("]), "quantization_config.ignore"),
        (lambda body: body["quantization_config"]["ignore"].append("re:.*down_proj$"), "config.json ignores m"),
        (lambda body: body["quantization_config"].update(kv_cache_scheme={}), "config.json: quantization_config: kv_"),
        (lambda body: body["quantization_config"].update(sparsity={}), "config.json: quantization_config: sparsity"),
        (
            lambda body: body["quantization_config"].update(ignore=["re:(a*)*b"]),
            "quantization_config.ignore: 're:(a*)*b'",
        ),
    ],
)
def test_a_config_that_disagrees_with_the_shards(
    output: Path, findings: Findings, forge: Forge, change: Callable[[Any], None], finding: str
) -> None:
    change_json(output / "config.json", change)
    forge(output)
    found = findings(output)
    assert found
    assert all(text.startswith(finding) for text in found)


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1, "a": 2}', "\ufeff{}"])
@pytest.mark.parametrize("name", ["config.json", INDEX])
def test_texts_that_are_no_json_object(
    output: Path, sample_folder: Path, findings: Findings, forge: Forge, name: str, text: str
) -> None:
    (output / name).write_text(text, encoding="utf-8")
    forge(output)
    assert any(finding.startswith(name) for finding in findings(output, sample_folder))


# From here on the manifest is forged to match: only the source can tell.


@pytest.mark.parametrize(
    ("suffix", "offset", "raw", "finding"),
    [
        ("weight_packed", 4 * 49, None, f"{EXPERT}.weight_packed at [1, "),
        ("weight_scale", 2 * 13, b"\x80\x7f", f"{EXPERT}.weight_scale at [1, 1] is zero, infinite or no number"),
        ("weight_scale", 2 * 13, b"\xc0\x7f", f"{EXPERT}.weight_scale at [1, 1] is zero, infinite or no number"),
        ("weight_scale", 2 * 13, b"\x00\x00", f"{EXPERT}.weight_scale at [1, 1] is zero, infinite or no number"),
        ("weight_shape", 0, struct.pack("<2q", 384, 128), f"{EXPERT}.weight_shape is [384, 128], not [128, 384]"),
    ],
)
def test_a_forged_matrix_does_not_round_to_its_codes(
    output: Path,
    sample_folder: Path,
    findings: Findings,
    forge: Forge,
    suffix: str,
    offset: int,
    raw: bytes | None,
    finding: str,
) -> None:
    path, tensor = stored(output, f"{EXPERT}.{suffix}")
    flip(path, tensor.offset + offset) if raw is None else write_at(path, tensor.offset + offset, raw)
    forge(output)
    assert findings(output) == []
    (found,) = findings(output, sample_folder)
    assert found.startswith(finding)


def test_every_code_is_looked_at(output: Path, sample_folder: Path, findings: Findings, forge: Forge) -> None:
    path, tensor = stored(output, "mtp.layers.0.mlp.experts.7.down_proj.weight_packed")
    flip(path, tensor.offset + tensor.nbytes - 1)
    forge(output)
    (found,) = findings(output, sample_folder)
    rows, words = tensor.shape
    assert found.startswith(f"{tensor.name} at [{rows - 1}, {8 * words - 2}]")


def test_a_forged_kept_tensor(output: Path, sample_folder: Path, findings: Findings, forge: Forge) -> None:
    path, tensor = stored(output, "mtp.norm.weight")
    flip(path, tensor.offset + tensor.nbytes - 1)
    forge(output)
    assert findings(output, sample_folder) == [
        f"tensor mtp.norm.weight is kept, but its byte {tensor.nbytes - 1} is not the source's"
    ]


@pytest.mark.parametrize(
    ("name", "change", "finding"),
    [
        ("config.json", lambda body: body["text_config"].update(rms_norm_eps=1e-5), "config.json differs"),
        ("config.json", lambda body: body.update(extra=1), "config.json differs"),
        ("config.json", lambda body: body.pop("model_type"), "config.json differs"),
        (
            "config.json",
            lambda body: body["quantization_config"]["config_groups"]["group_0"]["weights"].update(group_size=64),
            "config.json: quantization_config: config_groups",
        ),
        ("config.json", lambda body: body["quantization_config"]["ignore"].pop(), "config.json: quantization_config"),
        (INDEX, lambda body: body["metadata"].update(extra=1), "the index lacks metadata"),
        ("tokenizer.json", lambda body: body.update(extra=1), "tokenizer.json is not the source's"),
    ],
)
def test_forged_texts(
    output: Path,
    sample_folder: Path,
    findings: Findings,
    forge: Forge,
    name: str,
    change: Callable[[Any], None],
    finding: str,
) -> None:
    change_json(output / name, change)
    forge(output)
    assert findings(output) == []
    (found,) = findings(output, sample_folder)
    assert found.startswith(finding)


def test_a_forged_readme_of_the_source(output: Path, sample_folder: Path, findings: Findings, forge: Forge) -> None:
    (output / "README.base.md").write_text("other words")
    forge(output)
    assert findings(output, sample_folder) == ["README.base.md is not the source's README.md"]


@pytest.mark.parametrize(
    ("damage", "name", "what"),
    [
        (lambda model: flip(model / "tokenizer.json", 40), "tokenizer.json", "holds something else"),
        (lambda model: (model / "tokenizer.json").unlink(), "tokenizer.json", "is not there"),
        (lambda model: (model / "new.txt").touch(), "new.txt", "was not there"),
        (
            lambda model: (model / "config.json").write_text((model / "config.json").read_text() + "\n"),
            "config.json",
            "",
        ),
    ],
)
def test_another_side_file_of_the_source_is_named(
    finished: Path,
    sample_folder: Path,
    tmp_path: Path,
    findings: Findings,
    damage: Callable[[Path], object],
    name: str,
    what: str,
) -> None:
    model = Path(shutil.copytree(sample_folder, tmp_path / "model"))
    damage(model)
    assert f"model is not what this output was made from: its file {name} {what}" in findings(finished, model)[0]


def test_the_small_files_are_checked_alone(output: Path) -> None:
    manifest = read_manifest(output)
    flip(output / FIRST, (output / FIRST).stat().st_size - 1)
    assert check_small_files(output, manifest) == f"{len(manifest.files)} other files as in the manifest"
    flip(output / "tokenizer.json", 40)
    (output / "LICENSE").unlink()
    with pytest.raises(VerificationError) as caught:
        check_small_files(output, manifest)
    assert [finding.split()[0] for finding in caught.value.findings] == ["LICENSE", "tokenizer.json"]


def test_a_file_that_a_forger_lists(output: Path, sample_folder: Path, findings: Findings) -> None:
    (output / "modeling_evil.py").write_text("raise SystemExit")
    manifest = read_manifest(output)
    files = manifest.files | {"modeling_evil.py": file_digest(output / "modeling_evil.py")}
    files.pop("tokenizer.json")
    (output / "tokenizer.json").unlink()
    write_manifest(output, manifest.model_copy(update={"files": files}))
    assert findings(output, sample_folder) == [
        "tokenizer.json is missing, the source's tokenizer.json",
        "modeling_evil.py is no file of the source",
    ]


def test_a_shard_that_a_forger_leaves_out(output: Path, sample_folder: Path, findings: Findings, forge: Forge) -> None:
    manifest = read_manifest(output)
    gone = {tensor.name for tensor in read_header(output / FIRST, FIRST).tensors}
    nbytes = sum(tensor.nbytes for tensor in read_header(output / FIRST, FIRST).tensors)
    (output / FIRST).unlink()
    index = json.loads((output / INDEX).read_text())
    index["weight_map"] = {name: file for name, file in index["weight_map"].items() if name not in gone}
    index["metadata"]["total_size"] -= nbytes
    (output / INDEX).write_text(json.dumps(index))
    shards = {name: tiles for name, tiles in manifest.shards.items() if name != FIRST}
    write_manifest(output, manifest.model_copy(update={"shards": shards}))
    forge(output)
    assert findings(output) == []
    assert findings(output, sample_folder) == [f"{FIRST} is a shard of the plan, and the manifest does not name it"]


@pytest.mark.parametrize("name", ["config.json", INDEX])
def test_a_text_that_a_forger_leaves_out(output: Path, findings: Findings, name: str) -> None:
    (output / name).unlink()
    manifest = read_manifest(output)
    files = {file: digest for file, digest in manifest.files.items() if file != name}
    write_manifest(output, manifest.model_copy(update={"files": files}))
    (found,) = findings(output)
    assert name in found
    assert "the manifest names n" in found


def test_a_header_that_is_not_the_plans(output: Path, sample_folder: Path, findings: Findings, forge: Forge) -> None:
    path = output / FIRST
    raw = path.read_bytes()
    at = raw.index(b'"BF16"')
    name = raw[:at].rpartition(b'":{')[0].rpartition(b'"')[2].decode()
    write_at(path, at, b'"F16" ')
    forge(output)
    assert findings(output) == []
    (found,) = findings(output, sample_folder)
    assert found.startswith(f"tensor {name} is F16 ")


@pytest.mark.parametrize("bits", [b"\xc0\x7f", b"\x80\xff"])
def test_a_source_weight_that_is_no_number(
    output: Path, sample_folder: Path, tmp_path: Path, findings: Findings, bits: bytes
) -> None:
    model = Path(shutil.copytree(sample_folder, tmp_path / "model"))
    path, tensor = stored(model, "mtp.layers.0.mlp.experts.down_proj")
    write_at(path, tensor.offset + 2 * (tensor.shape[2] + 3), bits)
    shards = {shard.name: shard.sample_digest for shard in source_identity(open_local(model))}
    manifest = read_manifest(output)
    source = tuple(s.model_copy(update={"sample_digest": shards[s.name]}) for s in manifest.source)
    write_manifest(output, manifest.model_copy(update={"source": source}))
    (found,) = findings(output, model)
    assert found.startswith("mtp.layers.0.mlp.experts.0.down_proj.weight_packed at [1, 3] is not the code")


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (
            lambda model: flip(shard := min(model.glob("*.safetensors")), shard.stat().st_size - 1),
            "holds other weights",
        ),
        (lambda model: rename_a_tensor(model), "has another header"),
        (lambda model: add_a_shard(model), "was not there"),
    ],
)
def test_another_source_is_one_finding_that_stops(
    finished: Path, sample_folder: Path, tmp_path: Path, damage: Callable[[Path], None], what: str
) -> None:
    model = Path(shutil.copytree(sample_folder, tmp_path / "model"))
    plan = schemegen.plan("kimi-k2-int4", sample_folder)
    damage(model)
    with pytest.raises(VerificationError) as caught:
        verify_folder(finished, read_manifest(finished), plan, open_local(model), jobs=1, progress=Silent())
    (found,) = caught.value.findings
    assert what in found
    assert "not what this output was made from" in found


def rename_a_tensor(model: Path) -> None:
    for path in (model / FIRST, model / INDEX):
        path.write_bytes(path.read_bytes().replace(b"embed_tokens", b"embed_tokenz"))


def add_a_shard(model: Path) -> None:
    shard = model / "model-00004-of-00003.safetensors"
    header = b'{"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'
    shard.write_bytes(len(header).to_bytes(8, "little") + header + b"x")
    change_json(model / INDEX, lambda body: body["weight_map"].update(x=shard.name))


def test_the_checks_without_reading_find_what_headers_tell(output: Path, sample_folder: Path) -> None:
    plan, manifest = schemegen.plan("kimi-k2-int4", sample_folder), read_manifest(output)
    assert "3 headers as planned: names, dtypes, shapes, places" in check_unread(output, plan, manifest)
    other = schemegen.plan("kimi-k2-int4", sample_folder, policies=["keep-mtp"])
    with pytest.raises(VerificationError, match=r"tensor mtp\.layers\.0\.mlp\.experts\.gate_up_proj is missing"):
        check_unread(output, other, manifest)
    path, tensor = stored(output, KEPT)
    flip(path, tensor.offset)
    check_unread(output, plan, manifest)
    os.truncate(path, path.stat().st_size - 1)
    with pytest.raises(VerificationError, match=path.name):
        check_unread(output, plan, manifest)


def test_a_disk_that_fails_is_a_finding_beside_the_others(
    output: Path, sample_folder: Path, findings: Findings, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, kept = stored(output, "mtp.norm.weight")
    flip(path, kept.offset)
    bad = stored(output, f"{EXPERT}.weight_packed")[1].offset

    def failing(descriptor: int, view: memoryview, offset: int) -> int:
        if offset <= bad < offset + len(view) and os.fstat(descriptor).st_ino == (output / FIRST).stat().st_ino:
            raise OSError(5, "Input/output error")
        return read_into(descriptor, view, offset)

    monkeypatch.setattr(buffers, "read_into", failing)
    found = findings(output, sample_folder)
    assert any(finding.startswith(f"{FIRST} cannot be read at byte ") for finding in found)
    assert any("mtp.norm.weight is kept" in finding for finding in found)


def test_findings_stand_in_the_order_of_files_and_places(output: Path, sample_folder: Path, findings: Findings) -> None:
    for name in ("mtp.norm.weight", KEPT, f"{EXPERT}.weight_packed", "lm_head.weight"):
        path, tensor = stored(output, name)
        flip(path, tensor.offset)
    first = findings(output, sample_folder, jobs=1)
    assert len(first) == 8
    places = [re.search(r"(\S+): bytes (\d+) to", finding) for finding in first]
    found = [(place[1], int(place[2])) for place in places if place]
    assert len(found) == 4
    assert found == sorted(found)
    assert all(findings(output, sample_folder, jobs=jobs) == first for jobs in (2, 3, 4))


def test_many_jobs_are_not_many_threads(finished: Path, verify: Verify, monkeypatch: pytest.MonkeyPatch) -> None:
    most = []

    class Pool(ThreadPoolExecutor):
        """Keeps how many threads it may have."""

        def __init__(self, jobs: int, name: str) -> None:
            most.append(jobs)
            super().__init__(jobs, name)

    monkeypatch.setattr("schemegen.verifier.content.ThreadPoolExecutor", Pool)
    verify(finished, jobs=1_000_000)
    assert most == [MAX_JOBS]


def test_too_many_open_files_are_no_damage(output: Path, findings: Findings, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(descriptor: int, view: memoryview, offset: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(buffers, "read_into", refused)
    with pytest.raises(OutputError, match="too many open files; use fewer --jobs"):
        findings(output)


def test_many_findings_are_counted_and_not_listed(output: Path, findings: Findings) -> None:
    for number in range(25):
        (output / f"extra-{number:02}").touch()
    found = findings(output)
    assert len(found) == 21
    assert found[-1] == "and 5 more"


class Recorder:
    """A Progress that keeps what it was told."""

    def __init__(self) -> None:
        self.total = self.done = 0
        self.finished = False

    def start(self, label: str, total: int, done: int = 0) -> None:
        """Keep the total."""
        self.total = total

    def advance(self, nbytes: int) -> None:
        """Add up."""
        self.done += nbytes

    def finish(self) -> None:
        """Keep that it ended."""
        self.finished = True


@pytest.mark.parametrize("against", [False, True])
def test_progress_ends_at_its_total(finished: Path, sample_folder: Path, verify: Verify, against: bool) -> None:
    progress = Recorder()
    verify(finished, sample_folder if against else None, 1, progress)
    assert progress.finished
    assert progress.done == progress.total > 4_000_000


def test_tiles_of_another_cut_are_compared_as_well(
    output: Path, sample_folder: Path, findings: Findings, verify: Verify
) -> None:
    manifest = read_manifest(output)
    shards = {}
    for file in manifest.shards:
        raw = (output / file).read_bytes()
        parts = [raw[at : at + 99_991] for at in range(0, len(raw), 99_991)]
        shards[file] = tuple(Tile(len(part), digest([part])) for part in parts)
    write_manifest(output, manifest.model_copy(update={"shards": shards}))
    progress = Recorder()
    verify(output, sample_folder, 2, progress)
    assert progress.done == progress.total
    path, tensor = stored(output, KEPT)
    flip(path, tensor.offset)
    assert any("not the manifest's" in finding for finding in findings(output, sample_folder))


@pytest.mark.parametrize("dtype", ["F16", "F32"])
def test_other_source_dtypes_round_to_their_codes(tmp_path: Path, verify: Verify, dtype: str) -> None:
    write_sample("qwen3.6-moe", tmp_path / "model", dtype=dtype, experts="separate", mtp_experts="fused")  # type: ignore[arg-type]
    schemegen.apply("kimi-k2-int4", tmp_path / "model", tmp_path / "out")
    verify(tmp_path / "out", tmp_path / "model")


def test_large_matrices_are_compared_in_blocks_of_rows(
    tmp_path: Path, findings: Findings, forge: Forge, monkeypatch: pytest.MonkeyPatch, sample_folder: Path
) -> None:
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 20_000)
    schemegen.apply("kimi-k2-int4", sample_folder, tmp_path / "out")
    assert findings(tmp_path / "out", sample_folder) == []
    path, tensor = stored(tmp_path / "out", f"{EXPERT}.weight_packed")
    flip(path, tensor.offset + 4 * 48 * 50)
    forge(tmp_path / "out")
    (found,) = findings(tmp_path / "out", sample_folder)
    assert found.startswith(f"{EXPERT}.weight_packed at [50, 0]")
