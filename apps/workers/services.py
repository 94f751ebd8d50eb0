"""Workers: made, changed and removed."""

from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import ProtectedError

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.errors import BadInputError, ConflictError
from apps.inference.models import Provider
from apps.workers.models import Worker
from apps.workers.rules import find_errors
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
        "is_active",
    }
)
"""Neither name nor kind: the names of its adapters hold the one, and what they learnt belongs to the other."""
_BASE_FIELDS = ("base_model", "base_directory")


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
) -> Worker:
    """Add an agent to a project.

    Args:
        provider: its model server; None is the installation's own engine.
        agent_server, agent_id: of an openclaw worker: who does its tasks.
        base_model: name that server knows the model by; "" takes the kind's or the server's default.
        sampling: see `rules.SAMPLING`.
        supervision: see `tentalis.core.supervision`; only an outside worker can have one.
        adapters_per: worker or user: whether every person it talks with teaches adapters of their own.
        user_batch_tasks: tasks that fill a batch of one person; None: the project's `batch_tasks`.
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
    )
    _check(worker)
    with transaction.atomic():
        try:
            with transaction.atomic():
                worker.save()
        except IntegrityError:
            message = f"the name {name} is taken in {project.slug}"
            raise ConflictError(message, errors={"name": [message]}) from None
        record(Kind.WORKER_CREATED, subject=worker, by=by.handle, payload={"name": name, "kind": kind})
    return worker


def change_worker(*, worker: Worker, by: User, **changes: Any) -> Worker:
    """Change some of `CHANGEABLE`; what its tasks have under way finishes as it started.

    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        BadInputError: naming the fields.
        ConflictError: another base model under adapters that were trained on the present one.
    """
    require_right(by, worker.project, Right.WORKERS_WRITE)
    if unknown := sorted(set(changes) - CHANGEABLE):
        raise BadInputError(
            f"of a worker {', '.join(sorted(CHANGEABLE))} can change; found {', '.join(unknown)}",
            errors={name: ["cannot be changed"] for name in unknown},
        )
    with transaction.atomic():
        row = (
            Worker.objects.select_for_update(of=("self",))
            .select_related("project", "provider", "agent_server")
            .get(pk=worker.pk)
        )
        changed = sorted(name for name, value in changes.items() if getattr(row, name) != value)
        if any(name in _BASE_FIELDS for name in changed) and row.adapters.exists():
            raise ConflictError(f"{row.name} has adapters trained on {find_base_model(row)!r}: make another worker")
        before = {name: _plain(getattr(row, name)) for name in changed}
        for name in changed:
            setattr(row, name, changes[name])
        if changed:
            _check(row)
            row.save(update_fields=changed)
            after = {name: _plain(getattr(row, name)) for name in changed}
            record(Kind.WORKER_CHANGED, subject=row, by=by.handle, payload={"before": before, "after": after})
    return row


def delete_worker(*, worker: Worker, by: User) -> None:
    """Remove a worker that never worked.

    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        ConflictError: it has tasks; `is_active` False retires it.
    """
    require_right(by, worker.project, Right.WORKERS_WRITE)
    with transaction.atomic():
        record(Kind.WORKER_DELETED, subject=worker, by=by.handle, payload={"name": worker.name})
        try:
            worker.delete()
        except ProtectedError as error:
            raise ConflictError(f"{worker.name} has done tasks and stays in their history: switch it off") from error


def _check(worker: Worker) -> None:
    """Raises BadInputError naming every field at fault."""
    if worker.kind in Worker.Kind.values:
        worker.base_model = worker.base_model or find_base_model(worker)
    if errors := find_errors(worker):
        message = "; ".join(f"{name}: {words[0]}" for name, words in errors.items())
        raise BadInputError(message, errors=errors)


def _plain(value: Any) -> Any:
    return value.name if isinstance(value, Provider) else value
