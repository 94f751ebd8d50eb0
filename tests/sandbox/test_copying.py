"""Trees that are made to hurt whoever copies them."""

import os
import stat
from pathlib import Path

import pytest

from tentalis.sandbox.copying import copy_tree
from tentalis.sandbox.errors import SandboxRefusedError

MIB = 2**20


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "tree").mkdir()
    return tmp_path / "tree"


def copy(tree: Path, *, most_bytes: int = MIB, most_entries: int = 100) -> Path:
    target = tree.parent / "copy"
    target.mkdir()
    reading, writing = (os.open(path, os.O_RDONLY | os.O_DIRECTORY) for path in (tree, target))
    try:
        copy_tree(reading, writing, owner=None, most_bytes=most_bytes, most_entries=most_entries)
    finally:
        os.close(reading)
        os.close(writing)
    return target


def test_links_are_copied_and_never_followed(tree: Path) -> None:
    secret = tree.parent / "secret"
    secret.mkdir()
    (secret / "word").write_text("word")
    (tree / "out").symlink_to(secret)
    (tree / "file").symlink_to(secret / "word")
    (tree / "nowhere").symlink_to("nothing")
    copied = copy(tree)
    assert [(path.name, path.is_symlink()) for path in sorted(copied.iterdir())] == [
        ("file", True),
        ("nowhere", True),
        ("out", True),
    ]
    assert (copied / "out").readlink() == secret


def test_a_hole_stays_one(tree: Path) -> None:
    with (tree / "holes").open("wb") as file:
        file.seek(2**40)
        file.write(b"end")
    copied = copy(tree)
    assert (copied / "holes").stat().st_size == 2**40 + 3
    assert (copied / "holes").stat().st_blocks * 512 < MIB
    with (copied / "holes").open("rb") as file:
        file.seek(-4, os.SEEK_END)
        assert file.read() == b"\0end"


def test_one_file_of_many_names_stays_one(tree: Path) -> None:
    (tree / "first").write_bytes(bytes(100_000))
    (tree / "deep").mkdir()
    for number in range(50):
        os.link(tree / "first", tree / "deep" / str(number))
    copied = copy(tree, most_bytes=100_000)
    assert (copied / "first").stat().st_nlink == 51
    assert (copied / "deep/7").read_bytes() == bytes(100_000)


@pytest.mark.parametrize(
    ("limits", "words"), [({"most_bytes": 999}, "limit of bytes"), ({"most_entries": 3}, "limit of files")]
)
def test_more_than_it_may_hold_is_refused(tree: Path, limits: dict[str, int], words: str) -> None:
    for number in range(4):
        (tree / str(number)).write_bytes(bytes(250))
    with pytest.raises(SandboxRefusedError, match=words):
        copy(tree, **limits)


def test_what_only_opening_would_hang_or_hurt_is_not_opened(tree: Path) -> None:
    os.mkfifo(tree / "pipe")
    if os.geteuid() == 0:
        os.mknod(tree / "device", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    (tree / "empty").touch(mode=0o640)
    copied = copy(tree)
    assert sorted(path.name for path in copied.iterdir()) == ["empty", "pipe"]
    assert stat.S_ISFIFO((copied / "pipe").stat().st_mode)
    assert (copied / "empty").stat().st_mode & 0o777 == 0o640


def test_a_tree_too_deep_to_be_copied_is_refused(tree: Path) -> None:
    inner = tree
    for _ in range(300):
        inner /= "d"
        inner.mkdir()
    with pytest.raises(SandboxRefusedError, match="at most 200 directories in each other"):
        copy(tree, most_entries=1_000)
