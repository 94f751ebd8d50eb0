"""Pid 1 of a sandbox: starts programs, keeps shells, reads and writes files, collects the dead.

It may do no more than what runs beside it may, and its answers are believed no more.
"""

import contextlib
import fcntl
import json
import os
import selectors
import shlex
import signal
import stat
import struct
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NoReturn, Protocol

from tentalis.sandbox import kernel
from tentalis.sandbox.frames import HOME, MAIN_SHELL, PIECE_BYTES, SCREEN_COLUMNS, SCREEN_LINES, pack, take_frame
from tentalis.sandbox.packing import Unpacking, pack_trees

SHELL: Final = "/bin/bash"
ENVIRONMENT: Final = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": HOME,
    "LC_CTYPE": "C.UTF-8",  # all else is as in C: LANG would have each program load a dozen files for that
    "SHELL": SHELL,  # bash asks the system's lists of users where there is none
    "USER": "worker",
}
OWN_DIRECTORIES: Final = (HOME, "/tmp")  # noqa: S108
"""What a sandbox may write where the rest of its root is not its own."""
HOLD_S: Final = 0.02
"""For which output waits for what may follow it, mostly the end of its command: each sending wakes host and asker."""
BACKLOG_BYTES: Final = 2**16
"""Of what jobs in the background of a shell said between two commands: this much is shown with the next."""
SCREEN_BYTES: Final = 2**14
"""Of what a program on the screen draws between two looks: then it waits until somebody looks."""
STATUS_BYTES: Final = 3
MOST_WORDS: Final = 1_000
"""Of why something is refused."""
FIRST_TO_GO: Final = b"500"  # of what the kernel ends when memory is short: the programs, not the agent
_COMMANDS_FD, _STATUS_FD = 198, 199
_PROLOGUE: Final = f"""exec {_COMMANDS_FD}<&-; __status=0
__keep() {{ return "$__status"; }}
__tell() {{ __status=$?; printf '%s\\n' "$__status" >&{_STATUS_FD}; }}
"""
"""bash has opened its commands once more, for itself alone. It reads them byte by byte: around one there is little."""
_IGNORED_HERE: Final = (signal.SIGPIPE, signal.SIGXFSZ)  # by Python; programs expect them to be as usual
_NOT_STARTED: Final = 126
_SIGNALLED: Final = 128  # as shells count: 137 is SIGKILL


class Control(Protocol):
    """Where the host is asked and answered: a socket, or what is used like one."""

    def fileno(self) -> int: ...
    def recv(self, most_bytes: int, /) -> bytes: ...
    def sendall(self, data: bytes | bytearray, /) -> None: ...


@dataclass
class _Stream:
    """A pipe from a program. Of what comes through `left` bytes are handed on; the rest is read and counted."""

    name: str
    left: int


@dataclass
class _Running:
    """A program, or a command in a shell: number `n` to the host."""

    n: int
    streams: dict[int, _Stream] = field(default_factory=dict)
    dropped: int = 0


@dataclass
class _Shell:
    """A shell between commands and in one: `n` is None between, `unread` what its pipe has no room for yet."""

    pid: int
    commands: int
    status: int
    output: int
    n: int | None = None
    unread: bytes = b""
    stream: _Stream = field(default_factory=lambda: _Stream("out", 0))
    dropped: int = 0
    told: bytes = b""
    backlog: bytes = b""


@dataclass
class _Screen:
    """A program with a terminal of its own: `drawn` is what nobody has been told of, `code` None while it runs."""

    pid: int
    terminal: int
    drawn: bytes = b""
    code: int | None = None


class _Refused(Exception):
    """What was asked for cannot be done; the words go back."""


class Agent:
    """Whoever is beside it, but what it started, is a sandbox's too: all processes it sees, all files."""

    def __init__(self, control: Control, environment: Mapping[str, str], *, reaps_all: bool = True) -> None:
        """Args:
        environment: of what is started.
        reaps_all: also whose parents are gone. Only who tries to break out has it not so.
        """
        self._control = control
        self._environment = environment
        self._reaps_all = reaps_all
        self._programs: dict[int, _Running] = {}  # by pid
        self._shells: dict[str, _Shell] = {}
        self._screen: _Screen | None = None
        self._received = bytearray()
        self._told = bytearray()
        self._held_until = 0.0
        self._selector = selectors.DefaultSelector()
        self._orders: dict[str, Callable[[dict[str, Any], bytes], None]] = {
            "exec": self._exec,
            "shell": self._ask_shell,
            "open_shell": self._open_shell,
            "screen": self._ask_screen,
            "kill": self._kill,
            "read": self._read,
            "write": self._write,
            "tree": self._read_tree,
            "processes": self._read_processes,
            "pause": self._pause,
            "use": self._read_use,
            "save": self._save,
            "load": self._load,
        }
        self._unpacking = Unpacking()

    def run(self) -> NoReturn:
        """Do what the host says, until it is gone."""
        woken, wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._watch(self._control.fileno(), self._listen)
        self._watch(woken, lambda: self._reap(woken))
        while True:
            for key, _ in self._selector.select(self._held_until - time.monotonic() if self._told else None):
                if key.fd in self._selector.get_map():  # not closed by one before it
                    key.data()
            if time.monotonic() >= self._held_until:
                self._send()

    def _watch(self, descriptor: int, then: Callable[[], Any]) -> None:
        self._selector.register(descriptor, selectors.EVENT_READ, then)

    def _close(self, *descriptors: int) -> None:
        for descriptor in descriptors:
            with contextlib.suppress(KeyError):
                self._selector.unregister(descriptor)
            os.close(descriptor)

    def _listen(self) -> None:
        part = self._control.recv(PIECE_BYTES)
        if not part:
            self.leave()
        self._received += part
        while frame := take_frame(self._received):
            head, payload = frame
            try:
                self._orders[head["do"]](head, payload)
            except Exception as error:  # noqa: BLE001  # told: whoever is in here may not end us by what they leave
                self._tell(head["n"], "refused", words=_say(error)[:MOST_WORDS])

    def leave(self) -> NoReturn:
        """The host is gone; with us goes everything here."""
        os._exit(0)

    def place(self, path: str) -> Path:
        """Where a path of whoever asks leads."""
        return Path(HOME, path)

    def others(self) -> Iterator[int]:
        """The processes of the sandbox, but ours."""
        for entry in sorted(Path("/proc").iterdir()):
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                yield int(entry.name)

    def signal_others(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):  # nobody else is there
            os.kill(-1, number)

    def _tell(self, n: int, event: str, payload: bytes = b"", **rest: Any) -> None:
        """Not before all that is at hand has been looked at, or much has come together."""
        if event != "output":
            self._held_until = 0.0
        elif not self._told:
            self._held_until = time.monotonic() + HOLD_S
        self._told += pack({"n": n, "event": event, **rest}, payload)
        if len(self._told) > PIECE_BYTES:
            self._send()

    def _send(self) -> None:
        if self._told:
            self._control.sendall(self._told)
            self._told.clear()

    # programs

    def _start(
        self, argv: list[str], cwd: Path, environment: Mapping[str, str], actions: Sequence[tuple[Any, ...]]
    ) -> int:
        """A program in a session of its own: its pid. It gets what `actions` (posix_spawn) give it and no other
        descriptors, for all of ours close themselves."""
        given = {**self._environment, **environment}
        path = argv[0]
        if "/" not in path:
            places = (f"{place}/{path}" for place in os.get_exec_path(given))
            path = next((place for place in places if os.access(place, os.X_OK)), path)
        os.chdir(cwd)
        try:
            pid = os.posix_spawn(path, argv, given, file_actions=actions, setsid=True, setsigdef=_IGNORED_HERE)
        finally:
            os.chdir("/")
        with contextlib.suppress(OSError):  # it may be over already
            descriptor = os.open(f"/proc/{pid}/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
            os.write(descriptor, FIRST_TO_GO)
            os.close(descriptor)
        return pid

    def _exec(self, head: dict[str, Any], stdin: bytes) -> None:
        given = os.memfd_create("stdin")
        pipes = [os.pipe() for _ in range(2)]
        try:
            os.write(given, stdin)
            os.lseek(given, 0, os.SEEK_SET)
            actions = [(os.POSIX_SPAWN_DUP2, ours, its) for its, ours in enumerate((given, pipes[0][1], pipes[1][1]))]
            pid = self._start(head["argv"], self.place(head["cwd"]), head["environment"], actions)
        except BaseException:
            self._close(pipes[0][0], pipes[1][0])
            raise
        finally:
            self._close(given, pipes[0][1], pipes[1][1])
        running = _Running(head["n"])
        for name, (descriptor, _) in zip(("out", "err"), pipes, strict=True):
            os.set_blocking(descriptor, False)
            running.streams[descriptor] = _Stream(name, head["output_bytes"])
            self._watch(descriptor, lambda at=descriptor: self._pass_on(running, at))  # type: ignore[misc]
        self._programs[pid] = running

    def _pass_on(self, running: _Running, descriptor: int) -> bool:
        """A piece of a stream. False when there is none now, or ever again."""
        piece = self._take(descriptor)
        if piece is None:
            return False
        if not piece:
            if running.streams.pop(descriptor, None):
                self._close(descriptor)
            return False
        running.dropped += self._hand_on(running.n, running.streams[descriptor], piece)
        return True

    def _take(self, descriptor: int) -> bytes | None:
        """b"" at the end of a pipe, None when nothing is in it now."""
        try:
            return os.read(descriptor, PIECE_BYTES)
        except BlockingIOError:
            return None

    def _hand_on(self, n: int, stream: _Stream, piece: bytes) -> int:
        """Returns how many bytes were beyond the limit."""
        shown = piece[: stream.left]
        stream.left -= len(shown)
        if shown:
            self._tell(n, "output", shown, stream=stream.name)
        return len(piece) - len(shown)

    def _reap(self, woken: int) -> None:
        os.read(woken, 4096)
        for pid, code in self._collect():
            if running := self._programs.pop(pid, None):
                self._finish(running, code)
            for name, shell in list(self._shells.items()):
                if shell.pid == pid:
                    self._end_shell(name, code)
            if self._screen and self._screen.pid == pid:
                self._screen.code = code

    def _collect(self) -> Iterator[tuple[int, int]]:
        while True:
            try:
                if self._reaps_all:
                    pid, status = os.waitpid(-1, os.WNOHANG)
                else:
                    own = [*self._programs, *(shell.pid for shell in self._shells.values())]
                    own += [self._screen.pid] if self._screen and self._screen.code is None else []
                    pid, status = next((found for one in own if (found := os.waitpid(one, os.WNOHANG))[0]), (0, 0))
            except ChildProcessError:
                return
            if not pid:
                return
            code = os.waitstatus_to_exitcode(status)
            yield pid, code if code >= 0 else _SIGNALLED - code

    def _finish(self, running: _Running, code: int) -> None:
        """Read out what it left in its pipes; who still holds the other ends was left behind, and is not waited for."""
        for descriptor, stream in list(running.streams.items()):
            left = stream.left + PIECE_BYTES  # and no more: somebody may write for ever
            while left > 0 and self._pass_on(running, descriptor):
                left -= PIECE_BYTES
            if running.streams.pop(descriptor, None):
                self._close(descriptor)
        self._tell(running.n, "done", code=code, dropped=running.dropped)

    # shells

    def _open_shell(self, head: dict[str, Any], _: bytes) -> None:
        """Start one before its first command comes. Nobody waits for that: whoever gives one is told why not."""
        with contextlib.suppress(_Refused, OSError):
            self._start_shell(head["name"], {})

    def _ask_shell(self, head: dict[str, Any], command: bytes) -> None:
        shell = self._shells.get(head["name"]) or self._start_shell(head["name"], head["environment"])
        if shell.n is not None:
            raise _Refused(f"shell {head['name']}: it is at another command")
        if b"\0" in command:
            raise _Refused("wanted a command without a NUL, found one")
        shell.n, shell.dropped, shell.stream = head["n"], 0, _Stream("out", head["output_bytes"])
        if shell.backlog:
            shell.dropped += self._hand_on(shell.n, shell.stream, shell.backlog)
            shell.backlog = b""
        quoted = shlex.quote(command.decode(errors="surrogateescape")).encode(errors="surrogateescape")
        self._command_shell(shell, b"__keep;eval %s %d>&-;__tell\n" % (quoted, _STATUS_FD))

    def _command_shell(self, shell: _Shell, text: bytes) -> None:
        """Hand a shell what it is to read, as it reads it: one that was stopped holds up nobody else."""
        shell.unread += text
        self._feed_shell(shell)
        if shell.unread and shell.commands not in self._selector.get_map():
            self._selector.register(shell.commands, selectors.EVENT_WRITE, lambda: self._feed_shell(shell))

    def _feed_shell(self, shell: _Shell) -> None:
        try:
            while shell.unread:
                shell.unread = shell.unread[os.write(shell.commands, shell.unread) :]
        except BlockingIOError:
            return
        except BrokenPipeError:  # it has just ended: its end is told
            shell.unread = b""
        with contextlib.suppress(KeyError):
            self._selector.unregister(shell.commands)

    def _start_shell(self, name: str, environment: Mapping[str, str]) -> _Shell:
        if not Path(SHELL).exists():
            raise _Refused(f"a shell wants {SHELL}, found none in this image")
        commands, status, output = os.pipe(), os.pipe(), os.pipe()
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, output[1], 1),
            (os.POSIX_SPAWN_DUP2, output[1], 2),
            (os.POSIX_SPAWN_DUP2, status[1], _STATUS_FD),  # before the other, whose number it may have
            (os.POSIX_SPAWN_DUP2, commands[0], _COMMANDS_FD),
        ]
        try:
            argv = [SHELL, "--norc", "--noprofile", f"/dev/fd/{_COMMANDS_FD}"]
            pid = self._start(argv, self.place(HOME), environment, actions)
        except BaseException:
            self._close(commands[1], status[0], output[0])
            raise
        finally:
            self._close(commands[0], status[1], output[1])
        shell = _Shell(pid, commands[1], status[0], output[0])
        for descriptor in (commands[1], status[0], output[0]):
            os.set_blocking(descriptor, False)
        self._watch(shell.output, lambda: self._hear_shell(shell))
        self._watch(shell.status, lambda: self._hear_status(shell))
        self._shells[name] = shell
        self._command_shell(shell, _PROLOGUE.encode())
        return shell

    def _hear_shell(self, shell: _Shell) -> bool:
        piece = self._take(shell.output)
        if not piece:
            if piece == b"":
                with contextlib.suppress(KeyError):
                    self._selector.unregister(shell.output)
            return False
        if shell.n is None:
            shell.backlog = (shell.backlog + piece)[-BACKLOG_BYTES:]
        else:
            shell.dropped += self._hand_on(shell.n, shell.stream, piece)
        return True

    def _hear_status(self, shell: _Shell) -> None:
        piece = self._take(shell.status)
        if not piece:
            if piece == b"":
                self._selector.unregister(shell.status)
            return
        line, found, rest = (shell.told + piece).partition(b"\n")
        shell.told = (rest if found else line)[:STATUS_BYTES]  # who runs beside it may write here too
        if found:
            self._end_command(shell, int(line[:STATUS_BYTES]) if line.isdigit() else 1, has_ended=False)

    def _end_command(self, shell: _Shell, code: int, *, has_ended: bool) -> None:
        if shell.n is None:
            return
        left = shell.stream.left + PIECE_BYTES
        while left > 0 and self._hear_shell(shell):
            left -= PIECE_BYTES
        n, shell.n = shell.n, None
        self._tell(n, "done", code=code, dropped=shell.dropped, has_ended=has_ended)

    def _end_shell(self, name: str, code: int) -> None:
        shell = self._shells.pop(name)
        self._end_command(shell, code, has_ended=True)
        self._close(shell.commands, shell.status, shell.output)

    # the screen

    def _ask_screen(self, head: dict[str, Any], keys: bytes) -> None:
        """Start a command on the screen, if there is one to start, press keys, and tell what was drawn since."""
        if head["command"]:
            if self._screen and self._screen.code is None:
                raise _Refused("a program is on the screen: end it first")
            self._end_screen()
            try:
                self._screen = self._start_screen(head["command"], head["environment"])
            except OSError as error:
                self._tell(head["n"], "done", f"{error.strerror}\r\n".encode(), code=_NOT_STARTED, has_ended=True)
                return
        if not (screen := self._screen):
            raise _Refused("no program is on the screen")
        if keys and screen.code is None:
            with contextlib.suppress(OSError):  # nobody reads them, and no more have room
                os.write(screen.terminal, keys)
        self._hear_screen(screen)
        drawn, screen.drawn = screen.drawn, b""
        if screen.code is None:
            self._watch_screen(screen)
        else:
            self._end_screen()
        self._tell(head["n"], "done", drawn, code=screen.code or 0, has_ended=screen.code is not None)

    def _start_screen(self, command: str, environment: Mapping[str, str]) -> _Screen:
        """Where the main shell is now, if there is one."""
        shell = self._shells.get(MAIN_SHELL)
        ours, its = os.openpty()
        try:
            fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", SCREEN_LINES, SCREEN_COLUMNS, 0, 0))
            pid = self._start(
                [SHELL, "--norc", "--noprofile", "-c", command],
                Path(f"/proc/{shell.pid}/cwd") if shell else self.place(HOME),
                {"TERM": "linux", **environment},
                [
                    (os.POSIX_SPAWN_OPEN, 0, os.ttyname(its), os.O_RDWR, 0),  # whoever leads a session has it then
                    (os.POSIX_SPAWN_DUP2, 0, 1),
                    (os.POSIX_SPAWN_DUP2, 0, 2),
                ],
            )
        except BaseException:
            self._close(ours)
            raise
        finally:
            os.close(its)
        os.set_blocking(ours, False)
        return _Screen(pid, ours)

    def _watch_screen(self, screen: _Screen) -> None:
        if screen.terminal not in self._selector.get_map():
            self._watch(screen.terminal, lambda: self._hear_screen(screen))

    def _hear_screen(self, screen: _Screen) -> None:
        while len(screen.drawn) < SCREEN_BYTES:
            try:
                piece = os.read(screen.terminal, SCREEN_BYTES - len(screen.drawn))
            except BlockingIOError:
                return
            except OSError:  # nobody has the other end
                piece = b""
            if not piece:
                break
            screen.drawn += piece
        with contextlib.suppress(KeyError):
            self._selector.unregister(screen.terminal)

    def _end_screen(self) -> None:
        if self._screen:
            self._close(self._screen.terminal)
            self._screen = None

    def _kill(self, head: dict[str, Any], _: bytes) -> None:
        """End what a command started, as far as it stayed in its session; a shell itself only when `whole`."""
        shells = [shell for shell in self._shells.values() if shell.n == head["target"]]
        for shell in shells:
            self._kill_session(shell.pid, spared=None if head["whole"] else shell.pid)
        for pid, running in self._programs.items():
            if running.n == head["target"]:
                self._kill_session(pid, spared=None)

    def _kill_session(self, session: int, *, spared: int | None) -> None:
        for pid in self.others():
            if pid == spared:
                continue
            with contextlib.suppress(OSError, IndexError):
                text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
                if int(text.rpartition(")")[2].split()[3]) == session:
                    os.kill(pid, signal.SIGKILL)

    # files

    def _open(self, path: str, flags: int, mode: int = 0) -> int:
        """A regular file of the sandbox's own disk or its system, never a device, a pipe or the kernel's."""
        descriptor = os.open(self.place(path), flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, mode)
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            os.close(descriptor)
            raise _Refused(f"{path}: wanted a file, found a {_KINDS.get(stat.S_IFMT(found.st_mode), 'device')}")
        if kernel.is_of_proc(descriptor):
            os.close(descriptor)
            raise _Refused(f"{path}: wanted a file of a disk, found one of the kernel's")
        return descriptor

    def _read(self, head: dict[str, Any], _: bytes) -> None:
        descriptor = self._open(head["path"], os.O_RDONLY)
        try:
            size = os.fstat(descriptor).st_size
            most_bytes = min(head["bytes"], max(size - head["offset"], 0))
            self._tell(head["n"], "done", os.pread(descriptor, most_bytes, head["offset"]), size=size)
        finally:
            os.close(descriptor)

    def _write(self, head: dict[str, Any], content: bytes) -> None:
        if head["makes_parents"]:
            self.place(head["path"]).parent.mkdir(parents=True, exist_ok=True)
        descriptor = self._open(head["path"], os.O_WRONLY | os.O_CREAT, head["mode"])
        try:
            os.ftruncate(descriptor, 0)
            view = memoryview(content)
            while view:
                view = view[os.write(descriptor, view) :]
            os.fchmod(descriptor, head["mode"])
        finally:
            os.close(descriptor)
        self._tell(head["n"], "done")

    def _read_tree(self, head: dict[str, Any], _: bytes) -> None:
        """Everything beneath a directory, no link followed: a line of JSON, then the contents one behind the other."""
        listed: list[str] = []
        contents: list[bytes] = []
        left, dropped = head["bytes"], 0
        top = self.place(head["path"])
        if not top.is_dir():
            raise _Refused(f"{head['path']}: wanted a directory, found none")
        if not os.access(top, os.R_OK | os.X_OK, effective_ids=True):  # who was in here locked it
            self._tell(head["n"], "done", b"[]\n", dropped=1)
            return
        for root, directories, files, descriptor in os.fwalk(top):
            directories.sort()
            place = "" if root == str(top) else f"{Path(root).relative_to(top)}/"
            if not place:
                directories[:] = [name for name in directories if name not in head["without"]]
                files = [name for name in files if name not in head["without"]]
            for name in sorted([*directories, *files]):
                try:
                    entry, content = _read_entry(f"{place}{name}", name, descriptor, most_bytes=left)
                except FileNotFoundError:  # it went away since it was listed
                    continue
                except OSError:  # it may not be looked at
                    dropped += 1
                    continue
                told = json.dumps(entry)
                left -= len(content) + len(told) + len(_BETWEEN)
                if left < 0:
                    dropped += 1
                    directories.clear()
                    continue
                listed.append(told)
                contents.append(content)
        lines = f"[{_BETWEEN.join(listed)}]\n".encode()
        self._tell(head["n"], "done", b"".join([lines, *contents]), dropped=dropped)

    def _read_processes(self, head: dict[str, Any], _: bytes) -> None:
        """The command lines of what runs here, but ours, as many as there is room for: JSON."""
        told: list[str] = []
        left = head["bytes"] - len("[]")
        for pid in self.others():
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes()[:_COMMAND_LINE_BYTES].split(b"\0")
                line = json.dumps([word.decode(errors="replace") for word in words if word])
                left -= len(line) + len(_BETWEEN)
                if left >= 0 and any(words):
                    told.append(line)
        self._tell(head["n"], "done", f"[{_BETWEEN.join(told)}]".encode())

    def _pause(self, head: dict[str, Any], _: bytes) -> None:
        """Stop everything but us, or let it go on: for a snapshot in which nothing moves."""
        self.signal_others(signal.SIGSTOP if head["stops"] else signal.SIGCONT)
        self._tell(head["n"], "done")

    def _read_use(self, head: dict[str, Any], _: bytes) -> None:
        """What is taken of the disks of its own that it was given."""
        found = [os.statvfs(place) for place in OWN_DIRECTORIES]
        disk_bytes = sum((one.f_blocks - one.f_bfree) * one.f_frsize for one in found)
        self._tell(head["n"], "done", disk_bytes=disk_bytes, files=sum(one.f_files - one.f_ffree for one in found))

    def _save(self, head: dict[str, Any], _: bytes) -> None:
        """All that lies in them, packed, piece by piece."""
        for piece in pack_trees(OWN_DIRECTORIES):
            self._tell(head["n"], "output", piece)
        self._tell(head["n"], "done")

    def _load(self, head: dict[str, Any], piece: bytes) -> None:
        """Lay out what another one packed."""
        self._unpacking.feed(piece)
        self._tell(head["n"], "done")


def _say(error: Exception) -> str:
    if isinstance(error, OSError):
        name = f"{error.filename}: " if error.filename else ""
        return f"{name}{error.strerror or error}"
    return str(error) if isinstance(error, _Refused) else f"it cannot be done: {type(error).__name__}: {error}"


def _read_entry(
    path: str, name: str, descriptor: int, *, most_bytes: int
) -> tuple[tuple[str, str, int, int, str, bool], bytes]:
    """(path, kind, mode, size, target of a link, whether its content follows), and its content."""
    found = os.lstat(name, dir_fd=descriptor)
    kind, mode = stat.S_IFMT(found.st_mode), stat.S_IMODE(found.st_mode)
    if kind == stat.S_IFLNK:
        return (path, "link", 0, 0, os.readlink(name, dir_fd=descriptor), False), b""
    if kind != stat.S_IFREG:
        return (path, "directory" if kind == stat.S_IFDIR else "other", mode, 0, "", False), b""
    if found.st_size <= most_bytes:
        with contextlib.suppress(OSError):  # nobody may read it, or it is no file any more
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            opened = os.open(name, flags, dir_fd=descriptor)
            try:
                content = os.pread(opened, max(found.st_size, 1), 0)
            finally:
                os.close(opened)
            return (path, "file", mode, len(content), "", True), content
    return (path, "file", mode, found.st_size, "", False), b""


_BETWEEN: Final = ", "
_COMMAND_LINE_BYTES: Final = 4_096
_KINDS: Final = {
    stat.S_IFDIR: "directory",
    stat.S_IFIFO: "named pipe",
    stat.S_IFSOCK: "socket",
}
