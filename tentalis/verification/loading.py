"""Repositories from where they lie: a directory, or a commit of a git repository or bundle."""

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Final

from tentalis.core.canon import content_hash
from tentalis.core.swe.guarding import find_guard
from tentalis.core.swe.patches import FilePatch, Files, PatchError, apply_patch, overlay, parse_patch, spell_path
from tentalis.core.swe.repo_tasks import RepoTask, RepoTaskError, hash_task
from tentalis.sandbox.frames import HOME

ROOT: Final = f"{HOME}/repo"
TASK_FILE: Final = "task.json"
MAX_REPO_FILES: Final = 50_000
MAX_REPO_BYTES: Final = 256 * 2**20
GIT_WITHIN_S: Final = 300.0
_GIT: Final = ("git", "-c", "safe.directory=*", "-c", "core.autocrlf=false")
LEFT_OUT: Final = frozenset({".git", "__pycache__", ".pytest_cache", ".mypy_cache"})


@dataclass(frozen=True)
class LoadedTask:
    """A task with its repository.

    Args:
        files: at its base commit, without what the test patch does.
        directory: beside whose file its wheels lie; None where it has none.
        root: where the repository lies in a sandbox.
        extra: files beside it, by whole paths; scripts: of them, those that say what the work is worth; solve: the one
            that does the work.
    """

    task: RepoTask
    files: Files
    directory: Path | None = None
    root: str = ROOT
    extra: Files = field(default_factory=dict)
    scripts: Sequence[str] = ()
    solve: Sequence[str] = ()
    test_files: Files = field(init=False)
    test_patch: Sequence[FilePatch] = field(init=False)

    def __post_init__(self) -> None:
        try:
            patch = parse_patch(self.task.test_patch)
            object.__setattr__(self, "test_patch", patch)
            object.__setattr__(self, "test_files", overlay(self.files, apply_patch(self.files, patch)))
        except PatchError as error:
            raise RepoTaskError(f"test_patch: {error}") from None

    @cached_property
    def guarded(self) -> list[str]:
        """Files that say how it is tested, as the task has them."""
        own = {path for one in self.test_patch for path in one.paths}
        return sorted(
            path for path in self.test_files if find_guard(path, guarded=own, sources=self.task.sources)
        )  # fmt: skip

    @cached_property
    def hash(self) -> str:
        held = {**self.files, **self.extra}
        told = {spell_path(path): sha256(content).hexdigest() for path, content in held.items()}
        return hash_task(self.task, content_hash([told, self.root, list(self.scripts)]))


def load_task(directory: Path) -> LoadedTask:
    """The task that a directory holds, in `task.json`.

    Raises:
        RepoTaskError: it is none, or its repository is not there.
    """
    task = read_task(directory)
    return LoadedTask(task, read_repo(directory / task.repo, task.base_commit), directory)


def read_task(directory: Path) -> RepoTask:
    """The same without its repository. Raises RepoTaskError where it is none."""
    place = directory / TASK_FILE
    try:
        stored = json.loads(place.read_bytes())
    except OSError as error:
        raise RepoTaskError(f"{place}: {error.strerror}") from None
    except ValueError as error:
        raise RepoTaskError(f"{place}: wanted JSON, found {error}") from None
    return RepoTask.from_json(stored)


def save_task(task: RepoTask, files: Files, directory: Path, *, wheels: Mapping[str, bytes] | None = None) -> None:
    """Write a task with its repository as a directory, to be loaded again."""
    for path, content in files.items():
        place = directory / task.repo / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    for name, content in (wheels or {}).items():
        place = directory / "wheelhouse" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / TASK_FILE).write_text(json.dumps(task.to_json(), indent=1) + "\n", encoding="utf-8")


def read_repo(place: Path, commit: str = "") -> dict[str, bytes]:
    """Its files: of a directory as they lie there, or of a commit of a git repository or bundle."""
    if not place.exists():
        raise RepoTaskError(f"repo: wanted a directory or a git bundle at {place}, found none")
    if not commit:
        if not place.is_dir():
            raise RepoTaskError(f"base_commit: wanted one of {place.name}, found none")
        return read_files(place)
    if not commit.isalnum():
        raise RepoTaskError(f"base_commit: wanted a hash, found {commit!r:.80}")
    with tempfile.TemporaryDirectory(prefix="tentalis-repo-") as name:
        bare, tree = Path(name) / "git", Path(name) / "tree"
        tree.mkdir()
        _git("clone", "--quiet", "--bare", "--no-local", str(place.resolve()), str(bare), at=Path(name))
        _refuse_large(bare, commit)
        _git("--git-dir", str(bare), "read-tree", commit, at=Path(name))
        _git(
            "-c",
            "core.bare=false",
            "--git-dir",
            str(bare),
            "--work-tree",
            str(tree),
            "checkout-index",
            "--all",
            at=tree,
        )
        return read_files(tree)


def _refuse_large(bare: Path, commit: str) -> None:
    """A bundle of a few bytes may hold any number of files: they are counted before they are written."""
    listing = [*_GIT, "--git-dir", str(bare), "ls-tree", "-r", "-l", commit]
    count = size = 0
    with subprocess.Popen(
        listing, env=_make_environment(bare), cwd=bare, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as told:
        for line in told.stdout or ():
            written = line.split(maxsplit=4)[3]  # mode, kind, hash, size ("-" of what is no file), path
            count, size = count + 1, size + (int(written) if written.isdigit() else 0)
            if count > MAX_REPO_FILES or size > MAX_REPO_BYTES:
                told.kill()
                raise say_large()


def say_large() -> RepoTaskError:
    most = f"{MAX_REPO_FILES:,} files of {MAX_REPO_BYTES // 2**20} MiB"
    return RepoTaskError(f"repo: wanted at most {most}, found more")


def _make_environment(at: Path) -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", ""), "HOME": str(at),
        "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": "file", "LC_ALL": "C",
    }  # fmt: skip


def _git(*argv: str, at: Path) -> None:
    try:
        subprocess.run(
            [*_GIT, *argv],
            env=_make_environment(at), cwd=at, check=True, capture_output=True, timeout=GIT_WITHIN_S,
        )  # fmt: skip
    except FileNotFoundError:
        raise RepoTaskError("repo: a commit wants git, found none on this machine") from None
    except subprocess.CalledProcessError as error:
        words = error.stderr.decode(errors="replace").strip().splitlines()
        raise RepoTaskError(f"repo: git says {words[-1] if words else error}") from None
    except subprocess.TimeoutExpired:
        raise RepoTaskError(f"repo: git took longer than {GIT_WITHIN_S:g} s") from None


def read_files(directory: Path) -> dict[str, bytes]:
    """All files of a directory. Compiled code, git's records, links and devices are left out."""
    files: dict[str, bytes] = {}
    size = 0
    for above, directories, names in os.walk(directory):
        directories[:] = sorted(one for one in directories if one not in LEFT_OUT)
        for name in sorted(names):
            place = Path(above, name)
            if name.endswith((".pyc", ".pyo")) or place.is_symlink() or not place.is_file():
                continue
            files[place.relative_to(directory).as_posix()] = content = place.read_bytes()
            size += len(content)
            if size > MAX_REPO_BYTES or len(files) > MAX_REPO_FILES:
                raise say_large()
    return files
