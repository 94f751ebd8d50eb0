"""Asking a sandbox host: what worlds and commands use."""

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Final

from tentalis.sandbox.errors import (
    BY_CODE,
    SandboxError,
    SandboxLostError,
    SandboxRefusedError,
    SandboxUnavailableError,
)
from tentalis.sandbox.frames import (
    DEFAULT_TIMEOUT_S,
    HOME,
    MAIN_SHELL,
    SOCKET,
    STAGED,
    FrameError,
    pack,
    receive_frames,
)

START_WITHIN_S: Final = 30.0
STOP_WITHIN_S: Final = 30.0
RETRY_S: Final = 0.1
HOST_ENVIRONMENT: Final = ("PATH", "LANG", "LC_ALL", "TZ")
"""All that a host is told of its starter's environment."""
OnOutput = Callable[[str, bytes], None]


@dataclass(frozen=True)
class Result:
    """What came of a command.

    Args:
        code: as shells count: 128 and the signal where one ended it.
        out, err: as far as the limit of output goes; a shell has all in `out`.
        dropped: bytes beyond it.
        timed_out: it was killed from outside for its time was over.
        has_ended: of a shell: it is gone with its variables, and the next command gets a new one.
    """

    code: int
    out: bytes
    err: bytes
    dropped: int
    timed_out: bool
    has_ended: bool


@dataclass(frozen=True)
class Drawn:
    """What a program on the screen wrote to its terminal since it was asked last, of 24 lines of 80 columns (`linux`).

    Args:
        data: 16 KiB at most; a program that draws more waits until it is asked again.
        code: where it has ended, as shells count.
    """

    data: bytes
    code: int
    has_ended: bool


@dataclass(frozen=True)
class TreeEntry:
    """What lies at a path of a sandbox.

    Args:
        kind: file, directory, link or other.
        mode: permissions; of a link 0.
        target: of a link.
        content: of a file; None where it is too long, or nobody may read it.
    """

    path: str
    kind: str
    mode: int
    size_bytes: int
    target: str
    content: bytes | None


class SandboxClient:
    """Asks the host of a directory. Threads may share it: each question has a connection to itself while it lasts."""

    def __init__(self, directory: Path, *, timeout_s: float | None = None, patience_s: float = 0.0) -> None:
        """Args:
            timeout_s: in which each answer's next piece must come; None: a host may take its time, for commands do.
            patience_s: how long a host is waited for that is not there, as one that is started again.
        Raises:
            SandboxLostError: no host answers there.
        """
        self._directory = directory
        self._timeout_s, self._patience_s = timeout_s, patience_s
        self._free: deque[socket.socket] = deque()
        self._free.append(self._connect())

    def _connect(self) -> socket.socket:
        until = time.monotonic() + self._patience_s
        while True:
            try:
                return self._connect_once()
            except SandboxLostError:
                if time.monotonic() > until:
                    raise
                time.sleep(RETRY_S)

    def _connect_once(self) -> socket.socket:
        try:
            place = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise SandboxLostError(f"no sandbox host answers in {self._directory}: {error.strerror}") from None
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(self._timeout_s)
        try:
            connection.connect(f"/proc/self/fd/{place}/{SOCKET}")  # a whole path may be too long for a socket
        except OSError as error:
            connection.close()
            raise SandboxLostError(f"no sandbox host answers in {self._directory}: {error.strerror}") from None
        finally:
            os.close(place)
        return connection

    def close(self) -> None:
        """Close what is not in use. It may be asked again."""
        with contextlib.suppress(IndexError):
            while True:
                self._free.pop().close()

    def _take(self) -> socket.socket | None:
        """A connection that nobody uses, and whose host is there; None: there is none."""
        while self._free:
            try:
                connection = self._free.pop()
            except IndexError:
                break
            heard = select.poll()
            heard.register(connection, select.POLLIN)
            if not heard.poll(0):
                return connection
            connection.close()  # nothing is to be read but its end
        return None

    def describe(self) -> dict[str, Any]:
        """The backend, what holds sandboxes in here, how many there are, and what a host before left."""
        return self._ask({"do": "describe"})[0]

    @contextlib.contextmanager
    def stage(self) -> Iterator[Path]:
        """An empty directory to lay an image out in, gone at the end.

        It lies in the host's own, which the host sees under the same path even where it sees nothing else of ours.

        Raises:
            SandboxLostError: the host's directory is gone.
        """
        place = self._directory / STAGED
        try:
            place.mkdir(mode=0o700, exist_ok=True)
            made = tempfile.TemporaryDirectory(dir=place, ignore_cleanup_errors=True)
        except OSError as error:
            raise SandboxLostError(f"no image can be laid out in {place}: {error.strerror}") from None
        with made as name:
            root = Path(name)
            root.chmod(0o755)
            try:
                yield root
            except OSError:
                if root.exists():
                    raise
                raise SandboxLostError(f"{root} is gone: the host was started again") from None

    def add_image(self, directory: Path) -> str:
        """Copy a directory in as an image, once for each content: its files are laid over the root of what starts from
        it. Where the host sees another part of the machine than we do, `stage` one."""
        return str(self._ask({"do": "add_image", "directory": str(directory.resolve())})[0]["image"])

    def drop_image(self, image: str) -> None:
        """Forget an image or a snapshot. Sandboxes that stand on it go on."""
        self._ask({"do": "drop_image", "image": image})

    def create(
        self,
        image: str,
        *,
        sandbox: str = "",
        limits: Mapping[str, Any] | None = None,
        allow: Sequence[str] = (),
        opens_shell: bool = False,
    ) -> str:
        """A sandbox of an image or a snapshot, under a name: the one there is, if it was made of the same.

        Args:
            limits: fields of `tentalis.sandbox.limits.Limits`; those left out are as there.
            allow: host:port that it is let out to, by an HTTP proxy that its programs find in `https_proxy`.
            opens_shell: start the shell of `ask_shell` at once, so that its first command does not wait for it.
        """
        name = sandbox or uuid.uuid4().hex
        told = {**(limits or {}), **({"allow": list(allow)} if allow else {})}
        head = {"do": "create", "sandbox": name, "image": image, "limits": told}
        self._ask({**head, "opens_shell": opens_shell})
        return name

    def run(
        self,
        sandbox: str,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        cwd: str = HOME,
        environment: Mapping[str, str] | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        key: str = "",
        on_output: OnOutput | None = None,
    ) -> Result:
        """Run a program to its end.

        Args:
            key: asked again under it, the program is not run again, and its answer is the same.
            on_output: told each piece as it comes: out or err, and the bytes.
        """
        head = {"do": "exec", "argv": list(argv), "cwd": cwd}
        return self._command({**head, **_common(sandbox, environment, timeout_s, key)}, stdin, on_output)

    def ask_shell(
        self,
        sandbox: str,
        command: str,
        *,
        shell: str = MAIN_SHELL,
        environment: Mapping[str, str] | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        key: str = "",
        on_output: OnOutput | None = None,
    ) -> Result:
        """A command in a shell that lasts: its directory, variables and background jobs are there for the next one.

        Args:
            environment: of the shell when this command starts it.
        """
        head = {"do": "shell", "shell": shell, **_common(sandbox, environment, timeout_s, key)}
        return self._command(head, command.encode(errors="surrogateescape"), on_output)

    def ask_screen(
        self, sandbox: str, command: str = "", *, keys: bytes = b"", environment: Mapping[str, str] | None = None
    ) -> Drawn:
        """Start a command with a terminal of its own, where the main shell is now, or press keys for the one that is
        there. It answers at once: ask again, with nothing, for what is drawn later.

        Args:
            environment: of the command, beside what every sandbox's has.
        Raises:
            SandboxRefusedError: a program is there already, or there is none.
        """
        head = {"do": "screen", "sandbox": sandbox, "command": command, "environment": dict(environment or {})}
        told, data = self._ask(head, keys)
        return Drawn(data, told["code"], told["has_ended"])

    def read(self, sandbox: str, path: str, *, offset: int = 0, most_bytes: int | None = None) -> bytes:
        """A file, or a piece of it."""
        head: dict[str, Any] = {"do": "read", "sandbox": sandbox, "path": path, "offset": offset}
        return self._ask(head if most_bytes is None else {**head, "bytes": most_bytes})[1]

    def read_tree(
        self, sandbox: str, path: str, *, without: Sequence[str] = (), most_bytes: int | None = None
    ) -> tuple[list[TreeEntry], int]:
        """Everything beneath a directory in the order of its directories, and how many entries were left out because
        names and contents are longer than `most_bytes`. Nothing of the sandbox's own takes part but its agent.

        Args:
            without: names in the directory itself that are not looked at.
        Raises:
            SandboxLostError: what came is no tree: the sandbox was tampered with.
        """
        head: dict[str, Any] = {"do": "read_tree", "sandbox": sandbox, "path": path, "without": list(without)}
        told, data = self._ask(head if most_bytes is None else {**head, "bytes": most_bytes})
        lines, _, contents = data.partition(b"\n")
        entries, place = [], 0
        try:
            for name, kind, mode, size, target, has_content in json.loads(lines):
                content = contents[place : place + size] if has_content else None
                place += size if has_content else 0
                entries.append(TreeEntry(str(name), str(kind), int(mode), int(size), str(target), content))
        except (ValueError, TypeError, RecursionError):
            raise SandboxLostError(f"sandbox {sandbox}: it does not tell its files as it should") from None
        return entries, int(told["dropped"])

    def read_processes(self, sandbox: str) -> list[list[str]]:
        """The command line of each process in it, but its agent's."""
        _, data = self._ask({"do": "read_processes", "sandbox": sandbox})
        try:
            return [[str(word) for word in words] for words in json.loads(data)]
        except (ValueError, TypeError, RecursionError):
            raise SandboxLostError(f"sandbox {sandbox}: it does not tell its processes as it should") from None

    def write(self, sandbox: str, path: str, content: bytes, *, mode: int = 0o644, makes_parents: bool = False) -> None:
        """A whole file, in the place of what was there."""
        head = {"do": "write", "sandbox": sandbox, "path": path, "mode": mode, "makes_parents": makes_parents}
        self._ask(head, content)

    def snapshot(self, sandbox: str, *, image: str = "") -> str:
        """Its files as they are now, to start others from; processes are not kept. Under the name of one that is there
        nothing is taken again."""
        return str(self._ask({"do": "snapshot", "sandbox": sandbox, "image": image or uuid.uuid4().hex})[0]["image"])

    def fork(self, sandbox: str, *, to: str = "") -> str:
        """Another sandbox with its files as they are now."""
        name = to or uuid.uuid4().hex
        self._ask({"do": "fork", "sandbox": sandbox, "to": name})
        return name

    def stats(self, sandbox: str) -> dict[str, Any]:
        """Commands, age_s, disk_bytes and files; where cgroups count also processes, memory_bytes, memory_peak_bytes
        and memory_kills."""
        return self._ask({"do": "stats", "sandbox": sandbox})[0]

    def destroy(self, sandbox: str) -> None:
        """End it with everything in it; when this returns it is gone. None of that name is fine."""
        self._ask({"do": "destroy", "sandbox": sandbox})

    def _command(self, head: dict[str, Any], payload: bytes, on_output: OnOutput | None) -> Result:
        heard = {"out": bytearray(), "err": bytearray()}

        def hear(stream: str, data: bytes) -> None:
            heard[stream] += data
            if on_output:
                on_output(stream, data)

        done, _ = self._ask(head, payload, hear)
        return Result(out=bytes(heard["out"]), err=bytes(heard["err"]), **done)

    def _ask(
        self, head: dict[str, Any], payload: bytes = b"", hear: OnOutput | None = None
    ) -> tuple[dict[str, Any], bytes]:
        try:
            asked = pack(head, payload)
        except FrameError as error:
            raise SandboxRefusedError(str(error)) from None
        connection = self._take() or self._connect()
        told: dict[str, Any] = {}
        data, event = b"", ""
        try:
            connection.sendall(asked)
            for told, data in receive_frames(connection):
                event = told.pop("event")
                if event != "output" or not hear:
                    break
                event = ""
                hear(told["stream"], data)
        except (OSError, FrameError) as error:
            event = ""
            raise SandboxLostError(f"the sandbox host is gone: {error}") from None
        finally:
            if event:
                self._free.append(connection)
            else:  # it broke, and so did those that lead to the same host; or the rest of an answer is still to come
                connection.close()
                self.close()
        if not event:
            raise SandboxLostError("the sandbox host is gone")
        if event == "error":
            raise BY_CODE.get(told["code"], SandboxError)(told["words"])
        return told, data


def _common(sandbox: str, environment: Mapping[str, str] | None, timeout_s: float, key: str) -> dict[str, Any]:
    return {"sandbox": sandbox, "environment": dict(environment or {}), "timeout_s": timeout_s, "key": key}


def list_options(*, backend: str, engine: Path | None, is_code_trusted: bool) -> list[str]:
    """Of a host's command line."""
    found = ["--backend", backend]
    if engine is not None:
        found += ["--engine", str(engine)]
    return [*found, "--trusted-code"] if is_code_trusted else found


@contextlib.contextmanager
def start_host(
    directory: Path, *, warm: int | None = None, options: Sequence[str] = ()
) -> Iterator["subprocess.Popen[bytes]"]:
    """A host of our own for as long as we want it: a process with an environment of a few names, which ends with us.

    Linux ends it with the thread that started it: start it from one that lasts.

    Args:
        options: more of `python -m tentalis.sandbox`: which backend, and where its daemon is.
    Raises:
        SandboxUnavailableError: it cannot confine anything here, and why.
    """
    argv = [sys.executable, "-I", "-m", "tentalis.sandbox", "--directory", str(directory), "--parent", str(os.getpid())]
    if warm is not None:
        argv += ["--warm", str(warm)]
    argv += options
    environment = {name: os.environ[name] for name in HOST_ENVIRONMENT if name in os.environ}
    process = subprocess.Popen(
        argv, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    try:
        assert process.stdout
        assert process.stderr
        is_told = wait([process.stdout.fileno()], START_WITHIN_S)
        if not is_told or process.stdout.readline() != b"ready\n":
            process.kill()
            words = process.stderr.read().decode(errors="replace").strip().splitlines()
            raise SandboxUnavailableError(words[-1] if words else "the sandbox host did not start")
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
