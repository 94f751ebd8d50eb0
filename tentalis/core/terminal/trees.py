"""What lies in a directory, and what is wanted of it."""

import gzip
import io
import tarfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

_GZIP: Final = b"\x1f\x8b"
_FAILED_BYTES: Final = 2**18
"""That count for a gzip file which could not be unpacked, however far that went."""
Kind = Literal["file", "directory", "link", "other"]
MOST_UNPACKED_BYTES: Final = 4 << 20
"""Of an archive that is looked into, and of all of a tree together."""


@dataclass(frozen=True)
class Entry:
    """What lies at a path.

    Args:
        content: of a file; None where it was too long to be read.
        size_bytes: of a file, read or not.
        mode: its permissions, as chmod takes them; of a link 0.
        target: of a link.
    """

    kind: Kind
    content: bytes | None = b""
    mode: int = 0o644
    target: str = ""
    size_bytes: int = 0


Tree = Mapping[str, Entry]
"""Path without a leading slash -> what lies there; directories are there too."""


def file(text: str, mode: int = 0o644) -> Entry:
    content = text.encode()
    return Entry("file", content, mode, size_bytes=len(content))


def directory(mode: int = 0o755) -> Entry:
    return Entry("directory", mode=mode)


def link(target: str) -> Entry:
    return Entry("link", mode=0, target=target)


def with_parents(entries: Tree) -> dict[str, Entry]:
    """The same with every directory that it takes, in the order of the paths."""
    whole = dict(entries)
    for path in entries:
        parts = path.split("/")[:-1]
        for count in range(1, len(parts) + 1):
            whole.setdefault("/".join(parts[:count]), directory())
    return {path: whole[path] for path in sorted(whole)}


class Want(Protocol):
    """What is wanted of a path."""

    def find_fault(self, tree: Tree, path: str) -> str:
        """What is otherwise, in words; "" where it is so."""


@dataclass(frozen=True)
class Holds:
    """A file with this text, and these permissions where they matter."""

    text: str
    mode: int | None = None

    def find_fault(self, tree: Tree, path: str) -> str:
        found = tree.get(path)
        if found is None or found.kind != "file":
            return f"{path}: wanted a file, found {'nothing' if found is None else f'a {found.kind}'}"
        if found.content != self.text.encode():
            return f"{path}: the text is another than wanted"
        if self.mode is not None and found.mode != self.mode:
            return f"{path}: wanted mode {self.mode:o}, found {found.mode:o}"
        return ""


@dataclass(frozen=True)
class Gone:
    """Nothing."""

    def find_fault(self, tree: Tree, path: str) -> str:
        return f"{path}: wanted nothing there, found a {tree[path].kind}" if path in tree else ""


@dataclass(frozen=True)
class PointsTo:
    """A symbolic link to just this target."""

    target: str

    def find_fault(self, tree: Tree, path: str) -> str:
        found = tree.get(path)
        if found is None or found.kind != "link":
            return f"{path}: wanted a link, found {'nothing' if found is None else f'a {found.kind}'}"
        return "" if found.target == self.target else f"{path}: wanted a link to {self.target}, found another"


@dataclass(frozen=True)
class Packs:
    """An archive of exactly these members, by their names and texts.

    Args:
        form: "tar", or "tar.gz".
    """

    members: Mapping[str, str]
    form: str

    def find_fault(self, tree: Tree, path: str) -> str:
        found = tree.get(path)
        if found is None or found.kind != "file" or found.content is None:
            return f"{path}: wanted an archive, found {'nothing' if found is None else 'something else'}"
        told = unpack(found.content)
        if told is None or told[0] != self.form:
            return f"{path}: wanted a {self.form} archive, found {'something else' if told is None else told[0]}"
        wanted = {name: text.encode() for name, text in self.members.items()}
        return "" if told[1] == wanted else f"{path}: other members than wanted"


@dataclass(frozen=True)
class Gzips:
    """A gzip file of this text."""

    text: str

    def find_fault(self, tree: Tree, path: str) -> str:
        found = tree.get(path)
        if found is None or found.kind != "file" or found.content is None:
            return f"{path}: wanted a gzip file, found {'nothing' if found is None else 'something else'}"
        return "" if gunzip(found.content) == self.text.encode() else f"{path}: wanted a gzip file of the same text"


@dataclass(frozen=True)
class Commits:
    """A repository's newest commit, upon the one it had: its message, and the one file that it changes.

    The path is the repository's `.git`, of which loose objects are read, as git writes them.
    """

    message: str
    changed: str
    text: str
    before: Mapping[str, str] = field(default_factory=dict)

    def find_fault(self, tree: Tree, path: str) -> str:
        head = _read_text(tree, f"{path}/HEAD").removeprefix("ref: ").strip()
        tip = _read_text(tree, f"{path}/{head}").strip() if head.startswith("refs/") else head
        commit = _read_object(tree, path, tip)
        if commit is None:
            return f"{path}: wanted a commit, found none that can be read"
        told, _, message = commit.decode(errors="replace").partition("\n\n")
        first_line, *lines = told.split("\n")
        parents = [line.removeprefix("parent ") for line in lines if line.startswith("parent ")]
        if message.strip() != self.message:
            return f"{path}: wanted the message {self.message!r}, found another"
        first = _read_object(tree, path, parents[0]) if len(parents) == 1 else None
        if first is None or b"\nparent " in first.partition(b"\n\n")[0]:
            return f"{path}: wanted one commit upon the first"
        wanted = {name: text.encode() for name, text in {**self.before, self.changed: self.text}.items()}
        found = _list_blobs(tree, path, first_line.removeprefix("tree "), most=len(wanted))
        return "" if found == wanted else f"{path}: the commit changes other files than {self.changed}"


def gunzip(content: bytes, most_bytes: int = MOST_UNPACKED_BYTES) -> bytes | None:
    """None where it is no gzip file, or one of more."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as stream:
            found = stream.read(most_bytes + 1)
    except (OSError, EOFError, zlib.error):
        return None
    return found if len(found) <= most_bytes else None


def unpack(content: bytes) -> tuple[str, dict[str, bytes]] | None:
    """("tar" or "tar.gz", name -> content of its files); None for anything else, and where that is very long."""
    is_packed = content.startswith(_GZIP)
    plain = gunzip(content) if is_packed else content
    members = None if plain is None else _read_members(plain)
    return None if members is None else ("tar.gz" if is_packed else "tar", members)


def _read_members(plain: bytes) -> dict[str, bytes] | None:
    members, left = dict[str, bytes](), MOST_UNPACKED_BYTES
    try:
        with tarfile.open(fileobj=io.BytesIO(plain), mode="r:") as archive:
            for one in archive:
                left -= max(one.size, 0)  # of a file with holes a line of it may stand for terabytes
                if left < 0 or archive.offset <= one.offset:  # what leads back would go on for ever
                    return None
                if one.isfile() and (stream := archive.extractfile(one)) is not None:
                    members[one.name.removeprefix("./")] = stream.read()
    except Exception:  # noqa: BLE001  # of bytes that are no archive `tarfile` raises what it happens to run into
        return None
    return members


def _read_text(tree: Tree, path: str) -> str:
    found = tree.get(path)
    return "" if found is None or found.content is None else found.content.decode(errors="replace")


def _read_object(tree: Tree, git: str, name: str) -> bytes | None:
    """A loose object without its head."""
    found = tree.get(f"{git}/objects/{name[:2]}/{name[2:]}")
    if found is None or found.content is None:
        return None
    try:
        return zlib.decompressobj().decompress(found.content, MOST_UNPACKED_BYTES).partition(b"\0")[2]
    except zlib.error:
        return None


def _list_blobs(tree: Tree, git: str, name: str, *, most: int) -> dict[str, bytes | None] | None:
    """Files of a git tree without subtrees; None where they are more: each may unpack to a lot."""
    rest, found = _read_object(tree, git, name) or b"", dict[str, bytes | None]()
    while rest:
        if most <= 0:
            return None
        most -= 1
        head, _, rest = rest.partition(b"\0")
        found[head.partition(b" ")[2].decode(errors="replace")] = _read_object(tree, git, rest[:20].hex())
        rest = rest[20:]
    return found


def spell_archive(content: bytes, most_bytes: int = MOST_UNPACKED_BYTES) -> tuple[Sequence[object], int]:
    """What an archive or a gzip file holds, without the times that are in it, and how many bytes had to be unpacked for
    that; its own bytes where it is none, or where that is more."""
    told: tuple[Sequence[object], int] = ["plain", content.hex()], 0
    if not content.startswith(_GZIP):
        return told if (members := _read_members(content)) is None else (["tar", _spell_members(members)], 0)
    plain = gunzip(content, most_bytes)
    if plain is None:
        return told[0], min(_FAILED_BYTES, most_bytes)
    members = _read_members(plain)
    return ["gz", plain.hex()] if members is None else ["tar.gz", _spell_members(members)], len(plain)


def _spell_members(members: Mapping[str, bytes]) -> Sequence[object]:
    return sorted((name, content.hex()) for name, content in members.items())
