"""Adapters as a broken box would send them home: cut short, or full of NaN under hashes that are right."""

import hashlib
import json
import shutil
import time
from pathlib import Path

from tentalis.core.canon import canonical_json
from tentalis.core.contracts import Outcome, TrainResult
from tentalis.core.letters import RESULT, Letter

WEIGHTS = "adapter_model.safetensors"
MANIFEST = "manifest.json"
NAN = {"F32": b"\x00\x00\xc0\x7f", "F16": b"\x00\x7e", "BF16": b"\xc0\x7f"}


def make_truncated(whole: Path, target: Path) -> str:
    """Copy an adapter and cut its weights in half, manifest untouched. Returns the manifest's SHA-256."""
    shutil.copytree(whole, target)
    weights = target / WEIGHTS
    content = weights.read_bytes()
    weights.write_bytes(content[: len(content) // 2])
    return hash_of(target / MANIFEST)


def make_nan(whole: Path, target: Path) -> str:
    """Copy an adapter, make every weight NaN, and write a manifest that says so. Returns the manifest's SHA-256."""
    shutil.copytree(whole, target)
    weights, manifest = target / WEIGHTS, target / MANIFEST
    content = weights.read_bytes()
    header_size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + header_size])
    data = bytearray(content)
    for name, tensor in header.items():
        if name == "__metadata__":
            continue
        start, end = (8 + header_size + offset for offset in tensor["data_offsets"])
        pattern = NAN[tensor["dtype"]]
        data[start:end] = pattern * ((end - start) // len(pattern))
    weights.write_bytes(bytes(data))
    document = json.loads(manifest.read_bytes())
    document["files"][WEIGHTS] = {"sha256": hash_of(weights), "size_bytes": len(data)}
    manifest.write_bytes(canonical_json(document))
    return hash_of(manifest)


def make_result(*, run_id: int, attempt: int, directory: Path, sha256: str, key: str) -> bytes:
    """The letter by which a box that has the attempt's key says that it trained this directory."""
    result = TrainResult(
        run_id=run_id, attempt=attempt, outcome=Outcome.DONE, adapter_uri=directory.as_uri(), sha256=sha256
    )
    number = time.time_ns()
    letter = Letter.write(RESULT, result.to_json(), key=key, run_id=run_id, attempt=attempt, number=number)
    return canonical_json(letter.to_json())


def hash_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
