"""What a candidate's patch must not touch: tests, and whatever decides which of them run and how.

What it does there anyway is left out and reported, and the task's own files are in its place when tests run.
"""

import sys
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

from tentalis.core.swe.patches import LINK, SUBMODULE, FilePatch, Files, PatchError, apply_patch

TEST_DIRECTORIES: Final = frozenset({"test", "tests", "testdata", "__tests__"})
_NEVER: Final = (
    ("sitecustomize.py", "code that every Python runs at its start"),
    ("usercustomize.py", "code that every Python runs at its start"),
    ("*.pth", "code that every Python runs at its start"),
    ("*.pyc", "compiled code"),
    ("*.pyo", "compiled code"),
    ("*.so", "compiled code"),
    ("*.pyd", "compiled code"),
)
_BY_NAME: Final = (
    ("test_*", "a test"),
    ("*_test.py", "a test"),
    ("tests.py", "a test"),
    ("conftest.py", "test configuration"),
    ("pytest.ini", "test configuration"),
    (".pytest.ini", "test configuration"),
    ("tox.ini", "test configuration"),
    ("setup.cfg", "test configuration"),
    ("noxfile.py", "test configuration"),
    (".coveragerc", "test configuration"),
    ("runtests.py", "test configuration"),
)
_BY_DIRECTORY: Final = (
    ("__pycache__", "compiled code"),
    ("*.egg-info", "entry points of an installed package"),
    ("*.dist-info", "entry points of an installed package"),
    ("*.egg", "entry points of an installed package"),
    (".git", "the repository's own records"),
)
CONFIGURED: Final = "pyproject.toml"
_TABLES: Final = (
    ("tool", "pytest"),
    ("tool", "coverage"),
    ("tool", "tox"),
    ("tool", "nox"),
    ("project", "entry-points"),
    ("tool", "setuptools", "entry-points"),
    ("tool", "poetry", "plugins"),
)
_RUNNERS: Final = frozenset({"pytest", "_pytest", "pluggy", "py", "iniconfig", "django", "unittest"})
"""Names that a runner of tests imports."""


class Stripped(NamedTuple):
    """A part of a patch that was left out."""

    path: str
    why: str


@dataclass(frozen=True)
class Candidate:
    """What is left of a patch.

    Args:
        patch: the parts that count; changed: what they come to, path -> content or None.
    """

    patch: Sequence[FilePatch]
    changed: Mapping[str, bytes | None]
    stripped: Sequence[Stripped]


def find_guard(path: str, *, guarded: Collection[str] = (), sources: Iterable[str] = ()) -> str:
    """Why a path is no candidate's to change; "" where it is.

    Args:
        guarded: files of the task's own that count as tests whatever their names.
        sources: paths, or directories with a slash behind them, that are source though their names look like tests.
    """
    if path in guarded:
        return "a test"
    *directories, name = path.split("/")
    for pattern, why in _BY_DIRECTORY:
        if any(fnmatchcase(part, pattern) for part in (*directories, name)):
            return why
    for pattern, why in _NEVER:
        if fnmatchcase(name, pattern):
            return why
    if any(path == one or (one.endswith("/") and path.startswith(one)) for one in sources):
        return ""
    for pattern, why in _BY_NAME:
        if fnmatchcase(name, pattern):
            return why
    return "a test" if TEST_DIRECTORIES & set(directories) else ""


def take_candidate(
    files: Files,
    patch: Sequence[FilePatch],
    *,
    guarded: Collection[str] = (),
    sources: Collection[str] = (),
    roots: Sequence[str] = (".",),
) -> Candidate:
    """Leave out what a candidate may not touch, and apply the rest.

    Args:
        files: the repository as the task has it, its test patch included.
        roots: directories that its modules are imported from.
    Raises:
        PatchError: what is left does not apply.
    """
    kept, stripped = [], []
    for one in patch:
        whys = [why for path in one.paths if (why := find_guard(path, guarded=guarded, sources=sources))]
        if one.mode in {LINK, SUBMODULE}:
            whys.append("no file but a link")
        if one.new is not None and one.new not in files and (shadowed := find_shadowed(one.new, roots, files)):
            whys.append(f"a module in the place of {shadowed}")
        if whys:
            stripped.append(Stripped(one.name, whys[0]))
        else:
            kept.append(one)
    changed = apply_patch(files, kept)
    for one in [one for one in kept if one.name.split("/")[-1] == CONFIGURED]:
        if why := find_configured(files.get(one.old or ""), changed.get(one.new or "")):
            kept.remove(one)
            stripped.append(Stripped(one.name, why))
            changed = {path: content for path, content in changed.items() if path not in one.paths}
    changed = {path: content for path, content in changed.items() if files.get(path) != content}
    _check_tree(files, changed)
    return Candidate(kept, changed, stripped)


def _check_tree(files: Files, changed: Mapping[str, bytes | None]) -> None:
    """A file is no directory, nor the other way round."""
    there = {path for path in {*files, *changed} if changed.get(path, files.get(path)) is not None}
    for path in changed:
        parts = path.split("/")
        for count in range(1, len(parts)):
            if (above := "/".join(parts[:count])) in there and path in there:
                raise PatchError(f"{path}: wanted a directory {above}, found a file")
        if path in there and any(one.startswith(f"{path}/") for one in there):
            raise PatchError(f"{path}: wanted a file, found a directory of that name")


def find_shadowed(path: str, roots: Sequence[str], files: Files) -> str:
    """The module of Python or of a runner that a new file would be imported instead of; "" where it is none."""
    for root in roots:
        prefix = "" if root in {"", "."} else f"{root.strip('/')}/"
        if not path.startswith(prefix):
            continue
        top, _, rest = path[len(prefix) :].partition("/")
        name = top if rest else top.partition(".")[0]
        if rest and any(one.startswith(f"{prefix}{top}/") for one in files):
            continue  # a package of the repository's own
        if name in sys.stdlib_module_names or name in _RUNNERS:
            return name
    return ""


def find_configured(before: bytes | None, behind: bytes | None) -> str:
    """What a change of pyproject.toml does to how tests run; "" where nothing."""
    old, new = _read_tables(before), _read_tables(behind)
    if old is None or new is None:
        return "test configuration that cannot be read"
    for table in _TABLES:
        if _find_table(old, table) != _find_table(new, table):
            return f"test configuration: [{'.'.join(table)}]"
    return ""


def _read_tables(content: bytes | None) -> dict[str, Any] | None:
    try:
        return tomllib.loads((content or b"").decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        return None


def _find_table(tables: Mapping[str, Any], names: Sequence[str]) -> Any:
    found: Any = tables
    for name in names:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found
