"""The harness's own tools: plans by seed, messages heard word for word, adapters broken in the way they should be."""

import hashlib
import json
import struct
from pathlib import Path

from tentalis.core.canon import canonical_json
from tests.chaos.broken_adapters import MANIFEST, WEIGHTS, hash_of, make_nan, make_truncated
from tests.chaos.duplicator import split_words
from tests.chaos.plan import FULL, KILL_TARGETS, FaultKind, make_plan


def test_a_seed_makes_one_plan_and_another_seed_another() -> None:
    first = make_plan(FULL, seed=7, mean_gap_s=6)
    assert first == make_plan(FULL, seed=7, mean_gap_s=6)
    assert first != make_plan(FULL, seed=8, mean_gap_s=6)


def test_a_plan_holds_every_fault_it_was_asked_for_and_kills_everybody() -> None:
    plan = make_plan(FULL, seed=7, mean_gap_s=6)
    assert {kind: sum(fault.kind == kind for fault in plan) for kind in FULL} == dict(FULL)
    assert {fault.target for fault in plan if fault.kind == FaultKind.KILL} == set(KILL_TARGETS)
    assert all(3 <= fault.after_s <= 9 for fault in plan)


def test_words_of_the_broker_are_heard_as_they_were_said() -> None:
    line = b'+1.5 [0 127.0.0.1:5] "LPUSH" "tentalis:workers" "{\\"a\\": \\"\\\\n\\xc3\\xa9\\"}"'
    assert split_words(line) == [b"LPUSH", b"tentalis:workers", '{"a": "\\né"}'.encode()]


def make_adapter(directory: Path) -> Path:
    """A directory of the right shape: two float32 weights and a manifest over them."""
    directory.mkdir()
    header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    weights = struct.pack("<Q", len(header)) + header + struct.pack("<2f", 1.0, 2.0)
    (directory / WEIGHTS).write_bytes(weights)
    files = {WEIGHTS: {"sha256": hashlib.sha256(weights).hexdigest(), "size_bytes": len(weights)}}
    (directory / MANIFEST).write_bytes(canonical_json({"files": files}))
    return directory


def test_a_truncated_adapter_lies_about_its_hash(tmp_path: Path) -> None:
    sha256 = make_truncated(make_adapter(tmp_path / "whole"), tmp_path / "cut")
    files = json.loads((tmp_path / "cut" / MANIFEST).read_bytes())["files"]
    assert sha256 == hash_of(tmp_path / "whole" / MANIFEST)
    assert hash_of(tmp_path / "cut" / WEIGHTS) != files[WEIGHTS]["sha256"]


def test_an_adapter_of_nan_tells_the_truth_about_its_hash(tmp_path: Path) -> None:
    sha256 = make_nan(make_adapter(tmp_path / "whole"), tmp_path / "nan")
    files = json.loads((tmp_path / "nan" / MANIFEST).read_bytes())["files"]
    content = (tmp_path / "nan" / WEIGHTS).read_bytes()
    assert sha256 == hash_of(tmp_path / "nan" / MANIFEST)
    assert hash_of(tmp_path / "nan" / WEIGHTS) == files[WEIGHTS]["sha256"]
    assert [value != value for value in struct.unpack("<2f", content[-8:])] == [True, True]
