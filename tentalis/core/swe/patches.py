"""Unified diffs as git writes them: read, applied and written. Text alone, and strictly: context is not guessed."""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

Files = Mapping[str, bytes]
"""Path from the repository's root, with slashes -> content."""
MAX_PATCH_BYTES: Final = 2**21
MAX_PATCH_FILES: Final = 500
MAX_NAME_BYTES: Final = 255
"""Of a file or a directory: more no file system takes."""
MAX_PATH_BYTES: Final = 2_048
_HUNK: Final = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_ESCAPES: Final = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "a": "\a", "b": "\b", "f": "\f", "r": "\r", "v": "\v"}
_AS_BYTES: Final = "surrogatepass"
_PLAIN: Final = frozenset(range(0x20, 0x7F)) - frozenset(b'"\\')
_NO_NEWLINE: Final = "\\ No newline at end of file"
LINK, SUBMODULE = "120000", "160000"
"""Modes of what is no file."""


class PatchError(ValueError):
    """A patch that cannot be read or does not apply: where, what was wanted, what was found."""


@dataclass(frozen=True)
class Hunk:
    """Lines of one place: each with its newline, unless it is the file's last and has none.

    Args:
        start: line of the old file that it begins at, from 1; a hint, for the lines decide.
    """

    start: int
    old: Sequence[str]
    new: Sequence[str]


@dataclass(frozen=True)
class FilePatch:
    """What a patch does to one file.

    Args:
        old, new: its path before and behind; None where there is no such file.
        mode: that it gives, in octal; "" where it says none.
    """

    old: str | None
    new: str | None
    hunks: Sequence[Hunk] = field(default_factory=tuple)
    mode: str = ""
    is_binary: bool = False
    is_copy: bool = False

    @property
    def paths(self) -> tuple[str, ...]:
        """Those it touches, each once."""
        return tuple(dict.fromkeys(path for path in (self.old, self.new) if path is not None))

    @property
    def name(self) -> str:
        return self.new or self.old or "?"

    @property
    def added(self) -> list[str]:
        """Lines that are new in it, as text."""
        return [line for hunk in self.hunks for line in _find_added(hunk)]


def _find_added(hunk: Hunk) -> Iterator[str]:
    matcher = difflib.SequenceMatcher(None, list(hunk.old), list(hunk.new), autojunk=False)
    for tag, _, _, start, end in matcher.get_opcodes():
        if tag in {"insert", "replace"}:
            yield from (line.rstrip("\r\n") for line in hunk.new[start:end])


def parse_patch(text: str) -> list[FilePatch]:
    """The files of a patch, in its order.

    Raises:
        PatchError: it is none, or it leads out of the repository.
    """
    if len(text) > MAX_PATCH_BYTES:
        raise PatchError(f"wanted a patch of at most {MAX_PATCH_BYTES:,} characters, found {len(text):,}")
    if "\0" in text:
        raise PatchError("wanted a patch as text, found a NUL in it")
    files = list(_Reader(text).read())
    if text.strip() and not files:
        raise PatchError(f"wanted a unified diff, found {text.strip()[:60]!r}")
    if len(files) > MAX_PATCH_FILES:
        raise PatchError(f"wanted at most {MAX_PATCH_FILES} files in a patch, found {len(files)}")
    for one in files:
        for path in one.paths:
            check_path(path)
    return files


def check_path(path: str) -> None:
    """Raise PatchError for a path that is not one of a file within a repository."""
    parts = path.split("/")
    if not path or path.startswith("/") or "\0" in path or any(part in {"", ".", ".."} for part in parts):
        raise PatchError(f"wanted a path within the repository, found {path[:200]!r}")
    try:
        sizes = [len(part.encode(errors="surrogateescape")) for part in parts]
    except UnicodeEncodeError:
        raise PatchError(f"wanted a path of whole characters, found {path[:200]!r}") from None
    if max(sizes) > MAX_NAME_BYTES or sum(sizes) + len(parts) > MAX_PATH_BYTES:
        most = f"at most {MAX_PATH_BYTES:,} bytes, {MAX_NAME_BYTES} a name"
        raise PatchError(f"wanted a path of {most}, found {sum(sizes):,} and {max(sizes):,}: {path[:80]!r}")


def spell_path(path: str) -> str:
    """A path as text that can be kept: bytes of a name that are no text stand as escapes."""
    return path.encode(errors="surrogateescape").decode(errors="backslashreplace")


class _Reader:
    def __init__(self, text: str) -> None:
        self._lines = _split_lines(text)
        self._at = 0

    def _peek(self) -> str:
        return self._lines[self._at].rstrip("\n") if self._at < len(self._lines) else ""

    def read(self) -> Iterator[FilePatch]:
        while self._at < len(self._lines):
            line = self._peek()
            if line.startswith("diff --git "):
                yield self._read_git()
            elif line.startswith("--- ") and self._is_header():
                yield self._read_plain()
            elif line.startswith("@@ "):
                raise PatchError(f"line {self._at + 1}: wanted the name of a file before its changes, found none")
            else:
                self._at += 1  # words of a mail or a commit

    def _is_header(self) -> bool:
        return self._at + 1 < len(self._lines) and self._lines[self._at + 1].startswith("+++ ")

    def _read_plain(self) -> FilePatch:
        old, new = self._take_path("--- "), self._take_path("+++ ")
        if old is None and new is None:
            raise PatchError(f"line {self._at}: wanted a file, found /dev/null on both sides")
        return FilePatch(old, new, list(self._read_hunks()))

    def _read_git(self) -> FilePatch:
        old, new = _split_git(self._peek()[len("diff --git ") :])
        self._at += 1
        mode, is_binary, is_copy = "", False, False
        while self._at < len(self._lines):
            line = self._peek()
            if line.startswith("new file mode "):
                old, mode = None, line.split()[-1]
            elif line.startswith("deleted file mode "):
                new = None
            elif line.startswith("new mode "):
                mode = line.split()[-1]
            elif line.startswith(("rename from ", "copy from ")):
                old, is_copy = _unquote(line.split(" ", 2)[2]), line.startswith("copy")
            elif line.startswith(("rename to ", "copy to ")):
                new = _unquote(line.split(" ", 2)[2])
            elif line.startswith(("Binary files ", "GIT binary patch")):
                is_binary = True
            elif line.startswith("--- ") and self._is_header():
                told = self._take_path("--- "), self._take_path("+++ ")
                old, new = told[0] if old else None, told[1] if new else None
                break
            elif line.startswith(("diff --git ", "@@ ")):
                break
            elif line.startswith("index ") and line.endswith((f" {LINK}", f" {SUBMODULE}")):
                mode = line.split()[-1]
            self._at += 1
        if old is None and new is None:
            raise PatchError(f"line {self._at}: wanted a file, found /dev/null on both sides")
        return FilePatch(old, new, list(self._read_hunks()), mode, is_binary, is_copy)

    def _take_path(self, mark: str) -> str | None:
        line = self._peek()[len(mark) :]
        self._at += 1
        path = _unquote(line if line.startswith('"') else line.split("\t")[0].rstrip("\r"))
        if path == "/dev/null":
            return None
        return path[2:] if path.startswith(("a/", "b/")) else path

    def _read_hunks(self) -> Iterator[Hunk]:
        while found := _HUNK.match(self._peek()):
            place = self._at + 1
            self._at += 1
            wanted = int(found[2] or 1), int(found[4] or 1)
            old: list[str] = []
            new: list[str] = []
            while (len(old), len(new)) != wanted:
                if self._at >= len(self._lines) or len(old) > wanted[0] or len(new) > wanted[1]:
                    told = f"{wanted[0]} old and {wanted[1]} new lines, found {len(old)} and {len(new)}"
                    raise PatchError(f"line {place}: wanted {told}")
                line = self._lines[self._at]
                mark, text = line[:1], line[1:]
                if line.rstrip("\r\n") == "":
                    mark, text = " ", line  # an empty line whose blank was cut off
                if mark not in {" ", "+", "-", "\\"}:
                    raise PatchError(f"line {self._at + 1}: wanted ' ', '+' or '-' before a line, found {line[:40]!r}")
                self._at += 1
                if mark == "\\":
                    continue
                if self._peek() == _NO_NEWLINE or (not text.endswith("\n")):
                    text = text.rstrip("\n")
                    self._at += self._peek() == _NO_NEWLINE
                if mark != "+":
                    old.append(text)
                if mark != "-":
                    new.append(text)
            yield Hunk(int(found[1]), old, new)


def _split_git(both: str) -> tuple[str | None, str | None]:
    """The two paths behind `diff --git`: quoted, or alike but for a/ and b/."""
    if found := re.fullmatch(r'("(?:[^"\\]|\\.)*") ("(?:[^"\\]|\\.)*")', both):
        return _unquote(found[1])[2:], _unquote(found[2])[2:]
    half = len(both) // 2
    if both[half : half + 1] == " " and both[2:half] == both[half + 3 :]:
        return both[2:half], both[half + 3 :]
    old, _, new = both.partition(" b/")
    return old[2:], new


def _unquote(path: str) -> str:
    if not (path.startswith('"') and path.endswith('"') and len(path) > 1):
        return path

    parts = re.findall(r"\\([0-7]{3})|\\(.)|([^\\]+)", path[1:-1], re.DOTALL)
    plain = [
        bytes([int(octal, 8) & 0xFF])
        if octal
        else (_ESCAPES.get(sign, sign) if sign else rest).encode(errors=_AS_BYTES)
        for octal, sign, rest in parts
    ]
    return b"".join(plain).decode(errors="surrogateescape")


def _quote(path: str) -> str:
    """As git writes a path: quoted where it could be read as something else."""
    if not any(sign < " " or sign in '"\\\x7f' for sign in path):
        return path
    plain = path.encode(errors="surrogateescape")
    return '"' + "".join(chr(one) if one in _PLAIN else f"\\{one:03o}" for one in plain) + '"'


def apply_patch(files: Files, patch: Sequence[FilePatch]) -> dict[str, bytes | None]:
    """What a patch changes of these files: path -> its new content, None where it is gone.

    Raises:
        PatchError: it does not apply, and where.
    """
    changed: dict[str, bytes | None] = {}
    for one in patch:
        if one.is_binary:
            raise PatchError(f"{one.name}: wanted text, found a binary patch")
        before = b""
        if one.old is not None:
            held = changed[one.old] if one.old in changed else files.get(one.old)
            if held is None:
                raise PatchError(f"{one.old}: wanted a file of the repository, found none")
            before = held
        elif one.new is not None and (changed[one.new] if one.new in changed else files.get(one.new)) is not None:
            raise PatchError(f"{one.new}: wanted a new file, found one that is there already")
        behind = _apply_hunks(one, before)
        if one.new is None:
            if behind:
                raise PatchError(f"{one.name}: wanted nothing left of a file that is removed, found some")
        else:
            changed[one.new] = behind
        if one.old is not None and one.old != one.new and not one.is_copy:
            changed[one.old] = None
    return changed


def _apply_hunks(one: FilePatch, before: bytes) -> bytes:
    try:
        lines = _split_lines(before.decode())
    except UnicodeDecodeError:
        if not one.hunks:
            return before
        raise PatchError(f"{one.name}: wanted text in UTF-8, found something else") from None
    moved = 0
    floor = 0
    for number, hunk in enumerate(one.hunks, 1):
        place = _find_place(lines, hunk, hunk.start - 1 + moved, floor)
        if place is None:
            wanted = (hunk.old[0] if hunk.old else "").rstrip("\n")
            raise PatchError(f"{one.name}: change {number} does not apply: wanted {wanted[:80]!r} and what follows it")
        lines[place : place + len(hunk.old)] = hunk.new
        moved = place - (hunk.start - 1) + len(hunk.new) - len(hunk.old)
        floor = place + len(hunk.new)
    return "".join(lines).encode()


def _split_lines(text: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _find_place(lines: Sequence[str], hunk: Hunk, near: int, floor: int) -> int | None:
    """Where the old lines stand, nearest to where the patch says, behind what it changed already."""
    size = len(hunk.old)
    if not size:
        return min(max(near + 1, floor), len(lines))  # "-3,0": behind line 3
    last = len(lines) - size
    near = min(max(near, 0), max(last, 0))
    for away in range(len(lines) + 1):
        for place in dict.fromkeys((near - away, near + away)):
            if floor <= place <= last and list(lines[place : place + size]) == list(hunk.old):
                return place
    return None


def write_patch(before: Files, changed: Mapping[str, bytes | None]) -> str:
    """The diff between files and what they are changed to, as git writes it, in the order of their paths."""
    parts = []
    for path in sorted(changed):
        old, new = before.get(path), changed[path]
        if old == new:
            continue
        both = _quote(f"a/{path}"), _quote(f"b/{path}")
        names = ("/dev/null" if old is None else both[0], "/dev/null" if new is None else both[1])
        head = f"diff --git {both[0]} {both[1]}\n"
        head += "new file mode 100644\n" if old is None else "deleted file mode 100644\n" if new is None else ""
        told = difflib.unified_diff(_read(old), _read(new), *names)
        parts.append(head + "".join(line if line.endswith("\n") else f"{line}\n{_NO_NEWLINE}\n" for line in told))
    return "".join(parts)


def _read(content: bytes | None) -> list[str]:
    return _split_lines((content or b"").decode(errors="surrogateescape"))


def overlay(files: Files, changed: Mapping[str, bytes | None]) -> dict[str, bytes]:
    """The files behind a change of them."""
    both = {**files, **changed}
    return {path: content for path, content in both.items() if content is not None}
