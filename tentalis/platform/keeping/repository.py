"""Where backups lie: a directory that several backups share.

    objects/<key>/<ab>/<sha256>.age   each file once, named by what is in it
    backups/<id>/manifest.json        what the backup is made of, with a digest for everything
    backups/<id>/database.age         a dump of one snapshot
    backups/<id>/keys.age             sealed for another key: what opens the secrets inside the database

A backup is made under a name with a dot in front and renamed when all of it was read back: what has a name is whole.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pyrage import x25519

from tentalis.platform.errors import BackupError, BackupUnderWayError
from tentalis.platform.keeping.sealing import Content, check, seal

FORMAT = 1
MANIFEST = "manifest.json"
DATABASE = "database.age"
KEYS = "keys.age"
STAGING = "."
FINGERPRINT_CHARS = 16


@dataclass(frozen=True)
class KeptFile:
    """A file of a backup.

    Attributes:
        path: below its root, with `/`.
        mtime_ns: when it was last changed, so that the next backup need not read it again.
    """

    path: str
    content: Content
    mtime_ns: int


@dataclass(frozen=True)
class Mark:
    """The moment a backup shows: what was committed before is in it.

    Attributes:
        at: the database's time; lsn: place in its write-ahead log.
        entry_id: the audit's newest entry; places, head: length and last hash of its chain.
    """

    at: str
    lsn: str
    entry_id: int
    places: int
    head: str


@dataclass(frozen=True)
class Manifest:
    """What one backup is made of.

    Attributes:
        counts: rows of every table.
        artifacts, spool: files, by root.
        artifacts_root: where the artifacts lay; addresses in the database name it.
        secret_names: what lies in the keys' file.
    """

    id: str
    made_at: str
    postgres: int
    mark: Mark
    counts: Mapping[str, int]
    database: Content
    keys: Content
    artifacts: tuple[KeptFile, ...]
    spool: tuple[KeptFile, ...]
    artifacts_root: str
    secret_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        return {"format": FORMAT} | asdict(self)

    @classmethod
    def from_json(cls, document: Any) -> "Manifest":
        """Raises ValueError, TypeError or KeyError where it is none."""
        found = dict(document)
        if (version := found.pop("format")) != FORMAT:
            raise ValueError(f"wanted format {FORMAT}, found {version}")
        for name in ("artifacts", "spool"):
            found[name] = tuple(KeptFile(**{**row, "content": Content(**row["content"])}) for row in found[name])
        for name in ("database", "keys"):
            found[name] = Content(**found[name])
        for name in ("secret_names", "notes"):
            found[name] = tuple(found[name])
        return cls(**{**found, "mark": Mark(**found["mark"])})

    def summary(self) -> dict[str, Any]:
        """In some lines what is in it."""
        return {
            "id": self.id,
            "made_at": self.made_at,
            "postgres": self.postgres,
            "mark": asdict(self.mark),
            "tables": len(self.counts),
            "rows": sum(self.counts.values()),
            "database_bytes": self.database.size_bytes,
            "artifacts": len(self.artifacts),
            "artifact_bytes": sum(file.content.size_bytes for file in self.artifacts),
            "spool_files": len(self.spool),
            "notes": list(self.notes),
        }


class Repository:
    """The directory. Making a `Repository` touches no disk."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @contextlib.contextmanager
    def holding(self) -> Iterator[None]:
        """Be the only one who writes here.

        Raises:
            BackupUnderWayError: another backup is being made.
            BackupError: the directory cannot be made.
        """
        try:
            (self.root / "backups").mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(self.root / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise BackupError(f"{self.root} must be a directory we can write to: {error.strerror}") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BackupUnderWayError(f"another backup is being made in {self.root}") from None
        else:
            for broken in (self.root / "backups").glob(f"{STAGING}*"):
                shutil.rmtree(broken, ignore_errors=True)
            for half in (self.root / "objects").glob("*/*/.*"):
                half.unlink(missing_ok=True)
            yield
        finally:
            os.close(lock)

    @contextlib.contextmanager
    def staging(self, backup_id: str) -> Iterator[Path]:
        """A directory to fill; gone afterwards unless it was published."""
        path = self.root / "backups" / f"{STAGING}{backup_id}"
        path.mkdir(mode=0o700)
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def publish(self, staging: Path, manifest: Manifest) -> Path:
        """Give a filled directory its name, once all of it is on disk."""
        path = staging / MANIFEST
        with path.open("w", encoding="utf-8") as file:
            json.dump(manifest.to_json(), file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        path.chmod(0o600)
        _sync(staging)
        final = staging.with_name(manifest.id)
        staging.rename(final)
        _sync(final.parent)
        return final

    def directory_of(self, backup_id: str) -> Path:
        return self.root / "backups" / backup_id

    def ids(self) -> list[str]:
        """Of the backups that are whole, oldest first."""
        found = (self.root / "backups").glob(f"[!{STAGING}]*/{MANIFEST}")
        return sorted(path.parent.name for path in found)

    def read(self, backup_id: str = "") -> Manifest:
        """A backup's manifest; of the newest, where none is named.

        Raises:
            BackupError: there is no such backup, or its manifest cannot be read.
        """
        ids = self.ids()
        wanted = backup_id or (ids[-1] if ids else "")
        if wanted not in ids:
            known = f"there are {', '.join(ids[-5:])}" if ids else "there are none"
            raise BackupError(f"no backup {wanted or 'at all'} in {self.root}; {known}")
        path = self.directory_of(wanted) / MANIFEST
        try:
            return Manifest.from_json(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise BackupError(f"{path} cannot be read: {error}") from None

    def object_path(self, content: Content, key: x25519.Identity) -> Path:
        return self.root / "objects" / _fingerprint(key) / content.sha256[:2] / f"{content.sha256}.age"

    def keep(self, path: Path, key: x25519.Identity) -> Content:
        """Keep a file, unless its content is kept already; what was written is read back.

        Raises:
            OSError: the file cannot be read.
            BackupError: the disk refuses, or does not give back what was written.
        """
        with path.open("rb") as file:
            known = Content(hashlib.file_digest(file, "sha256").hexdigest(), os.fstat(file.fileno()).st_size)
            if self.object_path(known, key).exists():
                return known
            file.seek(0)
            half = self.object_path(known, key).with_name(f".{os.getpid()}-{known.sha256}")
            half.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            half.unlink(missing_ok=True)
            try:
                content = seal(file, half, key)  # a file that grows meanwhile is kept as it was read here
                check(half, key, content)
                final = self.object_path(content, key)
                final.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                half.replace(final)
                _sync(final.parent)
            finally:
                half.unlink(missing_ok=True)
        return content

    def drop_old(self, keep: int) -> int:
        """Delete all but the newest backups, and the files that no backup needs any more; how many backups.

        Raises:
            BackupUnderWayError: another backup is being made, whose files no manifest names yet.
            BackupError: one that stays cannot be read, so that nobody knows its files. Nothing was deleted then.
        """
        with self.holding():
            ids = self.ids()
            old, kept = ids[:-keep], [self.read(backup_id) for backup_id in ids[-keep:]]
            for backup_id in old:
                path = self.directory_of(backup_id)
                doomed = path.with_name(f"{STAGING}{backup_id}")
                path.rename(doomed)
                shutil.rmtree(doomed, ignore_errors=True)
            if old:
                needed = {file.content.sha256 for manifest in kept for file in (*manifest.artifacts, *manifest.spool)}
                for path in (self.root / "objects").glob("*/*/*.age"):
                    if path.stem not in needed:
                        path.unlink(missing_ok=True)
        return len(old)


def _fingerprint(key: x25519.Identity) -> str:
    """A new key means new objects: those of the old one it could not open."""
    return hashlib.sha256(str(key.to_public()).encode()).hexdigest()[:FINGERPRINT_CHARS]


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
