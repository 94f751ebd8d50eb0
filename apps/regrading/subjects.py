"""What is graded anew, read back from what is kept: tries of runs, and a project's attempts."""

from collections.abc import Iterable
from typing import Any

from django.db.models import F, FloatField, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce

from apps.evals.models import ItemTry
from apps.evals.panels import ItemSet
from apps.evals.records import read_draft
from apps.feedback.models import Feedback
from apps.regrading.models import Regrading
from apps.regrading.rules import Subject
from apps.tasks.drafts import rebuild_draft, with_finish_reasons
from apps.tasks.models import WITH_STEPS, Attempt

Source = Regrading.Source


def list_subjects(regrading: Regrading) -> QuerySet[Any]:
    """Rows of what it grades, in the order of their ids, each with `old`."""
    if regrading.source == Source.RUN:
        rows = ItemTry.objects.filter(evaluation=regrading.evaluation, record__isnull=False)
        return rows.annotate(old=F("outcome")).filter(pk__lte=regrading.last_id).order_by("pk")
    attempts = Attempt.objects.filter(task__project=regrading.project, state=Attempt.State.ANSWERED)
    if regrading.worker is not None:
        attempts = attempts.filter(worker=regrading.worker)
    if regrading.source == Source.ROLLOUTS:
        found = attempts.filter(rollout__isnull=False).annotate(old=F("rollout__reward"))
    elif regrading.source == Source.REVIEWS:
        said = Feedback.objects.counting().filter(task=OuterRef("task"), score__isnull=False, source="human")
        newest = Subquery(said.order_by("-pk").values("score")[:1], output_field=FloatField())
        found = attempts.filter(task__group_size=1).annotate(old=newest).filter(old__isnull=False)
    else:
        found = attempts.annotate(old=Coalesce("outcome", "score"))
    return found.filter(pk__lte=regrading.last_id).order_by("pk")


def read_subjects(regrading: Regrading, item_set: ItemSet | None, *, after: int, count: int) -> list[Subject]:
    """The next so many behind an id.

    Args:
        item_set: of the run whose tries they are; None of a history.
    """
    rows = list_subjects(regrading).filter(pk__gt=after)
    if item_set is not None:
        return _read_tries(item_set, rows.select_related("record")[:count])
    told = (
        *("text", "answer", "error", "verification"),
        *("task__environment", "task__prompt", "task__reference", "task__checks"),
    )
    attempts = with_finish_reasons(rows).select_related("task").prefetch_related(WITH_STEPS).only(*told)
    return [
        Subject(
            pk=one.pk,
            environment=one.task.environment,
            prompt=one.task.prompt,
            reference=one.task.reference,
            checks=one.task.checks,
            draft=rebuild_draft(one, one.ordered_steps),
            old=one.old,
            verification=one.verification,
        )
        for one in attempts[:count]
    ]


def _read_tries(item_set: ItemSet, rows: Iterable[Any]) -> list[Subject]:
    return [
        Subject(
            pk=row.pk,
            environment=item_set.world.name,
            prompt=item_set.items[row.place].prompt,
            reference=item_set.items[row.place].reference,
            checks=item_set.items[row.place].checks,
            draft=read_draft(row.record),
            old=row.old,
            verification=row.record.verification,
        )
        for row in rows
    ]
