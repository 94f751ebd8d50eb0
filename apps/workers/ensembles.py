"""Ensembles: workers of a project that are asked together; made, changed and removed."""

from collections.abc import Sequence
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.errors import BadInputError, ConflictError, NotFoundError
from apps.workers.kinds import find_kind
from apps.workers.models import ENSEMBLE, Ensemble, Worker
from apps.workers.naming import insert_named
from tentalis.core.field_limits import (
    ENSEMBLE_WAIT_S,
    MAX_ENSEMBLE_MEMBERS,
    MAX_ENSEMBLE_WAIT_S,
    MIN_ENSEMBLE_MEMBERS,
)


def create_ensemble(
    *, project: Project, name: str, members: Sequence[str], by: User, wait_s: int = ENSEMBLE_WAIT_S
) -> Ensemble:
    """Have workers of a project asked together.

    Args:
        members: names of workers, in the order in which they are told.
        wait_s: for the others, once one of them has answered.
    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        BadInputError: fields are not what is wanted; all of them are named.
        ConflictError: the name is taken.
    """
    require_right(by, project, Right.WORKERS_WRITE)
    ensemble = Ensemble(project=project, name=name, members=list(members), wait_s=wait_s)
    with transaction.atomic():
        _check(ensemble)
        insert_named(ensemble)
        payload = {"name": name, "members": ensemble.members, "wait_s": wait_s}
        record(Kind.ENSEMBLE_CREATED, subject=ensemble, by=by.handle, payload=payload)
    return ensemble


def change_ensemble(
    *, ensemble: Ensemble, by: User, members: Sequence[str] | None = None, wait_s: int | None = None
) -> Ensemble:
    """Change who is in it, or how long is waited for the others; its name stays, for callers ask for it.

    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        BadInputError: naming the fields.
    """
    require_right(by, ensemble.project, Right.WORKERS_WRITE)
    given: dict[str, Any] = {"members": None if members is None else list(members), "wait_s": wait_s}
    with transaction.atomic():
        row = _lock(ensemble)
        before = {name: getattr(row, name) for name, value in given.items() if value not in (None, getattr(row, name))}
        for name in before:
            setattr(row, name, given[name])
        if before:
            _check(row)
            row.save(update_fields=list(before))
            payload = {"before": before, "after": {name: given[name] for name in before}}
            record(Kind.ENSEMBLE_CHANGED, subject=row, by=by.handle, payload=payload)
    return row


def delete_ensemble(*, ensemble: Ensemble, by: User) -> None:
    """Have its members asked together no more; they and what they answered stay.

    Raises:
        NotAllowedError, NotFoundError: `by` may not.
    """
    require_right(by, ensemble.project, Right.WORKERS_WRITE)
    with transaction.atomic():
        row = _lock(ensemble)
        record(Kind.ENSEMBLE_DELETED, subject=row, by=by.handle, payload={"name": row.name})
        row.delete()


def require_no_member(worker: Worker) -> None:
    """Raises ConflictError where a worker is asked together with others."""
    found = Ensemble.objects.filter(project=worker.project_id, members__contains=[worker.name])
    if names := list(found.values_list("name", flat=True)):
        message = f"{worker.name} cannot be removed: it is a member of {', '.join(names)}; take it out of there first"
        raise ConflictError(message)


def _lock(ensemble: Ensemble) -> Ensemble:
    row = Ensemble.objects.select_for_update(of=("self",)).select_related("project").filter(pk=ensemble.pk).first()
    if row is None:
        raise NotFoundError(f"the ensemble {ensemble.name} was removed meanwhile")
    return row


def _check(ensemble: Ensemble) -> None:
    """Raises BadInputError naming every field at fault. Who becomes a member cannot be removed before the transaction
    ends."""
    errors: dict[str, list[str]] = {}
    try:
        ensemble.clean_fields(exclude=["members", "wait_s"])
    except ValidationError as error:
        errors |= {
            name: [f"{words} (found {getattr(ensemble, name)!r})" for words in messages]
            for name, messages in error.message_dict.items()
        }
    if complaint := _check_members(ensemble):
        errors["members"] = [complaint]
    if type(ensemble.wait_s) is not int or not 1 <= ensemble.wait_s <= MAX_ENSEMBLE_WAIT_S:
        errors["wait_s"] = [f"wanted whole seconds from 1 to {MAX_ENSEMBLE_WAIT_S}, found {ensemble.wait_s!r:.40}"]
    if errors:
        raise BadInputError.at_each(errors)


def _check_members(ensemble: Ensemble) -> str:
    names = ensemble.members
    if not all(isinstance(name, str) for name in names):
        return f"wanted names of workers, found {names!r:.100}"
    if not MIN_ENSEMBLE_MEMBERS <= len(names) <= MAX_ENSEMBLE_MEMBERS or len(set(names)) < len(names):
        found = ", ".join(names)
        return (
            f"wanted {MIN_ENSEMBLE_MEMBERS} to {MAX_ENSEMBLE_MEMBERS} workers, each once; found {found or 'none':.200}"
        )
    if nested := [name for name in names if name.startswith(f"{ENSEMBLE}/")]:
        return f"wanted workers: an ensemble is no member of another; found {nested[0]:.100}"
    rows = Worker.objects.filter(project=ensemble.project_id, name__in=names).order_by("pk")
    known = {one.name: one for one in rows.select_for_update(no_key=True)}
    for name in names:
        if name not in known:
            return f"{ensemble.project.slug} has no worker {name:.64}"
        if not find_kind(known[name].kind).asks_model:
            return f"{name} asks no model: it is of kind {known[name].kind}"
    return ""
