"""Bringing a backup back: into a home that holds nothing, and a database that holds nothing."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import TupleRow
from pyrage import x25519

from tentalis.env import PREFIX
from tentalis.kept_models import models_directory
from tentalis.platform.config import Config, Secrets, read_settings
from tentalis.platform.errors import RestoreError
from tentalis.platform.home import Home, write_private_file
from tentalis.platform.keeping import postgres_tools
from tentalis.platform.keeping.place import DATA_KEY, SECRETS_KEY, Place
from tentalis.platform.keeping.repository import DATABASE, KEYS, KeptFile, Manifest, Repository
from tentalis.platform.keeping.sealing import check, require_key, write_key
from tentalis.platform.keeping.taking import SPARE_BYTES, count_rows
from tentalis.platform.logs import find_last_words
from tentalis.platform.stack import PROJECT_DIRECTORY, web_environment
from tentalis.platform.up import running_stack

Say = Callable[[str], None]
KEY_RING = "key_ring"
ELSEWHERE = (
    "database_url",
    "migration_database_url",
    "admin_database_url",
    "redis_url",
    "home",
    "artifacts",
    "key_ring",
    "secret_key",
    "backup_dir",
)
"""Settings of the old place that say nothing about the new one, or come back otherwise."""
CHECK_TIMEOUT_S = 3600


@dataclass(frozen=True)
class Restored:
    """What came back.

    Attributes:
        faults: sentences; [] where everything is as it was.
        checked: what the installation says of itself, see `manage.py check_restored`.
        has_secrets: what is sealed in the database can be opened.
    """

    manifest: Manifest
    faults: tuple[str, ...]
    checked: Mapping[str, Any]
    has_secrets: bool


def restore_backup(
    home: Home,
    environ: Mapping[str, str],
    repository: Repository,
    *,
    data_key: x25519.Identity,
    secrets_key: x25519.Identity | None,
    backup_id: str = "",
    say: Say = lambda words: None,
) -> Restored:
    """Bring a backup back, prove it, and leave everything stopped.

    Args:
        home: must be empty but for kept models, or not be there. Its database is the embedded one, or the empty one
            that the environment names, of the same major version of Postgres or a newer one.
        secrets_key: None: new keys are made, so that what is sealed inside the database (API keys, secrets of
            webhooks) stays shut and everybody signs in anew.
    Raises:
        RestoreError, BackupError: it cannot be brought back; what had been written is gone again.
    """
    manifest = repository.read(backup_id)
    _require_empty(home)
    _require_room(home, manifest)
    require_key(repository.directory_of(manifest.id) / DATABASE, data_key)
    secret = _open_secrets(repository, manifest, secrets_key)
    ring = _find_ring(secret, environ, say) if secret is not None else []
    with _coming_back(home):
        config = _write_config(home, secret, ring)
        place = Place(home, config, read_settings(home, config, environ), environ)
        for name, files, root in (
            ("artifacts", manifest.artifacts, place.artifacts),
            ("spool", manifest.spool, place.spool),
        ):
            _write_files(files, root, repository, data_key)
            say(f"{name}: {len(files)} files, each with its digest")
        with _fresh_database(place) as address:
            _restore_database(address, repository, manifest, data_key)
            say(f"database: {sum(manifest.counts.values()):,} rows of {len(manifest.counts)} tables")
            if manifest.artifacts_root != str(place.artifacts):
                moved = move_addresses(address, manifest.artifacts_root, place.artifacts)
                say(f"artifacts lie elsewhere now: {moved} rows say so")
            checked = _prove(place, address, manifest)
        for key, name in ((data_key, DATA_KEY), (secrets_key, SECRETS_KEY)):
            if key is not None:  # the next backups are sealed for whom the last ones were
                write_key(home.root / name, key)
    faults = tuple(str(fault) for fault in checked["faults"])
    if secret is not None and checked["shut"]:
        say(f"secrets that keys {', '.join(checked['shut'])} sealed stay shut: the backup had no such keys either")
    return Restored(manifest, faults, checked, has_secrets=secret is not None and not checked["shut"])


def _list_contents(home: Home) -> list[Path]:
    """What lies in a home, but for kept models: no backup holds those, and they may be there before one comes back."""
    return sorted(path for path in home.root.iterdir() if path != models_directory(home.root))


def _require_empty(home: Home) -> None:
    try:
        found = [path.name for path in _list_contents(home)]
    except FileNotFoundError:
        return
    except OSError as error:
        raise RestoreError(f"{home.root} cannot be read: {error.strerror}") from None
    if found:
        raise RestoreError(
            f"{home.root} must be empty, found {', '.join(found[:5])}: move it away, or name another TENTALIS_HOME"
        )


def _require_room(home: Home, manifest: Manifest) -> None:
    """Raises RestoreError where the disk cannot take it. A dump is several times smaller than its database."""
    parent = next(path for path in (home.root, *home.root.parents) if path.exists())
    files = sum(file.content.size_bytes for file in (*manifest.artifacts, *manifest.spool))
    wanted, free = files + 5 * manifest.database.size_bytes + SPARE_BYTES, shutil.disk_usage(parent).free
    if free < wanted:
        raise RestoreError(f"{parent} has {free / 2**20:,.0f} MiB free, the backup may need {wanted / 2**20:,.0f} MiB")


def _open_secrets(repository: Repository, manifest: Manifest, key: x25519.Identity | None) -> dict[str, Any] | None:
    if key is None:
        return None
    path, text = repository.directory_of(manifest.id) / KEYS, BytesIO()
    require_key(path, key)
    check(path, key, manifest.keys, text)
    return dict(json.loads(text.getvalue()))


def _find_ring(secret: Mapping[str, Any], environ: Mapping[str, str], say: Say) -> list[str]:
    """The keys that a ring must hold to open what the backup's keys sealed, newest first.

    Raises:
        RestoreError: the environment names a ring, and one of them is not in it.
    """
    old = str(secret["secrets"]["secret_key"])
    given = environ.get(f"{PREFIX}SECRET_KEY") or old
    wanted = _read_keys(secret["secrets"]["key_ring"])
    if given != old:
        say(
            f"{PREFIX}SECRET_KEY is not the backup's, which joins the ring: what it sealed opens, but API tokens, "
            "sessions and recovery codes are void; afterwards `tentalis manage rotate_keys --new-key` seals anew"
        )
        wanted.append(old)
    if path := environ.get(f"{PREFIX}KEY_RING"):
        try:
            held = {given, *_read_keys(Path(path).read_text(encoding="utf-8"))}
        except OSError as error:
            raise RestoreError(f"{PREFIX}KEY_RING: {path} cannot be read: {error.strerror}") from None
        if missing := [key for key in wanted if key not in held]:
            raise RestoreError(
                f"{PREFIX}KEY_RING: {path} lacks {len(missing)} of the {len(wanted)} keys that may have sealed the "
                "backup's secrets: unset it, so that the backup's own ring comes back, or write them into it"
            )
    return wanted


def _read_keys(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]


@contextmanager
def _coming_back(home: Home) -> Iterator[None]:
    """Hold the home, marked as not yet whole; empty again when it does not become so."""
    existed = home.root.exists()
    home.prepare()
    marker = home.restoring_file
    try:
        marker.touch()
        yield
        marker.unlink()
    except BaseException:
        for path in _list_contents(home) if existed else [home.root]:
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
        raise


def _write_config(home: Home, secret: dict[str, Any] | None, ring: list[str]) -> Config:
    """The old secrets, but for the passwords of the stores: those are new, as the stores are."""
    made = Secrets.make()
    settings: dict[str, str] = {}
    if secret is not None:
        old = secret["secrets"]
        made = Secrets(
            secret_key=old["secret_key"],
            admin_password=old["admin_password"],
            postgres_password=made.postgres_password,
            redis_password=made.redis_password,
        )
        settings = {name: value for name, value in secret["settings"].items() if name not in ELSEWHERE}
        if ring:
            path = home.root / KEY_RING
            write_private_file(path, "".join(f"{key}\n" for key in ring))
            settings["key_ring"] = str(path)
    config = Config(made, settings)
    config.write(home)
    return config


def _write_files(files: tuple[KeptFile, ...], root: Path, repository: Repository, key: x25519.Identity) -> None:
    if files and root.exists() and any(root.iterdir()):
        raise RestoreError(f"{root} must be empty")
    for file in files:
        name = PurePosixPath(file.path)
        if name.is_absolute() or ".." in name.parts:
            raise RestoreError(f"the backup names a file outside its place: {file.path!r}")
        path = root / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            with path.open("xb") as target:
                check(repository.object_path(file.content, key), key, file.content, target)
                target.flush()
                os.fsync(target.fileno())
            os.utime(path, ns=(file.mtime_ns, file.mtime_ns))
        except OSError as error:
            raise RestoreError(f"{path} cannot be written: {error.strerror}") from None


@contextmanager
def _fresh_database(place: Place) -> Iterator[str]:
    """An empty database; the embedded one runs for so long."""
    if place.settings["DATABASE_URL"]:
        yield place.strongest_address()
        return
    with running_stack(place.home, place.environ, only=["postgres"]) as stack:
        yield stack.state().addresses["admin_database_url"]


def _restore_database(address: str, repository: Repository, manifest: Manifest, key: x25519.Identity) -> None:
    with postgres_tools.connect(address) as connection:
        server = postgres_tools.find_server_major(connection)
        if found := count_rows(connection):
            raise RestoreError(f"the database must be empty, found {len(found)} tables such as {next(iter(found))}")
    if server < manifest.postgres:
        raise RestoreError(f"the backup is of Postgres {manifest.postgres}, the server is {server}: it must be as new")
    with postgres_tools.restoring(address, server_major=server) as pipe:
        check(repository.directory_of(manifest.id) / DATABASE, key, manifest.database, pipe)
    with postgres_tools.connect(address) as connection:
        counts = count_rows(connection)
        connection.rollback()
        connection.autocommit = True
        connection.execute("ANALYZE")
    if different := {name: (n, counts.get(name)) for name, n in manifest.counts.items() if counts.get(name) != n}:
        words = ", ".join(f"{name}: {n} rows, found {found}" for name, (n, found) in sorted(different.items())[:5])
        raise RestoreError(f"the database is not what was backed up: {words}")


def move_addresses(address: str, old: str, new: Path) -> int:
    """Let addresses of files in the old place name the new one, in every table but the audit; how many rows.

    The audit says what was: it is not touched, and could not be.
    """
    before, after = Path(old).as_uri() + "/", new.as_uri() + "/"
    moved = 0
    with postgres_tools.connect(address) as connection:
        for table, column, kind in _text_columns(connection):
            name = sql.Identifier(column)
            statement = sql.SQL(
                "UPDATE {table} SET {name} = replace({name}::text, {before}, {after})::{kind} "
                "WHERE position({before} IN {name}::text) > 0"
            ).format(table=sql.Identifier("public", table), name=name, before=before, after=after, kind=sql.SQL(kind))
            moved += connection.execute(statement).rowcount
    return moved


def _text_columns(connection: "psycopg.Connection[TupleRow]") -> list[tuple[str, str, Any]]:
    return [
        (row[0], row[1], row[2])
        for row in connection.execute(
            "SELECT c.table_name, c.column_name, c.udt_name FROM information_schema.columns c "
            "JOIN pg_tables t ON (t.schemaname, t.tablename) = (c.table_schema, c.table_name) "
            "WHERE c.table_schema = 'public' AND c.udt_name IN ('varchar', 'text', 'jsonb') "
            "AND c.is_generated = 'NEVER' AND NOT starts_with(c.table_name, 'audit_')"
        ).fetchall()
    ]


def _prove(place: Place, address: str, manifest: Manifest) -> dict[str, Any]:
    """Bring the schema up to date, and let the installation look at itself."""
    addresses = {"database_url": address, "redis_url": str(place.settings["REDIS_URL"] or "redis://127.0.0.1:1/0")}
    environment = web_environment(place.home, place.config, place.environ, addresses)
    manage(environment, "migrate", "--noinput", "-v", "0")
    told = json.dumps({"backup": manifest.id, "mark": manifest.to_json()["mark"]})
    output = manage(environment, "check_restored", "--told", told)
    return dict(json.loads(output.strip().splitlines()[-1]))


def manage(environment: Mapping[str, str], *arguments: str) -> str:
    """Run a management command of the installation; what it printed.

    Raises:
        RestoreError: it failed; with its last words.
    """
    done = subprocess.run(
        [sys.executable, "-m", "django", *arguments],
        env=dict(environment),
        cwd=PROJECT_DIRECTORY,
        capture_output=True,
        text=True,
        check=False,
        timeout=CHECK_TIMEOUT_S,
    )
    if done.returncode:
        raise RestoreError(f"{arguments[0]} failed: {find_last_words(done.stderr) or done.returncode}")
    return done.stdout
