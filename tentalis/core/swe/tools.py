"""What an agent in a repository may call, and how it is answered. Files are text; what it changes lies over them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tentalis.core.swe.patches import Files, PatchError, check_path
from tentalis.core.tool_calls import read_arguments, write_closed_tool

SEARCH, VIEW, EDIT, RUN_TESTS, SUBMIT = "search", "view", "edit", "run_tests", "submit"
MOST_TEXT_CHARS: Final = 20_000
MOST_FILE_CHARS: Final = 200_000
MOST_FILES: Final = 50
"""That an episode may change."""
MOST_LINES: Final = 200
MOST_FOUND: Final = 20
MOST_LINE_CHARS: Final = 200
ERROR: Final = "error: "


_PATH: Final = {"type": "string", "minLength": 1, "maxLength": 500}
_LINE: Final = {"type": "integer", "minimum": 1}
_COUNT: Final = {"type": "integer", "minimum": 0}
_TEXT: Final = {"type": "string", "minLength": 1, "maxLength": 200}
TOOLS: Final = (
    write_closed_tool(SEARCH, "Lines that hold a text, in all files: path, number, line.", ["text"], text=_TEXT),
    write_closed_tool(
        VIEW, f"Lines of a file with their numbers, at most {MOST_LINES}.", ["path"], path=_PATH, start=_LINE, end=_LINE
    ),
    write_closed_tool(
        EDIT,
        "Put text in the place of `count` lines (1 if you do not say) from `line` on; 0 puts it before that line. What "
        "is not indented is indented as the line it replaces.",
        ["path", "line", "text"],
        path=_PATH,
        line=_LINE,
        text={"type": "string", "maxLength": MOST_TEXT_CHARS},
        count=_COUNT,
    ),
    write_closed_tool(RUN_TESTS, "Run the tests of the repository in a sandbox."),
    write_closed_tool(SUBMIT, "Say that the work is done."),
)
_FIELDS: Final[Mapping[str, Mapping[str, type]]] = {
    SEARCH: {"text": str},
    VIEW: {"path": str, "start": int, "end": int},
    EDIT: {"path": str, "line": int, "text": str, "count": int},
    RUN_TESTS: {},
    SUBMIT: {},
}
_NEEDED: Final[Mapping[str, Sequence[str]]] = {SEARCH: ["text"], VIEW: ["path"], EDIT: ["path", "line", "text"]}


class CallError(ValueError):
    """A call that cannot be made, in words for who made it."""


@dataclass(frozen=True)
class Tree:
    """Files, and the texts that were put in the place of some."""

    files: Files
    changed: Mapping[str, str]

    def read(self, path: str) -> str:
        if path in self.changed:
            return self.changed[path]
        if path not in self.files:
            near = [one for one in self.list_paths() if one.endswith(path.rsplit("/", 1)[-1])][:3]
            raise CallError(f"there is no file {path[:100]!r}: there are {', '.join(near or self.list_paths()[:8])}")
        try:
            return self.files[path].decode()
        except UnicodeDecodeError:
            raise CallError(f"{path[:100]} is no text") from None

    def list_paths(self) -> list[str]:
        return sorted({*self.files, *self.changed})


def read_call(name: str, arguments: str) -> dict[str, Any]:
    """A call's arguments, each of its type. Raises CallError in words."""
    if name not in _FIELDS:
        raise CallError(f"there is no tool {name[:100]!r}: there are {', '.join(_FIELDS)}")
    given, fields, needed = read_arguments(arguments), _FIELDS[name], _NEEDED.get(name, ())
    if given is None or set(given) - set(fields) or not set(needed) <= set(given):
        wanted = ", ".join(one if one in needed else f"{one} (may be left out)" for one in fields) or "nothing"
        raise CallError(f"{name}: wanted {wanted}, found {arguments[:200]!r}")
    for field, value in given.items():
        if not isinstance(value, fields[field]) or isinstance(value, bool):
            wanted = "a text" if fields[field] is str else "a whole number"
            raise CallError(f"{name}: wanted {field} as {wanted}, found {value!r:.100}")
        if isinstance(value, str):
            _check_text(name, field, value)
    return given


def _check_text(name: str, field: str, value: str) -> None:
    most = MOST_TEXT_CHARS if field == "text" and name == EDIT else MOST_LINE_CHARS
    if len(value) > most:
        raise CallError(f"{name}: wanted {field} of at most {most:,} characters, found {len(value):,}")
    if "\0" in value:
        raise CallError(f"{name}: wanted {field} as plain text, found a NUL")
    if field == "path":
        try:
            check_path(value)
        except PatchError as error:
            raise CallError(f"{name}: {error}") from None


def view(tree: Tree, path: str, start: int = 1, end: int | None = None) -> str:
    lines = tree.read(path).split("\n")
    if lines[-1] == "":
        lines.pop()
    last = min(len(lines), end if end is not None else len(lines), start + MOST_LINES - 1)
    if not 1 <= start <= max(len(lines), 1) or (end is not None and end < start):
        raise CallError(f"{path} has {len(lines)} lines: wanted some of them, found {start} to {end or 'its end'}")
    shown = [f"{number} {line[:MOST_LINE_CHARS]}" for number, line in enumerate(lines[start - 1 : last], start)]
    more = len(lines) - last if end is None or end > last else 0
    return "\n".join([*shown, *([f"[{more} more lines]"] if more > 0 else [])]) or "[empty]"


def search(tree: Tree, text: str) -> str:
    found = []
    for path in tree.list_paths():
        try:
            lines = tree.read(path).split("\n")
        except CallError:
            continue
        found += [
            f"{path}:{number} {line.strip()[:MOST_LINE_CHARS]}" for number, line in enumerate(lines, 1) if text in line
        ]
        if len(found) > MOST_FOUND:
            return "\n".join([*found[:MOST_FOUND], "[and more]"])
    return "\n".join(found) or "nothing found"


def edit(tree: Tree, path: str, line: int, text: str, count: int = 1) -> str:
    """The whole text of the file behind it. Raises CallError."""
    is_new = path not in tree.files and path not in tree.changed
    if is_new and (line, count) != (1, 0):
        tree.read(path)  # says so
    old = "" if is_new else tree.read(path)
    lines = old.split("\n")
    ends = lines[-1] == ""
    if ends:
        lines.pop()
    if line < 1 or count < 0 or line - 1 + count > len(lines):
        raise CallError(f"{path} has {len(lines)} lines: wanted lines of it, found {count} from {line}")
    if path not in tree.changed and len(tree.changed) >= MOST_FILES:
        raise CallError(f"wanted at most {MOST_FILES} files changed, found one more")
    new = text.removesuffix("\n").split("\n") if text else []
    if count and not any(one[:1] in {" ", "\t"} for one in new):
        replaced = lines[line - 1]
        indent = replaced[: len(replaced) - len(replaced.lstrip())]
        new = [f"{indent}{one}" if one else one for one in new]
    lines[line - 1 : line - 1 + count] = new
    whole = "\n".join(lines) + ("\n" if lines and (ends or is_new) else "")
    if len(whole) > MOST_FILE_CHARS:
        raise CallError(f"{path}: wanted at most {MOST_FILE_CHARS:,} characters, found {len(whole):,}")
    return whole
