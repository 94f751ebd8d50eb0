"""What lies in a directory, and what is wanted of it."""

import gzip
import io
import tarfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

Kind = Literal["file", "directory", "link", "other"]
MOST_UNPACKED_BYTES: Final = 4 << 20
"""Of an archive that is looked into."""


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
        lines = told.splitlines()
        parents = [line.split()[1] for line in lines if line.startswith("parent ")]
        if message.strip() != self.message:
            return f"{path}: wanted the message {self.message!r}, found another"
        first = _read_object(tree, path, parents[0]) if len(parents) == 1 else None
        if first is None or b"\nparent " in first.partition(b"\n\n")[0]:
            return f"{path}: wanted one commit upon the first"
        found = _list_blobs(tree, path, lines[0].split()[1])
        wanted = {name: text.encode() for name, text in {**self.before, self.changed: self.text}.items()}
        return "" if found == wanted else f"{path}: the commit changes other files than {self.changed}"


def gunzip(content: bytes) -> bytes | None:
    """None where it is no gzip file, or a very long one."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as stream:
            found = stream.read(MOST_UNPACKED_BYTES + 1)
    except (OSError, EOFError, zlib.error):
        return None
    return found if len(found) <= MOST_UNPACKED_BYTES else None


def unpack(content: bytes) -> tuple[str, dict[str, bytes]] | None:
    """("tar" or "tar.gz", name -> content of its files); None for anything else."""
    form, plain = "tar", content
    if content[:2] == b"\x1f\x8b":
        form, unzipped = "tar.gz", gunzip(content)
        if unzipped is None:
            return None
        plain = unzipped
    try:
        with tarfile.open(fileobj=io.BytesIO(plain), mode="r:") as archive:
            members = {}
            for one in archive:
                if one.isfile() and (stream := archive.extractfile(one)) is not None:
                    members[one.name.removeprefix("./")] = stream.read()
    except (tarfile.TarError, OSError, ValueError):
        return None
    return form, members


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


def _list_blobs(tree: Tree, git: str, name: str) -> dict[str, bytes | None]:
    """Files of a git tree without subtrees."""
    rest, found = _read_object(tree, git, name) or b"", dict[str, bytes | None]()
    while rest:
        head, _, rest = rest.partition(b"\0")
        found[head.partition(b" ")[2].decode(errors="replace")] = _read_object(tree, git, rest[:20].hex())
        rest = rest[20:]
    return found


def spell_archive(content: bytes) -> Sequence[object]:
    """What an archive or a gzip file holds, without the times that are in it; its bytes where it is none."""
    if (told := unpack(content)) is not None:
        return [told[0], sorted((name, text.hex()) for name, text in told[1].items())]
    if content[:2] == b"\x1f\x8b" and (plain := gunzip(content)) is not None:
        return ["gz", plain.hex()]
    return ["plain", content.hex()]
