"""Writing the audit: `record()` says what happened, `move()` changes a state and says so, both in one transaction."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from django.db import models, transaction
from django.utils import timezone

from apps.audit.kinds import Kind
from apps.audit.models import AuditEntry
from apps.base.errors import IllegalMoveError
from apps.base.models import Stateful


def record(
    kind: Kind | str,
    *,
    subject: models.Model | None = None,
    by: str,
    project_id: int | None = None,
    payload: Mapping[str, Any] | None = None,
) -> AuditEntry:
    """Write one entry in the running transaction; Postgres announces it to open consoles when that commits.

    Args:
        by: who acted: `user:alice`, `agent:claw`, `scorer`, `sweep`…
        project_id: needed where the subject does not know its project.
    """
    entry = write_entry(kind, subject=subject, by=by, project_id=project_id, payload=payload)
    entry.save(force_insert=True)
    return entry


def write_entry(
    kind: Kind | str,
    *,
    subject: models.Model | None = None,
    by: str,
    project_id: int | None = None,
    payload: Mapping[str, Any] | None = None,
) -> AuditEntry:
    """An entry as `record` writes it, for `record_many`."""
    return AuditEntry(
        kind=Kind(kind),
        subject_type=(subject._meta.model_name or "") if subject is not None else "",
        subject_id=subject.pk if subject is not None else None,
        project_id=_project_of(subject) if project_id is None else project_id,
        actor=by,
        payload=dict(payload or {}),
    )


def was_last_by(kind: Kind, subject: models.Model, *, by: str) -> bool:
    """Whether it was `by` who did that to the subject the last time."""
    about = AuditEntry.objects.filter(kind=kind, subject_type=subject._meta.model_name, subject_id=subject.pk)
    return about.order_by("-id").values_list("actor", flat=True).first() == by


def move(
    row: Stateful,
    to: str,
    *,
    by: str,
    payload: Mapping[str, Any] | None = None,
    kind: Kind | None = None,
    **changes: Any,
) -> None:
    """Change a row's state by compare-and-set, with the other columns given, and audit it.

    The row in memory is brought up to date, and so is when it changed. Where another process moved it meanwhile, the
    entry tells from where it was moved, not what was read of it before. The entry's kind is the model's for that state
    unless given.

    Raises:
        IllegalMoveError: the row's state does not allow it, or another process changed the row first.
    """
    model: Any = type(row)
    changes = _note_time(model) | changes
    sources = [state for state, targets in model.MOVES.items() if to in targets]
    with transaction.atomic(savepoint=False):  # what may be refused is refused before anything is written
        rows = model._default_manager.filter(pk=row.pk)
        changed = rows.filter(state=row.state).update(state=to, **changes) if row.state in sources else 0
        if not changed:
            movable = rows.filter(state__in=sources).select_for_update(no_key=True)
            found = movable.values_list("state", flat=True).first()
            if found is not None:
                row.state = found
                changed = rows.update(state=to, **changes)
        if changed:
            before = row.state
            row.state = to
            for name, value in changes.items():
                if not hasattr(value, "resolve_expression"):
                    setattr(row, name, value)
            payload = {"from": str(before), "to": str(to), **(payload or {})}
            record(kind or model.EVENTS[to], subject=row, by=by, payload=payload)
    if not changed:
        found = model._default_manager.filter(pk=row.pk).values_list("state", flat=True).first()
        raise IllegalMoveError(
            f"{model._meta.verbose_name} {row.pk} cannot become {to}: "
            f"wanted state {' or '.join(sources) or 'none'}, "
            f"found {found or 'no such row'}"
        )


def move_many(
    rows: Sequence[Stateful],
    to: str,
    *,
    by: str,
    payload: Mapping[str, Any] | Callable[[Any], Mapping[str, Any]] | None = None,
    **changes: Any,
) -> None:
    """As `move`, of rows of one model in two statements; either all are moved or none: a refusal ends the caller's
    transaction, which holds their locks.

    Args:
        payload: of every entry; or what to call with a row for its own.
    Raises:
        IllegalMoveError: the state of one of them does not allow it.
    """
    if not rows:
        return

    def say(row: Stateful) -> Mapping[str, Any]:
        return (payload(row) if callable(payload) else payload) or {}

    if len(rows) == 1:
        move(rows[0], to, by=by, payload=say(rows[0]), **changes)
        return
    model: Any = type(rows[0])
    changes = _note_time(model) | changes
    sources = [state for state, targets in model.MOVES.items() if to in targets]
    with transaction.atomic(savepoint=False):
        changed = model._default_manager.filter(pk__in=[row.pk for row in rows], state__in=sources).update(
            state=to, **changes
        )
        if changed != len(rows):
            wanted = f"wanted all in state {' or '.join(sources) or 'none'}, found {changed}"
            raise IllegalMoveError(f"{len(rows)} {model._meta.verbose_name_plural} cannot become {to}: {wanted}")
        entries = []
        for row in rows:
            said = {"from": str(row.state), "to": str(to), **say(row)}
            row.state = to
            entries.append(write_entry(model.EVENTS[to], subject=row, by=by, payload=said))
        record_many(entries)


def _note_time(model: type[models.Model]) -> dict[str, Any]:
    """Fields that say when a row changed, which an update in place leaves as they are -> now."""
    return {one.name: timezone.now() for one in model._meta.concrete_fields if getattr(one, "auto_now", False)}


def record_many(entries: Iterable[AuditEntry]) -> Sequence[AuditEntry]:
    """Write prepared entries in one statement."""
    return AuditEntry.objects.bulk_create(entries)


def _project_of(subject: models.Model | None) -> int | None:
    if subject is None:
        return None
    if subject._meta.model_name == "project":
        return int(subject.pk)
    return getattr(subject, "project_id", None)
