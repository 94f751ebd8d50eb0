"""pg_dump and pg_restore: which to take, and how to call them so that no password stands on a command line."""

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import IO
from urllib.parse import unquote, urlsplit

import psycopg
from psycopg.rows import TupleRow

from tentalis.platform.errors import BackupError, BinaryMissingError, RestoreError
from tentalis.platform.postgres_server import MAJOR_VERSION, find_postgres_binaries

PATIENT = "-c statement_timeout=0 -c lock_timeout=60s -c idle_in_transaction_session_timeout=0"
"""A dump takes as long as it takes, but does not wait for ever behind somebody's lock."""
KEPT_WORDS = 400


def find_tool(name: str, *, server_major: int) -> Path:
    """The program of the wheel where it knows the server's version, else the one on PATH.

    Raises:
        BackupError: neither can be used with that server.
    """
    with contextlib.suppress(BinaryMissingError):
        if server_major <= int(MAJOR_VERSION):
            return find_postgres_binaries() / name
    found = shutil.which(name)
    major = _read_major(found) if found else 0
    if not found or major < server_major:
        on_path = f"the one on PATH ({found}) is of version {major}" if found else "there is none on PATH"
        raise BackupError(
            f"the server is Postgres {server_major}, which needs {name} {server_major} or newer; {on_path}: "
            f"install the client programs of Postgres {server_major}"
        )
    return Path(found)


def _read_major(program: str) -> int:
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False, timeout=20)
    found = re.search(r"(\d+)(?:\.\d+)?", done.stdout)
    return int(found.group(1)) if found else 0


def connect(address: str) -> "psycopg.Connection[TupleRow]":
    """A patient connection.

    Raises:
        BackupError: the database cannot be reached.
    """
    try:
        return psycopg.connect(address, connect_timeout=10, options=PATIENT)
    except psycopg.OperationalError as error:
        raise BackupError(f"the database cannot be reached: {str(error).strip()}") from None


def find_server_major(connection: "psycopg.Connection[TupleRow]") -> int:
    return connection.info.server_version // 10_000


def connection_environment(address: str) -> dict[str, str]:
    """What the programs read instead of arguments, which every user of the machine could see."""
    parts = urlsplit(address)
    given = {
        "PGHOST": parts.hostname or "127.0.0.1",
        "PGPORT": str(parts.port or 5432),
        "PGUSER": unquote(parts.username or ""),
        "PGPASSWORD": unquote(parts.password or ""),
        "PGDATABASE": unquote(parts.path.lstrip("/")),
        "PGOPTIONS": PATIENT,
        "PGCONNECT_TIMEOUT": "10",
    }
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TENTALIS_", "PG"))}
    return kept | {name: value for name, value in given.items() if value}


@contextlib.contextmanager
def dumping(address: str, *, server_major: int, snapshot: str) -> Iterator[IO[bytes]]:
    """The bytes of a dump in pg_dump's own format, of exactly one snapshot.

    Raises:
        BackupError: pg_dump failed; with its last words.
    """
    argv = [str(find_tool("pg_dump", server_major=server_major)), "--format=custom", f"--snapshot={snapshot}"]
    with subprocess.Popen(
        argv, env=connection_environment(address), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None  # pipes were asked for
        assert process.stderr is not None
        try:
            yield process.stdout
        except BaseException:
            process.kill()
            raise
        words = process.stderr.read().decode(errors="replace")
        if process.wait():
            raise BackupError(f"pg_dump failed with exit code {process.returncode}: {_shorten(words)}")


@contextlib.contextmanager
def restoring(address: str, *, server_major: int) -> Iterator["Pipe"]:
    """Where to write a dump to, so that its tables and rows come to be in an empty database: all of them, or nothing.

    Owners and rights are not brought back: the roles may not exist there. What is made belongs to who restores.

    Raises:
        RestoreError: pg_restore failed; with its first words.
    """
    argv = [str(find_tool("pg_restore", server_major=server_major)), "--single-transaction", "--exit-on-error"]
    argv += ["--no-owner", "--no-privileges", f"--dbname={unquote(urlsplit(address).path.lstrip('/'))}"]
    with _reading(argv, environment=connection_environment(address)) as process:
        yield Pipe(process.stdin)
        if words := _end(process):
            raise RestoreError(f"pg_restore failed: {words}")


@contextlib.contextmanager
def listing() -> Iterator["Pipe"]:
    """Where to write a dump to, so that pg_restore reads its table of contents.

    Raises:
        BackupError: it is no dump.
    """
    argv = [str(find_tool("pg_restore", server_major=0)), "--list"]
    with _reading(argv, environment={"PATH": os.environ.get("PATH", "")}) as process:
        yield Pipe(process.stdin)
        if words := _end(process):
            raise BackupError(f"pg_restore cannot read the dump: {words}")


class Pipe:
    """To a program that may have heard enough, or died: its exit code says which."""

    def __init__(self, pipe: IO[bytes] | None) -> None:
        self._pipe = pipe

    def write(self, data: bytes, /) -> int:
        if self._pipe is not None:
            try:
                self._pipe.write(data)
            except BrokenPipeError:
                self._pipe = None
        return len(data)

    def flush(self) -> None:
        if self._pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                self._pipe.flush()


@contextlib.contextmanager
def _reading(argv: list[str], *, environment: dict[str, str]) -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(
        argv, env=environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        for pipe in (process.stdin, process.stderr):
            with contextlib.suppress(BrokenPipeError):
                if pipe is not None:
                    pipe.close()
        process.wait()


def _end(process: "subprocess.Popen[bytes]") -> str:
    """Close what it reads and wait; "" for a program that ended well, else why not."""
    assert process.stdin is not None  # pipes were asked for
    assert process.stderr is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    words = process.stderr.read().decode(errors="replace")
    return f"exit code {process.wait()}: {_shorten(words)}" if process.wait() else ""


def _shorten(words: str) -> str:
    return " ".join(words.split())[:KEPT_WORDS]
