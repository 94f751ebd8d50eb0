"""Workers: made, changed and removed."""

from collections.abc import Iterable, Mapping
from typing import Any

from django.db import transaction
from django.db.models import ProtectedError
from django.utils import timezone

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.dependents import find_dependents
from apps.base.errors import BadInputError, ConflictError, NotFoundError
from apps.inference.models import Provider
from apps.workers.bases import BaseWeightsError, check_directory
from apps.workers.ensembles import require_no_member
from apps.workers.kept import take_kept
from apps.workers.kinds import KINDS
from apps.workers.models import Worker
from apps.workers.naming import insert_named
from apps.workers.rules import find_errors, say_learners
from apps.workers.selectors import find_base_model

CHANGEABLE = frozenset(
    {
        "provider",
        "agent_server",
        "agent_id",
        "base_model",
        "base_directory",
        "system_prompt",
        "sampling",
        "supervision",
        "adapters_per",
        "user_batch_tasks",
        "fallbacks",
        "learns_with",
        "is_active",
    }
)
"""Neither name nor kind: the names of its adapters hold the one, and what they learnt belongs to the other."""
_BASE_FIELDS = ("base_model", "base_directory")


class WorkerKeptError(ConflictError):
    """The worker has a history, which is kept."""

    code = "worker_kept"

    def __init__(self, worker: Worker, kept: Iterable[str]) -> None:
        super().__init__(f"{worker.name} stays in the history of {', '.join(kept)}: switch it off")


def create_worker(
    *,
    project: Project,
    name: str,
    kind: str,
    by: User,
    provider: Provider | None = None,
    agent_server: Provider | None = None,
    agent_id: str = "",
    base_model: str = "",
    base_directory: str = "",
    system_prompt: str = "",
    sampling: dict[str, Any] | None = None,
    supervision: dict[str, Any] | None = None,
    adapters_per: str = Worker.AdaptersPer.WORKER,
    user_batch_tasks: int | None = None,
    fallbacks: list[str] | None = None,
    learns_with: Worker | None = None,
) -> Worker:
    """Add an agent to a project.

    Args:
        provider: its model server; None is the installation's own engine, with the built-in model or one kept here.
        agent_server, agent_id: of an openclaw worker: who does its tasks.
        base_model: name that server knows the model by; "" takes the kind's or the server's default.
        base_directory: where the trainer finds the same model's files; without it a worker on a model server of its own
            works and trains nothing.
        sampling: what its kind allows.
        supervision: see `tentalis.core.supervision`; only an outside worker can have one.
        adapters_per: worker or user: whether every person it talks with teaches adapters of their own.
        user_batch_tasks: tasks that fill a batch of one person; None: the project's `batch_tasks`.
        fallbacks: models that the gateway asks in this order where its own cannot be had, see `rules.MOST_FALLBACKS`.
        learns_with: whose line of adapters it teaches and is served by; None: its own.
    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        BadInputError: fields are not what is wanted; all of them are named.
        ConflictError: the name is taken.
    """
    require_right(by, project, Right.WORKERS_WRITE)
    worker = Worker(
        project=project,
        name=name,
        kind=kind,
        provider=provider,
        agent_server=agent_server,
        agent_id=agent_id,
        base_model=base_model,
        base_directory=base_directory,
        system_prompt=system_prompt,
        sampling={} if sampling is None else sampling,
        supervision={} if supervision is None else supervision,
        adapters_per=adapters_per,
        user_batch_tasks=user_batch_tasks,
        fallbacks=[] if fallbacks is None else fallbacks,
    )
    with transaction.atomic():
        if learns_with is not None:
            worker.learns_with = _lock([learns_with])[learns_with.pk]
        _check(worker)
        insert_named(worker)
        payload = {"name": name, "kind": kind} | ({"learns_with": learns_with.name} if learns_with else {})
        record(Kind.WORKER_CREATED, subject=worker, by=by.handle, payload=payload)
    return worker


def change_worker(*, worker: Worker, by: User, **changes: Any) -> Worker:
    """Change some of `CHANGEABLE`; what its tasks have under way finishes as it started.

    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        BadInputError: naming the fields.
        ConflictError: another base model under adapters that were trained on the present one; or it is to learn with
            another, and has begun a line of its own.
    """
    require_right(by, worker.project, Right.WORKERS_WRITE)
    if unknown := sorted(set(changes) - CHANGEABLE):
        raise BadInputError(
            f"of a worker {', '.join(sorted(CHANGEABLE))} can change; found {', '.join(unknown)}",
            errors={name: ["cannot be changed"] for name in unknown},
        )
    with transaction.atomic():
        locked = _lock([worker, changes.get("learns_with")])
        row = locked[worker.pk]
        if changes.get("learns_with") is not None:
            changes["learns_with"] = locked[changes["learns_with"].pk]
        changed = sorted(name for name, value in changes.items() if getattr(row, name) != value)
        if any(name in _BASE_FIELDS for name in changed):
            _require_same_base(row, changes)
        if "learns_with" in changed and changes["learns_with"] is not None:
            _require_no_line(row)
        base = row.base_model, row.base_directory, row.base_facts.get("fingerprint")
        before = {name: _plain(getattr(row, name)) for name in changed}
        for name in changed:
            setattr(row, name, changes[name])
        if changed:
            _check(row)
            if {"provider", *_BASE_FIELDS} & set(changed):
                row.base_compared = {}
            if _has_another_base(row, *base):
                row.base_since = timezone.now()
            row.save(update_fields=[*changed, "base_directory", "base_facts", "base_compared", "base_since"])
            after = {name: _plain(getattr(row, name)) for name in changed}
            record(Kind.WORKER_CHANGED, subject=row, by=by.handle, payload={"before": before, "after": after})
    return row


def delete_worker(*, worker: Worker, by: User) -> None:
    """Remove a worker that never worked, was measured or learnt.

    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        ConflictError: others learn with it, or it is asked together with others; WorkerKeptError where it has a history
            (`is_active` False retires it).
    """
    require_right(by, worker.project, Right.WORKERS_WRITE)
    with transaction.atomic():
        row = _lock([worker], no_key=False)[worker.pk]
        if learners := list(row.learners.order_by("name")):
            raise ConflictError(f"{row.name} cannot be removed: {say_learners(learners)}")
        require_no_member(row)
        if kept := find_dependents(row, unless="GOES_WITH_WORKER"):
            raise WorkerKeptError(row, kept)
        record(Kind.WORKER_DELETED, subject=row, by=by.handle, payload={"name": row.name})
        try:
            row.delete()
        except ProtectedError as error:
            raise WorkerKeptError(
                row, sorted({str(one._meta.verbose_name_plural) for one in error.protected_objects})
            ) from error


def _lock(workers: Iterable[Worker | None], *, no_key: bool = True) -> dict[int, Worker]:
    """Their rows, locked in the running transaction in one order, so that no two begin to learn with each other.

    Args:
        no_key: rows that name them may be added meanwhile.
    Raises:
        NotFoundError: one was removed meanwhile.
    """
    keys = {one.pk for one in workers if one is not None}
    locked = Worker.objects.select_for_update(of=("self",), no_key=no_key).filter(pk__in=keys).order_by("pk")
    rows = {one.pk: one for one in locked.select_related("project", "provider", "agent_server", "learns_with")}
    if len(rows) < len(keys):
        raise NotFoundError("the worker was removed meanwhile")
    return rows


def _require_same_base(worker: Worker, changes: Mapping[str, Any]) -> None:
    """Raises ConflictError where adapters that may serve were trained on another base than it is to have."""
    kept = worker.adapters.exclude(state="refused")
    if changes.get("base_model", worker.base_model) == worker.base_model:
        kept = kept.exclude(manifest__base_model=changes.get("base_directory", worker.base_directory))
    if kept.exists():
        base = worker.base_directory or find_base_model(worker)
        raise ConflictError(f"{worker.name} has adapters trained on {base!r}: make another worker")


def _has_another_base(worker: Worker, model: str, directory: str, fingerprint: str | None) -> bool:
    """Whether it is another base model than that. The same files under another name are not, nor is what nobody had
    named before."""
    now = worker.base_facts.get("fingerprint")
    if fingerprint and now:
        return bool(fingerprint != now)
    named = model or worker.base_model, directory or worker.base_directory
    return named != (worker.base_model, worker.base_directory)


def _require_no_line(worker: Worker) -> None:
    """Raises ConflictError where a worker has learnt already, or is about to: two lines cannot become one."""
    if worker.adapters.exists() or worker.batches.filter(closed_at__isnull=False).exists():
        raise ConflictError(f"{worker.name} has begun to learn by itself: make another worker to learn with others")


def _check(worker: Worker) -> None:
    """Raises BadInputError naming every field at fault."""
    if worker.kind in KINDS:
        worker.base_model = worker.base_model or find_base_model(worker)
        take_kept(worker)
    errors = find_errors(worker)
    if "base_directory" not in errors:
        try:
            facts = check_directory(worker)
        except BaseWeightsError as error:
            errors |= {name: list(words) for name, words in error.errors.items()}
        else:
            worker.base_facts = facts.to_json() if facts else {}
    if errors:
        raise BadInputError.at_each(errors)


def _plain(value: Any) -> Any:
    return value.name if isinstance(value, (Provider, Worker)) else value
