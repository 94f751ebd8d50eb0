"""Workers: made and changed."""

from typing import Any

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.errors import BadInputError, ConflictError
from apps.inference.models import Provider
from apps.workers.models import Worker

CHANGEABLE = frozenset({"system_prompt", "sampling", "is_active", "provider", "base_model", "base_directory"})
SAMPLING_RANGES: dict[str, tuple[float, float]] = {
    "temperature": (0.0, 2.0),
    "top_p": (0.0, 1.0),
    "max_tokens": (1, 131_072),
}
DESK_MODEL = "desk"


def create_worker(*, project: Project, name: str, kind: str, by: User, **settings: Any) -> Worker:
    """Give a project a worker.

    Args:
        settings: any of `CHANGEABLE`.
    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        BadInputError: naming the field.
        ConflictError: the name is taken.
    """
    require_right(by, project, Right.WORKERS_WRITE)
    worker = Worker(project=project, name=name, kind=kind)
    if kind == Worker.Kind.DESK:
        settings = {"base_model": DESK_MODEL, **settings}
    _set_fields(worker, settings)
    with transaction.atomic():
        try:
            with transaction.atomic():
                worker.save(force_insert=True)
        except IntegrityError:
            message = f"project {project.slug} has a worker {name} already"
            raise ConflictError(message, errors={"name": [message]}) from None
        record(Kind.WORKER_CREATED, subject=worker, by=by.handle, payload={"name": name, "kind": str(kind)})
    return worker


def change_worker(*, worker: Worker, by: User, **changes: Any) -> Worker:
    """Change some of `CHANGEABLE`. Raises as `create_worker`."""
    require_right(by, worker.project, Right.WORKERS_WRITE)
    with transaction.atomic():
        row = Worker.objects.select_for_update().select_related("project").get(pk=worker.pk)
        before = {name: getattr(row, name) for name in changes if name in CHANGEABLE}
        _set_fields(row, changes)
        changed = sorted(name for name, value in before.items() if getattr(row, name) != value)
        if changed:
            row.save(update_fields=changed)
            record(Kind.WORKER_CHANGED, subject=row, by=by.handle, payload={"fields": changed})
    return row


def _set_fields(worker: Worker, values: dict[str, Any]) -> None:
    if unknown := sorted(set(values) - CHANGEABLE):
        raise BadInputError(
            f"a worker's {', '.join(unknown)} cannot be set; {', '.join(sorted(CHANGEABLE))} can",
            errors={name: ["Cannot be set."] for name in unknown},
        )
    for name, value in values.items():
        setattr(worker, name, value)
    errors: dict[str, list[str]] = {}
    try:
        worker.clean_fields()
    except ValidationError as error:
        errors = error.message_dict
    if wrong := _find_sampling_fault(worker.sampling):
        errors["sampling"] = [wrong]
    if wrong := _find_model_fault(worker):
        errors["base_model"] = [wrong]
    if isinstance(worker.provider, Provider) and worker.provider.project_id not in (None, worker.project_id):
        errors["provider"] = [f"project {worker.project.slug} has no provider {worker.provider_id}"]
    if errors:
        summary = "; ".join(f"{field}: {' '.join(messages)}" for field, messages in errors.items())
        raise BadInputError(f"this cannot be a worker: {summary}", errors=errors)


def _find_sampling_fault(sampling: Any) -> str:
    if not isinstance(sampling, dict):
        return f"wanted an object, found {type(sampling).__name__}"
    for name, value in sampling.items():
        if name not in SAMPLING_RANGES:
            return f"wanted {', '.join(SAMPLING_RANGES)}, found {name}"
        low, high = SAMPLING_RANGES[name]
        whole = isinstance(low, int)
        is_number = isinstance(value, int) if whole else isinstance(value, int | float)
        if isinstance(value, bool) or not is_number or not low <= value <= high:
            return (
                f"{name}: wanted {'a whole number' if whole else 'a number'} from {low:g} to {high:g}, found {value!r}"
            )
    return ""


def _find_model_fault(worker: Worker) -> str:
    if (
        worker.kind == Worker.Kind.CHAT
        and not worker.base_model
        and not (worker.provider and worker.provider.default_model)
    ):
        return "a chat worker needs a base_model, or a provider with a default model"
    if worker.kind == Worker.Kind.DESK and worker.base_model != DESK_MODEL:
        return f"a desk worker's base_model is {DESK_MODEL!r}, found {worker.base_model!r}"
    return ""
