"""A task's sandbox: made with its files, asked by its shell, read behind the back of what ran in it."""

import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from hashlib import sha256
from typing import Final

from apps.worlds.sandboxes import open_client
from apps.worlds.terminal.screens import MOST_S, QUIET_S, Screen
from tentalis.core.canon import content_hash
from tentalis.core.terminal.scenes import HOME, Scene
from tentalis.core.terminal.shell import read_keys
from tentalis.core.terminal.trees import MOST_UNPACKED_BYTES, Entry, Tree, spell_archive, with_parents
from tentalis.sandbox.client import SandboxClient
from tentalis.sandbox.errors import SandboxLostError, SandboxRefusedError
from tentalis.sandbox.kept import KeptImage

LIMITS: Final[Mapping[str, float]] = {
    "memory_bytes": 256 << 20, "processes": 32, "disk_bytes": 16 << 20, "files": 4_000, "output_bytes": 256 << 10,
    "lifetime_s": 900,
}  # fmt: skip
COMMAND_S: Final = 30.0
SETTING_UP_S: Final = 20.0
ENVIRONMENT: Final = {
    "TZ": "UTC", "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
    "GIT_CONFIG_NOSYSTEM": "1",
}  # fmt: skip
"""What its shell knows beside what every sandbox does: with one time for all commits a state is the same again."""
SCRATCH: Final = ("proc", "dev", "sys", "usr", "tmp", HOME)
"""In the root: what is not the sandbox's own, where anybody may write, and what is looked at by itself."""
HAS_TIMES: Final = "/.git/index"
"""Git's file that says when others were changed."""
# fmt: off
VOLATILE: Final = frozenset((
    "BASHPID", "BASH_ARGC", "BASH_ARGV", "BASH_COMMAND", "BASH_LINENO", "BASH_SOURCE", "EPOCHREALTIME", "EPOCHSECONDS",
    "LINENO", "PIPESTATUS", "PPID", "RANDOM", "SECONDS", "SRANDOM", "_",
))
# fmt: on
"""Variables of bash that are others at each look."""
_LEFT_OUT: Final = "…"
"""In the place of what was not read."""
_MADE_AT: Final = 1_767_225_600


@dataclass(frozen=True)
class CommandSaid:
    """What a command came to."""

    output: bytes
    code: int
    dropped: int = 0
    timed_out: bool = False
    has_ended: bool = False


@dataclass(eq=False)
class TaskSandbox:
    """A sandbox with a task's files.

    Attributes:
        before: what lay in its home when everything was set up.
    """

    name: str
    before: Tree = field(default_factory=dict)
    files_beside: int = 0
    has_shell: bool = False
    screen: Screen | None = None

    @classmethod
    def make(cls, scene: Scene) -> "TaskSandbox":
        """Raises SandboxError: it cannot be made, which is nobody's fault who works in it."""
        client = open_client()
        made = cls(_IMAGE.create(client, limits=LIMITS))
        try:
            made._set_up(client, scene)
        except BaseException:
            client.destroy(made.name)
            raise
        return made

    def _set_up(self, client: SandboxClient, scene: Scene) -> None:
        argv = ["/usr/bin/tar", "-xpf", "-", "-C", "/", "--no-same-owner"]
        done = client.run(self.name, argv, stdin=_pack(scene.files), timeout_s=SETTING_UP_S)
        if done.code:
            raise SandboxLostError(f"its files could not be laid out: {done.err[-300:].decode(errors='replace')}")
        for command in scene.starts:
            said = self.ask(command, key="", timeout_s=SETTING_UP_S)
            if said.code or said.timed_out:
                raise SandboxLostError(f"it could not be set up: {said.output[-300:].decode(errors='replace')}")
        self.before = self.read_home()
        self.files_beside = self._count_beside(client, self.before)

    def ask(self, command: str, *, key: str, timeout_s: float = COMMAND_S) -> CommandSaid:
        """A command in its shell.

        Raises:
            SandboxError: it is gone.
        """
        done = open_client().ask_shell(self.name, command, environment=ENVIRONMENT, timeout_s=timeout_s, key=key)
        self.has_shell = not done.has_ended
        return CommandSaid(done.out, done.code, done.dropped, done.timed_out, done.has_ended)

    def ask_screen(self, typed: str) -> tuple[str, int | None]:
        """A command on its screen, or keys for the program that is there: what stands there then, and that one's code
        if it has ended. What is drawn takes its time: it may be other at the next try.

        Raises:
            SandboxError: it is gone.
        """
        client = open_client()
        command, keys = ("", read_keys(typed)) if self.screen else (typed, "")
        self.screen = self.screen or Screen()
        first = client.ask_screen(self.name, command, keys=keys.encode(), environment=ENVIRONMENT)
        within_s = MOST_S if command or keys else QUIET_S  # who only looks waits for nothing
        text, code = self.screen.follow(first, partial(client.ask_screen, self.name), within_s=within_s)
        if code is not None:
            self.screen = None
        return text, code

    def read_home(self) -> Tree:
        """What lies in its home now; what has no room, or was locked or moved away, is one entry that says so."""
        try:
            return _read_tree(open_client(), self.name, f"/{HOME}")
        except SandboxRefusedError:
            self.require()
            return {_LEFT_OUT: Entry("other", size_bytes=1)}

    def read_programs(self) -> list[str]:
        """The command lines of what runs in it."""
        return [" ".join(words) for words in open_client().read_processes(self.name)]

    def find_strays(self, now: Tree) -> list[str]:
        """Paths outside its home and the scratch directories that were written, if any.

        The disk counts what is written; only where that is more than what lies in the home is everything read.
        """
        client = open_client()
        if self._count_beside(client, now) <= self.files_beside:
            return []
        found = _read_tree(client, self.name, "/", without=SCRATCH)
        untouched = _read_untouched()
        return sorted(path for path in {*found, *untouched} if found.get(path) != untouched.get(path))

    def _count_beside(self, client: SandboxClient, now: Tree) -> int:
        return int(client.stats(self.name)["files"]) - len(now)

    def hash(self, now: Tree) -> str:
        """Of what lies in its home and, where it has a shell, of that one's directory and variables. No times."""
        return content_hash([spell_tree(now), self._spell_shell() if self.has_shell else ""])

    def require(self) -> None:
        """Raises SandboxError where it is gone."""
        open_client().stats(self.name)

    def _spell_shell(self) -> str:
        """ "" where it has ended since, and no other can be had."""
        try:
            said = self.ask("builtin declare -p; builtin pwd -P", key="", timeout_s=SETTING_UP_S)
        except SandboxRefusedError:
            self.require()
            return ""
        lines = said.output.decode(errors="replace").splitlines()
        kept = [line for line in lines if not VOLATILE & set(line.partition("=")[0].split()[2:3])]
        return "\n".join(kept)

    def destroy(self) -> None:
        open_client().destroy(self.name)


def spell_tree(tree: Tree) -> list[Sequence[object]]:
    """Kind, mode, target and content of everything; of archives what they hold, and of git's files none with times."""
    spelled: list[Sequence[object]] = []
    left = MOST_UNPACKED_BYTES
    for path, entry in sorted(tree.items()):
        if f"/{path}".endswith(HAS_TIMES):
            continue
        content = None
        if entry.content is not None:
            told, unpacked_bytes = spell_archive(entry.content, left)
            content, left = sha256(json.dumps(told).encode()).hexdigest(), left - unpacked_bytes
        spelled.append([path, entry.kind, entry.mode, entry.target, entry.size_bytes if content is None else content])
    return spelled


_IMAGE: Final = KeptImage(lambda root: (root / HOME).mkdir())
"""An empty home: each task's files are laid into it."""


@cache
def _read_untouched() -> Tree:
    """What a sandbox holds outside its home when nobody was in it."""
    client = open_client()
    with _IMAGE.open(client, limits=LIMITS) as name:
        return _read_tree(client, name, "/", without=SCRATCH)


def _read_tree(client: SandboxClient, name: str, path: str, *, without: Sequence[str] = ()) -> Tree:
    found, left_out = client.read_tree(name, path, without=without)
    tree = {
        _spell_name(one.path): Entry(
            one.kind if one.kind in {"file", "directory", "link"} else "other",  # type: ignore[arg-type]
            one.content if one.kind == "file" else b"",
            one.mode,
            _spell_name(one.target),
            one.size_bytes,
        )
        for one in found
    }
    return {**tree, _LEFT_OUT: Entry("other", size_bytes=left_out)} if left_out else tree


def _spell_name(name: str) -> str:
    """As text that can be kept, another for each other name: bytes that are no text, and backslashes, as escapes."""
    return name.replace("\\", r"\\").encode(errors="surrogateescape").decode(errors="backslashreplace")


def _pack(files: Tree) -> bytes:
    """A tar archive of a task's files, with one time for all."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path, entry in with_parents(files).items():
            one = tarfile.TarInfo(f"{HOME}/{path}")
            one.mtime, one.mode, one.linkname = _MADE_AT, entry.mode or 0o777, entry.target
            one.type = {"directory": tarfile.DIRTYPE, "link": tarfile.SYMTYPE}.get(entry.kind, tarfile.REGTYPE)
            content = entry.content or b""
            one.size = len(content) if entry.kind == "file" else 0
            archive.addfile(one, io.BytesIO(content))
    return stream.getvalue()
