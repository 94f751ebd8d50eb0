"""The spool: what was appended is read, whatever happened to the process; nothing else is."""

import multiprocessing
import os
import resource
import signal
import struct
from pathlib import Path
from typing import Any

import pytest

from apps.gateway.record import Record, SpoolError, unpack_records
from apps.gateway.spool import (
    REJECTED,
    FileSpool,
    Position,
    SpoolDirectory,
    Spooled,
    SpoolReader,
    adopt_orphans,
    find_rejected,
    keep_aside,
    measure_ends,
    measure_spools,
    sweep_stored,
)
from tentalis.limits import LIMITS
from tests.apps.gateway.records import make_header

SPAWN = multiprocessing.get_context("spawn")


def append(spool: FileSpool, count: int, *, size: int = 100) -> list[Record]:
    records = [Record(make_header(1, f"s{place}"), bytes([65 + place % 26]) * size, b"{}") for place in range(count)]
    for record in records:
        spool.append(*record)
    return records


def read_all(directory: SpoolDirectory, *, is_growing: bool = False, most_records: int = 7) -> list[Spooled]:
    reader = SpoolReader(directory, is_growing=is_growing)
    found: list[Spooled] = []
    position = Position()
    while batch := reader.read(position, most_bytes=2_000, most_records=most_records):
        found += batch
        position = batch[-1].end
    reader.close()
    return found


def records_of(found: list[Spooled]) -> list[Record]:
    return [unpack_records(spooled.body)[0] for spooled in found]


def test_what_was_appended_is_read_in_order_over_many_segments(tmp_path: Path) -> None:
    spool = FileSpool(tmp_path, segment_bytes=3_000)
    records = append(spool, 40)
    assert len(spool.directory.find_segments()) > 5
    found = read_all(spool.directory, is_growing=True)
    assert records_of(found) == records
    assert {spool.directory.name: found[-1].end} == measure_ends(spool.root, spool.directory.name)


def test_a_record_larger_than_a_read_and_a_segment_comes_alone(tmp_path: Path) -> None:
    spool = FileSpool(tmp_path, segment_bytes=3_000)
    records = append(spool, 2) + append(spool, 1, size=50_000) + append(spool, 2)
    assert records_of(read_all(spool.directory)) == records


def test_a_reader_waits_for_the_end_of_a_record_that_is_being_written(tmp_path: Path) -> None:
    spool = FileSpool(tmp_path)
    append(spool, 1)
    reader = SpoolReader(spool.directory, is_growing=True)
    first = reader.read(Position(), most_bytes=10**6, most_records=9)[0]
    path = spool.directory.segment_path(0)
    frame = path.read_bytes()
    with path.open("ab") as file:
        file.write(frame[:-1])
        file.flush()
        assert reader.read(first.end, most_bytes=10**6, most_records=9) == []
        file.write(frame[-1:])
    assert [one.body for one in reader.read(first.end, most_bytes=10**6, most_records=9)] == [first.body]


@pytest.mark.parametrize("tail", [b"\x07", b"\x00" * 100, struct.pack("<II", 50, 1) + b"x" * 50, b"\xff" * 8])
def test_a_torn_end_is_passed_over_and_the_next_segment_read(tmp_path: Path, tail: bytes) -> None:
    spool = FileSpool(tmp_path, segment_bytes=1_000)
    records = append(spool, 9)
    assert len(spool.directory.find_segments()) > 1
    for number in spool.directory.find_segments():
        with spool.directory.segment_path(number).open("ab") as file:
            file.write(tail)
    assert records_of(read_all(spool.directory)) == records


def test_a_damaged_record_is_never_read(tmp_path: Path) -> None:
    spool = FileSpool(tmp_path)
    records = append(spool, 3)
    found = read_all(spool.directory)
    path = spool.directory.segment_path(0)
    data = bytearray(path.read_bytes())
    data[found[1].end.offset - 1] ^= 1
    path.write_bytes(data)
    assert records_of(read_all(spool.directory)) == records[:1]


def append_and_be_killed(root: Path, ready: Any) -> None:
    """Append for ever; say how many were kept after each."""
    spool = FileSpool(root, segment_bytes=20_000)
    count = 0
    while True:
        append(spool, 1)
        count += 1
        os.write(ready, struct.pack("<I", count))


def test_what_was_kept_survives_kill_9_and_is_adopted_once(tmp_path: Path) -> None:
    for _ in range(3):
        out, into = os.pipe()
        pid = os.fork()
        if pid == 0:
            append_and_be_killed(tmp_path, into)
        os.close(into)
        kept = 0
        while kept < 50:
            kept = struct.unpack("<I", os.read(out, 4))[0]
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        while data := os.read(out, 4):
            kept = struct.unpack("<I", data)[0]
        os.close(out)
        (orphan,) = adopt_orphans(tmp_path)
        assert adopt_orphans(tmp_path) == []
        assert kept <= len(read_all(orphan)) <= kept + 1
        orphan.retire()
        assert list(sweep_stored(tmp_path)) == [orphan.name.removeprefix(".stored-")]
        orphan.release()
    assert measure_spools(tmp_path) == 0


def test_a_living_spool_is_not_adopted_and_a_released_one_is(tmp_path: Path) -> None:
    spool = FileSpool(tmp_path)
    append(spool, 1)
    assert adopt_orphans(tmp_path) == []
    spool.close()
    spool.directory.release()
    assert [one.name for one in adopt_orphans(tmp_path)] == [spool.directory.name]


def test_a_spool_is_full_by_all_that_lies_under_its_root(tmp_path: Path) -> None:
    first = FileSpool(tmp_path, limit_bytes=5_000)
    append(first, 5)
    assert not first.is_full
    second = FileSpool(tmp_path, limit_bytes=5_000)
    append(second, 5)
    assert not first.is_full
    first.measure()
    assert first.is_full
    second.directory.segment_path(0).unlink()
    first.measure()
    assert not first.is_full


def fill_the_disk(root: Path) -> None:
    """A limit on a file's size stands for a full disk: a write is cut short, then refused."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, 5_000))
    spool = FileSpool(root)
    records = append(spool, 3, size=1_000)
    with pytest.raises(SpoolError):
        append(spool, 2, size=1_000)
    records += append(spool, 1, size=1)  # a small one still finds room, right behind the last
    assert records_of(read_all(spool.directory)) == records


def test_a_full_disk_is_an_error_and_tears_nothing(tmp_path: Path) -> None:
    process = SPAWN.Process(target=fill_the_disk, args=(tmp_path,))
    process.start()
    process.join(60)
    assert process.exitcode == 0


def test_a_header_that_is_no_text_is_kept_readable(tmp_path: Path) -> None:
    spool = FileSpool(tmp_path)
    spool.append(make_header(1, "caf\udce9"), b"{}", b"{}")
    assert records_of(read_all(spool.directory))[0].header["session"] == "caf?"


def test_what_is_set_aside_is_its_owners_alone_to_read(tmp_path: Path) -> None:
    (tmp_path / REJECTED).touch(0o644)
    for _ in range(2):
        assert keep_aside(tmp_path, b"words of somebody") == tmp_path / REJECTED
        assert (tmp_path / REJECTED).stat().st_mode & 0o777 == 0o600
        (tmp_path / REJECTED).unlink()


def test_no_more_is_set_aside_than_the_limit(tmp_path: Path) -> None:
    with (tmp_path / REJECTED).open("wb") as file:
        file.truncate(LIMITS.set_aside_bytes)
    assert keep_aside(tmp_path, b"one more") is None
    assert find_rejected(tmp_path) == LIMITS.set_aside_bytes


def test_a_full_disk_is_told_before_a_record_is_lost_and_without_a_path(tmp_path: Path) -> None:
    spool = FileSpool(tmp_path, segment_bytes=2**60)
    try:
        (trouble,) = spool.find_troubles()
    finally:
        spool.close()
        spool.directory.release()
    assert trouble == "the disk is full: what is answered cannot be recorded"
