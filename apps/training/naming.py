"""What people call a run, and say of it."""

from collections.abc import Sequence

from django.db import transaction

from apps.accounts.models import User
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.errors import BadInputError
from apps.training.models import TrainingRun

MOST_NAME, MOST_COMMENT, MOST_TAGS, MOST_TAG = 100, 4_000, 10, 40


def describe_run(
    *,
    run: TrainingRun,
    by: User,
    name: str | None = None,
    comment: str | None = None,
    tags: Sequence[str] | None = None,
) -> TrainingRun:
    """Give a run a name, a comment, tags; None leaves what there is. The audit says which changed and by whom.

    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        BadInputError: naming the field.
    """
    require_right(by, run.project, Right.RUNS_WRITE)
    said = {
        "name": None if name is None else check_name(name),
        "comment": None if comment is None else _check_length("comment", comment, MOST_COMMENT),
        "tags": None if tags is None else check_tags(tags),
    }
    with transaction.atomic():
        row = TrainingRun.objects.select_for_update(no_key=True).only(*said).get(pk=run.pk)
        changed = {field: value for field, value in said.items() if value is not None and getattr(row, field) != value}
        if changed:
            TrainingRun.objects.filter(pk=run.pk).update(**changed)
            record(Kind.RUN_DESCRIBED, subject=run, by=by.handle, payload={"changed": sorted(changed)})
    for field, value in changed.items():
        setattr(run, field, value)
    return run


def check_name(name: str) -> str:
    """Raises BadInputError where it is longer than `MOST_NAME` or more than a line."""
    found = _check_length("name", name, MOST_NAME)
    if len(found.splitlines()) > 1:
        raise BadInputError.at("name", "wanted one line, found more")
    return found


def check_tags(tags: Sequence[str]) -> list[str]:
    """Trimmed, each once, in their order. Raises BadInputError where one is empty or too long, or they are too many."""
    found = list(dict.fromkeys(tag.strip() for tag in tags))
    if len(found) > MOST_TAGS:
        raise BadInputError.at("tags", f"wanted at most {MOST_TAGS}, found {len(found)}")
    for tag in found:
        if not tag or len(tag) > MOST_TAG or "," in tag or not tag.isprintable():
            raise BadInputError.at(
                "tags", f"wanted 1 to {MOST_TAG} printable characters and no comma, found {tag[:60]!r}"
            )
    return found


def _check_length(field: str, text: str, most: int) -> str:
    found = text.strip()
    if len(found) > most:
        raise BadInputError.at(field, f"wanted at most {most} characters, found {len(found)}")
    if "\0" in found:
        raise BadInputError.at(field, "wanted text, found a NUL")
    return found
