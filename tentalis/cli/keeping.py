"""Commands that keep what an installation holds: backup, restore, drill. They work on this machine."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tentalis.cli.output import AsJson, print_json, print_result, print_rows
from tentalis.platform.home import Home

if TYPE_CHECKING:
    from tentalis.platform.keeping.place import Keys, Place
    from tentalis.platform.keeping.repository import Repository

Directory = Annotated[
    Path | None, typer.Option("--to", help="Where backups go; default: TENTALIS_BACKUP_DIR, or backups in the home.")
]
Source = Annotated[
    Path | None, typer.Option("--from", help="Where backups lie; default: TENTALIS_BACKUP_DIR, or backups in the home.")
]
DataKey = Annotated[
    Path | None, typer.Option("--key", help="The key of database and files; default: backup.key in the home.")
]
SecretsKey = Annotated[
    Path | None, typer.Option("--recovery-key", help="The key of the secrets; default: recovery.key in the home.")
]
BackupId = Annotated[str, typer.Argument(help="Of the backup; default: the newest.")]
LIST_COLUMNS = ("id", "made_at", "postgres", "rows", "database_bytes", "artifacts", "artifact_bytes")


def backup(
    to: Directory = None,
    keep: Annotated[int, typer.Option(min=0, help="Delete all but so many of the newest; 0: none.")] = 0,
    show: Annotated[bool, typer.Option("--list", help="Take none; show those there are.")] = False,
    key: DataKey = None,
    recovery_key: SecretsKey = None,
    as_json: AsJson = False,
) -> None:
    """Back up this installation while it runs: database, artifacts, the gateway's spool, and the secrets apart.

    All of it is sealed (age): for backup.key, and the secrets for recovery.key. Keep copies of both keys elsewhere, and
    apart from each other: without them nobody can bring anything back.
    """
    from tentalis.platform.errors import BackupError
    from tentalis.platform.keeping.taking import take_backup

    place, repository = _find(to)
    if show:
        _list_backups(repository, as_json=as_json)
        return
    keys = _find_keys(place, key, recovery_key)
    manifest = take_backup(place, repository, keys, say=_say(as_json))
    dropped, kept_all = 0, ""
    try:
        dropped = repository.drop_old(keep) if keep else 0
    except BackupError as error:
        kept_all = f"; no old one was deleted: {error}"
    _note(place, "made", {"backup": manifest.id, "entry": manifest.mark.entry_id, "head": manifest.mark.head})
    print_result(
        manifest.summary() | {"directory": str(repository.root), "dropped": dropped},
        f"backup {manifest.id} in {repository.root}, read back and whole{kept_all}",
        as_json=as_json,
    )


def restore(
    backup_id: BackupId = "",
    source: Source = None,
    key: DataKey = None,
    recovery_key: SecretsKey = None,
    without_secrets: Annotated[
        bool,
        typer.Option("--without-secrets", help="Make new secrets: what is sealed in the database stays shut."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Bring a backup back into an empty TENTALIS_HOME, and an empty database where the environment names one.

    Stop the old installation first: two of them would tell the same webhooks. Exit 1 when anything is not as it was.
    """
    from tentalis.platform.errors import RestoreError
    from tentalis.platform.keeping.repository import Repository
    from tentalis.platform.keeping.restoring import restore_backup
    from tentalis.platform.keeping.sealing import read_key

    home = Home.find(os.environ)
    root = source or Path(os.environ.get("TENTALIS_BACKUP_DIR") or "")
    if root == Path():
        raise typer.BadParameter("say where the backups lie, or set TENTALIS_BACKUP_DIR", param_hint="--from")
    if key is None or (recovery_key is None and not without_secrets):
        raise typer.BadParameter("--key, and --recovery-key or --without-secrets, are needed", param_hint="--key")
    restored = restore_backup(
        home,
        os.environ,
        Repository(root.expanduser().absolute()),
        data_key=read_key(key),
        secrets_key=None if without_secrets or recovery_key is None else read_key(recovery_key),
        backup_id=backup_id,
        say=_say(as_json),
    )
    if as_json:
        found = {"backup": restored.manifest.summary(), "faults": list(restored.faults), "home": str(home.root)}
        print_json(found | {"secrets": restored.has_secrets})
    if restored.faults:
        raise RestoreError("it is back, but not as it was: " + "; ".join(restored.faults[:5]))
    if not as_json:
        typer.echo(f"{restored.manifest.id} is back in {home.root}; next: tentalis up")


def drill(
    backup_id: BackupId = "",
    source: Source = None,
    scratch: Annotated[Path | None, typer.Option(help="Where to bring it back to; default: the temporary one.")] = None,
    key: DataKey = None,
    recovery_key: SecretsKey = None,
    as_json: AsJson = False,
) -> None:
    """Bring the newest backup back into a place of its own, check all of it, and throw it away.

    Without any backup yet, one is taken. Exit 1 when it does not come back as it was.
    """
    from tentalis.platform.errors import RestoreError
    from tentalis.platform.keeping.drilling import run_drill
    from tentalis.platform.keeping.taking import take_backup

    place, repository = _find(source)
    keys = _find_keys(place, key, recovery_key)
    if not repository.ids():
        taken = take_backup(place, repository, keys, say=_say(as_json))
        _note(place, "made", {"backup": taken.id, "entry": taken.mark.entry_id, "head": taken.mark.head})
    done = run_drill(repository, keys, os.environ, backup_id=backup_id, scratch=scratch, say=_say(as_json))
    if as_json:
        print_json(done.to_json())
    if done.restored.faults:
        raise RestoreError("it came back, but not as it was: " + "; ".join(done.restored.faults[:5]))
    _note(place, "drilled", {"backup": done.restored.manifest.id, "seconds": round(done.seconds, 1)})
    if not as_json:
        manifest = done.restored.manifest
        typer.echo(f"{manifest.id} came back whole in {done.seconds:.0f} s: {sum(manifest.counts.values()):,} rows")


def _list_backups(repository: "Repository", *, as_json: bool) -> None:
    """Print them, one that cannot be read with its reason. Raises typer.Exit(1) where there is such a one."""
    from tentalis.platform.errors import BackupError

    rows, has_faults = [], False
    for backup_id in repository.ids():
        try:
            rows.append(repository.read(backup_id).summary())
        except BackupError as error:
            rows.append({"id": backup_id, "fault": str(error)})
            has_faults = True
    columns = (*LIST_COLUMNS, "fault") if has_faults else LIST_COLUMNS
    print_rows(rows, columns, as_json=as_json, empty=f"no backups in {repository.root}")
    if has_faults:
        raise typer.Exit(1)


def _find(directory: Path | None) -> "tuple[Place, Repository]":
    from tentalis.platform.keeping.place import Place
    from tentalis.platform.keeping.repository import Repository

    place = Place.find(Home.find(os.environ), os.environ)
    return place, Repository((directory or place.repository).expanduser().absolute())


def _find_keys(place: "Place", data: Path | None, secrets: Path | None) -> "Keys":
    keys = place.find_keys(data=data, secrets=secrets)
    for path in keys.made:
        typer.echo(f"made {path}: keep a copy elsewhere, without it no backup can be opened", err=True)
    return keys


def _say(as_json: bool) -> Any:
    return (lambda words: None) if as_json else typer.echo


def _note(place: "Place", what: str, payload: dict[str, Any]) -> None:
    """Put it on record in the installation's own audit, which the alarms look at."""
    from tentalis.platform.keeping.noting import note

    note(place, what, json.dumps(payload))
