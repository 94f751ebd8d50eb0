"""Files named by their content: whole, written by however many, and nothing beside them."""

import os
from pathlib import Path

import pytest

from apps.base.kept_files import keep_file


def test_two_write_the_same_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, fsync, others = tmp_path / "kept" / "a", os.fsync, [b"whole"]

    def write_meanwhile(descriptor: int) -> None:
        if others:
            keep_file(path, others.pop())
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", write_meanwhile)
    keep_file(path, b"whole")
    assert others == []
    assert path.read_bytes() == b"whole"
    assert list(path.parent.iterdir()) == [path]


def test_what_is_there_stays_and_is_as_young_as_if_it_were_written(tmp_path: Path) -> None:
    path = tmp_path / "a"
    keep_file(path, b"whole")
    os.utime(path, (1, 1))
    number = path.stat().st_ino
    keep_file(path, b"whole")
    assert path.stat().st_ino == number
    assert path.stat().st_mtime > 1


def test_what_could_not_be_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space left"):
        keep_file(tmp_path / "a", b"whole")
    assert list(tmp_path.iterdir()) == []
