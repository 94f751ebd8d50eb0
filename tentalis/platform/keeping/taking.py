"""Taking a backup while everything runs.

The spool's files are linked before the database's snapshot and read after it: what the gateway's writer stores and
deletes meanwhile is in the one or the other. Artifacts are read after it: a row is written after its files. The ring of
keys is read before it and after it, for they may be renewed meanwhile: what sealed the secrets in it is in the one or
the other.
"""

import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.rows import TupleRow
from pyrage import x25519

from tentalis.platform.errors import BackupError
from tentalis.platform.keeping import postgres_tools
from tentalis.platform.keeping.place import Keys, Place
from tentalis.platform.keeping.repository import DATABASE, KEYS, KeptFile, Manifest, Mark, Repository
from tentalis.platform.keeping.sealing import Content, check, seal
from tentalis.platform.processes import is_same_process, process_identity

Say = Callable[[str], None]
Connection = psycopg.Connection[TupleRow]
SPARE_BYTES = 64 * 2**20
LINKS = ".backup-"
HALF_MADE = (".staging-", ".writable-")


def take_backup(place: Place, repository: Repository, keys: Keys, *, say: Say = lambda words: None) -> Manifest:
    """Write a backup, read all of it back, and give it its name.

    Raises:
        BackupError: something cannot be read or written, or was not written as it was read; no backup came of it.
    """
    now = datetime.now(UTC)
    backup_id = f"{now:%Y%m%dT%H%M%S%f}Z-{secrets.token_hex(2)}"
    before = _read_last(repository, say)
    ring = place.read_key_ring()
    with repository.holding(), repository.staging(backup_id) as staging, place.database() as address:
        _require_room(place, repository, before, address)
        with linked_spool(place.spool) as links, postgres_tools.connect(address) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            mark = read_mark(connection)  # which takes the snapshot
            ring = _join_rings(place.read_key_ring(), ring)
            counts = count_rows(connection)
            (snapshot,) = _one(connection, "SELECT pg_export_snapshot()")
            server = postgres_tools.find_server_major(connection)
            say(f"database: {sum(counts.values()):,} rows of {len(counts)} tables, up to audit entry {mark.entry_id}")
            with postgres_tools.dumping(address, server_major=server, snapshot=str(snapshot)) as dump:
                database = seal(dump, staging / DATABASE, keys.data)
            connection.rollback()
            with postgres_tools.listing(server_major=server) as pipe:
                check(staging / DATABASE, keys.data, database, pipe)
            link_segments(place.spool, links)
            spool, _ = _keep_files(links, repository, keys.data, {})
        known = {file.path: file for file in before.artifacts} if before else {}
        artifacts, notes = _keep_files(place.artifacts, repository, keys.data, known)
        say(f"files: {len(artifacts):,} artifacts, {len(spool)} of the gateway's spool")
        names, sealed = _seal_secrets(place, ring, staging / KEYS, keys.secrets)
        manifest = Manifest(
            id=backup_id,
            made_at=now.isoformat(timespec="seconds"),
            postgres=server,
            mark=mark,
            counts=counts,
            database=database,
            keys=sealed,
            artifacts=artifacts,
            spool=spool,
            artifacts_root=str(place.artifacts),
            secret_names=names,
            notes=notes,
        )
        _publish(repository, staging, manifest)
    return manifest


def _read_last(repository: Repository, say: Say) -> Manifest | None:
    """The newest backup, whose files need not be read again; None where there is none that can be read."""
    try:
        return repository.read() if repository.ids() else None
    except BackupError as error:
        say(f"{error}: nothing is taken from it")
        return None


def read_mark(connection: Connection) -> Mark:
    """The moment a snapshot shows."""
    try:
        at, lsn, entry_id = _one(
            connection,
            "SELECT now(), pg_current_wal_lsn(), (SELECT coalesce(max(id), 0) FROM audit_auditentry)",
        )
    except psycopg.errors.UndefinedTable:
        raise BackupError("the database holds no installation: it has no audit") from None
    found = connection.execute("SELECT seq, hash FROM audit_auditseal ORDER BY seq DESC LIMIT 1").fetchone()
    places, head = found or (0, "")
    return Mark(at.astimezone(UTC).isoformat(), str(lsn), entry_id, places, head)


def count_rows(connection: Connection) -> dict[str, int]:
    """Rows of every table of ours."""
    tables = connection.execute(
        "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables "
        "WHERE schemaname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1"
    ).fetchall()
    return {
        name: _one(connection, sql.SQL("SELECT count(*) FROM ") + sql.SQL(name))[0]  # quoted by format()
        for (name,) in tables
    }


def _one(connection: Connection, statement: "str | sql.Composed") -> TupleRow:
    row = connection.execute(statement).fetchone()
    assert row is not None
    return row


def _require_room(place: Place, repository: Repository, before: Manifest | None, address: str) -> None:
    """Raises BackupError where the disk cannot take it, before anything is written."""
    with postgres_tools.connect(address) as connection:
        (size,) = _one(connection, "SELECT pg_database_size(current_database())")
    dump = 2 * before.database.size_bytes if before else int(size)
    known = {(file.path, file.mtime_ns) for file in before.artifacts} if before else set()
    new = sum(
        status.st_size
        for path, status in _walk(place.artifacts)
        if (path.relative_to(place.artifacts).as_posix(), status.st_mtime_ns) not in known
    )
    wanted, free = dump + new + SPARE_BYTES, shutil.disk_usage(repository.root).free
    if free < wanted:
        raise BackupError(
            f"{repository.root} has {free / 2**20:,.0f} MiB free, a backup may need {wanted / 2**20:,.0f} MiB"
        )


def _walk(root: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Plain files that are no half-made ones, in order; links are not followed."""
    for directory, names, files in os.walk(root):
        names[:] = sorted(name for name in names if not name.startswith(HALF_MADE))
        for name in sorted(files):
            path = Path(directory, name)
            try:
                status = path.lstat()
            except FileNotFoundError:
                continue
            if not name.startswith(HALF_MADE) and path.is_file() and not path.is_symlink():
                yield path, status


def _keep_files(
    root: Path, repository: Repository, key: x25519.Identity, known: dict[str, KeptFile]
) -> tuple[tuple[KeptFile, ...], tuple[str, ...]]:
    """Keep every file below a root; and a note of each that went away meanwhile."""
    kept, notes = [], []
    for path, status in _walk(root):
        name = path.relative_to(root).as_posix()
        last = known.get(name)
        is_same = last is not None and (last.mtime_ns, last.content.size_bytes) == (status.st_mtime_ns, status.st_size)
        if last is not None and is_same and repository.object_path(last.content, key).exists():
            kept.append(last)
            continue
        try:
            kept.append(KeptFile(name, repository.keep(path, key), status.st_mtime_ns))
        except FileNotFoundError:
            notes.append(f"{name} was deleted while the backup was made")
        except OSError as error:
            raise BackupError(f"{path} cannot be read: {error.strerror}") from None
    return tuple(kept), tuple(notes)


@contextmanager
def linked_spool(spool: Path) -> Iterator[Path]:
    """A directory of links to the spool's segments, which stay readable when the gateway deletes them; those of
    backups that were killed go."""
    links = spool / f"{LINKS}{process_identity(os.getpid())}"
    if spool.is_dir():
        for left in spool.glob(f"{LINKS}*"):
            if not is_same_process(left.name.removeprefix(LINKS)):
                shutil.rmtree(left, ignore_errors=True)
        link_segments(spool, links)
    try:
        yield links
    finally:
        shutil.rmtree(links, ignore_errors=True)


def link_segments(spool: Path, links: Path) -> None:
    """Link what is there and not linked yet."""
    for path in (*spool.glob("[!.]*/*.spool"), *(path for path in spool.glob("[!.]*") if path.is_file())):
        target = links / path.relative_to(spool)
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            if not target.exists():
                target.hardlink_to(path)
        except FileNotFoundError:
            continue  # stored and deleted a moment ago: it is in the snapshot, or newer than it
        except OSError as error:
            raise BackupError(f"{path} cannot be linked: {error.strerror}") from None


def _join_rings(newer: str, older: str) -> str:
    """A ring with the keys of both, newest first."""
    return "".join(f"{line}\n" for line in dict.fromkeys([*newer.splitlines(), *older.splitlines()]))


def _seal_secrets(place: Place, ring: str, path: Path, key: x25519.Identity) -> tuple[tuple[str, ...], Content]:
    secret = asdict(place.config.secrets) | {"secret_key": place.secret_key, "key_ring": ring}
    document = {"secrets": secret, "settings": place.config.settings}
    content = seal(BytesIO(json.dumps(document).encode()), path, key)
    check(path, key, content)
    return tuple(sorted(name for name, value in secret.items() if value)), content


def _publish(repository: Repository, staging: Path, manifest: Manifest) -> None:
    try:
        repository.publish(staging, manifest)
    except OSError as error:
        raise BackupError(f"{staging} cannot be written: {error.strerror}") from None
