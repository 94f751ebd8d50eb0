"""What an agent leaves behind is looked at, whatever it is: it is as wanted or not, and costs no more than it may."""

import gzip
import io
import tarfile
import tracemalloc
import zlib
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tentalis.core.terminal.trees import (
    MOST_UNPACKED_BYTES,
    Commits,
    Entry,
    Gzips,
    Holds,
    Packs,
    PointsTo,
    Tree,
    Want,
    file,
    spell_archive,
    unpack,
)

COMMITS = Commits("mail: update", "mail.txt", "new\n", {"keep": "old\n"})
WANTS: dict[str, Want] = {
    "a": Holds("x"), "b": PointsTo("x"), "mail.tgz": Packs({"x": "x"}, "tar.gz"), "c.gz": Gzips("x"), ".git": COMMITS,
}  # fmt: skip
TIP, ROOT, BLOB = "a" * 40, "b" * 40, "c" * 40


def write_tar(*sizes: int) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for place, size in enumerate(sizes):
            one = tarfile.TarInfo(f"mail/{place}")
            one.size = size
            archive.addfile(one, io.BytesIO(bytes(size)))
    return stream.getvalue()


def set_size(archive: bytes, place: int, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    """The header at a place with another size and kind, and a sum that says nothing of that."""
    head = bytearray(archive[place : place + 512])
    head[124:136] = (b"\x80" if size >= 0 else b"\xff") + (size % 256**11).to_bytes(11, "big")
    head[156:157], head[148:156] = kind, b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return archive[:place] + bytes(head) + archive[place + 512 :]


def write_holes(size: int) -> bytes:
    """As `tar --sparse` writes a file of nothing but a hole."""
    head = bytearray(tarfile.TarInfo("mail/hole").tobuf(tarfile.GNU_FORMAT))
    head[386:398], head[398:410] = b"%011o\0" % size, b"%011o\0" % 0
    head[483:495] = b"%011o\0" % size
    return set_size(bytes(head), 0, 0, tarfile.GNUTYPE_SPARSE) + bytes(1024)


def write_object(kind: str, content: bytes) -> Entry:
    return Entry("file", zlib.compress(f"{kind} {len(content)}\0".encode() + content))


def write_git(commit: bytes, tree: bytes = b"", blob: bytes = b"") -> dict[str, Entry]:
    objects = {TIP: ("commit", commit), ROOT: ("tree", tree), BLOB: ("blob", blob)}
    written = {f".git/objects/{name[:2]}/{name[2:]}": write_object(*told) for name, told in objects.items()}
    return {".git": Entry("directory"), ".git/HEAD": file(TIP), **written}


def test_an_archive_is_told_by_what_it_holds() -> None:
    told, unpacked_bytes = spell_archive(gzip.compress(write_tar(3, 5)))
    assert told == ["tar.gz", [("mail/0", "000000"), ("mail/1", "0000000000")]]
    assert unpacked_bytes == len(write_tar(3, 5))
    assert spell_archive(gzip.compress(b"words")) == (["gz", b"words".hex()], 5)
    assert spell_archive(b"words") == (["plain", b"words".hex()], 0)


def test_holes_of_an_archive_take_no_memory() -> None:
    archive = write_holes(2**33)
    tracemalloc.start()
    try:
        assert spell_archive(archive) == (["plain", archive.hex()], 0)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.GNUTYPE_SPARSE, b"V"])
def test_an_archive_that_leads_back_into_itself_ends(kind: bytes) -> None:
    archive = set_size(write_tar(0, 0), 512, -512, kind)
    assert spell_archive(archive) == (["plain", archive.hex()], 0)


def test_no_more_is_unpacked_than_is_left() -> None:
    for plain in (b"x" * 10_000, bytes(10_000)):  # which is an archive of nothing
        packed = gzip.compress(plain)
        assert spell_archive(packed, 10_000)[1] == 10_000
        assert spell_archive(packed, 9_999) == (["plain", packed.hex()], 9_999)
    assert unpack(write_tar(MOST_UNPACKED_BYTES, 1)) is None


@pytest.mark.parametrize(
    "commit",
    [b"", b"\n\n", b"tree\n\nmail: update", b"parent \n\nmail: update", b"parent\nparent \xff\n\nmail: update\n",
     f"tree {ROOT}\nparent {TIP}\n\nmail: update".encode()],
)  # fmt: skip
def test_a_commit_that_is_none_is_a_fault_of_who_left_it(commit: bytes) -> None:
    assert COMMITS.find_fault(write_git(commit), ".git").startswith(".git: ")


def test_a_tree_of_many_long_files_is_not_read_to_its_end() -> None:
    first = f"tree {ROOT}\n\nstart".encode()
    commit = f"tree {ROOT}\nparent {ROOT[::-1]}\n\nmail: update".encode()
    listing = b"".join(b"100644 %d\0" % place + bytes.fromhex(BLOB) for place in range(50))
    git = write_git(commit, listing, bytes(MOST_UNPACKED_BYTES - 100))
    other = "d" * 40
    git[f".git/objects/dd/{other[2:]}"] = write_object("commit", first)
    git[f".git/objects/aa/{TIP[2:]}"] = write_object("commit", commit.replace(ROOT[::-1].encode(), other.encode()))
    tracemalloc.start()
    try:
        assert COMMITS.find_fault(git, ".git").endswith("the commit changes other files than mail.txt")
        assert tracemalloc.get_traced_memory()[1] < 8 * MOST_UNPACKED_BYTES
    finally:
        tracemalloc.stop()


def spoil(content: bytes, rng: Random) -> bytes:
    told = bytearray(content)
    for _ in range(rng.randrange(1, 6)):
        told[rng.randrange(len(told))] = rng.randrange(256)
    return bytes(told)


MAKERS: tuple[Callable[[Random], bytes], ...] = (
    lambda rng: spoil(write_tar(3, 600), rng),
    lambda rng: gzip.compress(spoil(write_tar(3, 600), rng)),
    lambda rng: spoil(gzip.compress(write_tar(3)), rng),
    lambda rng: set_size(
        write_tar(3, 600), rng.choice([0, 1024]), rng.choice([-512, -1, 2**40]), rng.choice([b"x", b"L"])
    ),
    lambda rng: spoil(zlib.compress(b"commit 9\0tree\n\nmail"), rng),
    lambda rng: rng.randbytes(rng.randrange(40)),
)
LEFT = st.builds(
    Entry,
    st.sampled_from(["file", "directory", "link", "other"]),
    st.none()
    | st.binary(max_size=40)
    | st.builds(lambda make, seed: make(Random(seed)), st.sampled_from(MAKERS), st.integers(0, 2**32)),
    st.integers(0, 0o7777),
    st.text(max_size=5),
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from([*WANTS, ".git/HEAD", f".git/objects/aa/{TIP[2:]}"]), LEFT))
def test_whatever_is_left_is_as_wanted_or_is_said_to_be_otherwise(tree: Tree) -> None:
    for path, want in WANTS.items():
        assert isinstance(want.find_fault(tree, path), str)
    for entry in tree.values():
        spell_archive(entry.content or b"")
