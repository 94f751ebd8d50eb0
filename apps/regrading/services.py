"""Sets of new grades: asked for, made a block at a time beside the old ones, and what changed."""

import time
from typing import Any, Final, TypedDict

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F, Max, Q, QuerySet
from django.utils import timezone

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.audit.kinds import Kind
from apps.audit.services import move, record
from apps.base.errors import BadInputError
from apps.base.inserting import insert
from apps.evals.asking import reopen_items
from apps.evals.models import Evaluation
from apps.inference.metering import charge
from apps.outbox.services import held_write
from apps.regrading.models import Regrade, Regrading
from apps.regrading.rules import GradingRule
from apps.regrading.subjects import list_subjects, read_subjects
from apps.workers.models import Worker
from tentalis.outbound.scopes import current_scope

LEAST_BLOCK, BLOCK = 32, 1_000
"""Answers that are graded, and committed, together: few at first and where it takes long, more where it is quick."""
QUICK_S: Final = 1.0
DIGITS: Final = 4
"""Of a grade, old or new, as tries of runs have theirs: what differs by less is the same."""
DIFF: Final = ("higher", "lower", "same", "gained", "lost", "newly_scored", "unscored")
"""Higher and lower grades than before, and the same; those that came to the good side, and that left it; those that had
no grade before; those that have none now."""
_COUNT: Final = """
    SELECT count(*) FILTER (WHERE new > old), count(*) FILTER (WHERE new < old), count(*) FILTER (WHERE new = old),
        count(*) FILTER (WHERE old < %(side)s AND new >= %(side)s),
        count(*) FILTER (WHERE old >= %(side)s AND new < %(side)s),
        count(*) FILTER (WHERE old IS NULL AND new IS NOT NULL), count(*) FILTER (WHERE new IS NULL)
    FROM regrading_regrade WHERE regrading_id = %(regrading)s
"""


class AskedRegrading(TypedDict, total=False):
    """What `ask_regrading` takes beside the project and who asks."""

    source: str
    evaluation: Evaluation | None
    worker: Worker | None
    side: float


def ask_regrading(
    *,
    project: Project,
    rule: GradingRule,
    by: User,
    source: str = Regrading.Source.ATTEMPTS,
    evaluation: Evaluation | None = None,
    worker: Worker | None = None,
    side: float = 0.5,
) -> Regrading:
    """A set of new grades of all that there is now.

    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        BadInputError: naming the field: nothing to grade, or a run without what came of its tries.
    """
    require_right(by, project, Right.EVALS_WRITE)
    if (source == Regrading.Source.RUN) != (evaluation is not None):
        raise BadInputError.at("evaluation", "wanted a run, or the source of a history, found both or none")
    if not 0 < side <= 1:
        raise BadInputError.at("side", f"wanted a number above 0 and at most 1, found {side}")
    made = Regrading(
        project=project,
        source=source,
        evaluation=evaluation,
        worker=worker,
        rule=rule.to_json(),
        last_id=2**62,
        side=side,
        planned=0,
        asked_by=by.handle,
    )
    rows = list_subjects(made)
    made.last_id = rows.aggregate(last=Max("pk"))["last"] or 0
    made.planned = rows.count()
    if not made.planned:
        raise BadInputError.at("evaluation" if evaluation else "source", "wanted answers that are kept, found none")
    with transaction.atomic():
        made.save(force_insert=True)
        payload = {"source": source, "rule": sorted(made.rule), "planned": made.planned}
        record(Kind.REGRADING_ASKED, subject=made, by=by.handle, payload=payload)
    return made


def regrade(regrading_id: int, *, by: str) -> None:
    """Go on for a part of the time that a link has; what is left is done by the next one."""
    row = Regrading.objects.select_related("project", "worker", "evaluation__worker__project").get(pk=regrading_id)
    if row.state == Regrading.State.QUEUED:
        move(row, Regrading.State.RUNNING, by=by)
    if row.state != Regrading.State.RUNNING:
        return
    rule, until = GradingRule.from_json(row.rule), time.monotonic() + settings.TENTALIS["TASK_TIMEOUT_SECONDS"] / 4
    item_set = None if row.evaluation is None else reopen_items(row.evaluation)
    count = LEAST_BLOCK
    while (began := time.monotonic()) <= until:
        after = row.grades.aggregate(last=Max("subject_id"))["last"] or 0
        subjects = read_subjects(row, item_set, after=after, count=count)
        if not subjects:
            _end(row, by=by)
            return
        with charge(project=row.project, turn="judge"):
            found = rule.grade(row.project, subjects)
        if (scope := current_scope()) is not None:
            scope.require()  # what was not asked for want of time is no grade
        grades = [
            Regrade(
                regrading=row,
                subject_id=one.pk,
                old=_cut(one.old),
                new=_cut(new.value),
                cause=new.cause,
                details=list(new.details),
            )
            for one, new in zip(subjects, found, strict=True)
        ]
        row.graders = sorted({*row.graders, *(name for new in found for name in new.graders)})
        row.graded += len(grades)
        row.unscored += sum(one.new is None for one in grades)
        with held_write():
            insert(grades)
            Regrading.objects.filter(pk=row.pk).update(graders=row.graders, graded=row.graded, unscored=row.unscored)
        is_quick = time.monotonic() - began < QUICK_S
        count = min(BLOCK, 2 * count) if is_quick else max(LEAST_BLOCK, count // 2)


def _cut(grade: float | None) -> float | None:
    return None if grade is None else round(grade, DIGITS)


def _end(row: Regrading, *, by: str) -> None:
    move(row, Regrading.State.DONE, by=by, counts=count_changes(row), finished_at=timezone.now())


def count_changes(row: Regrading) -> dict[str, int]:
    """The diff, by the names of `DIFF`. One statement."""
    with connection.cursor() as cursor:
        cursor.execute(_COUNT, {"side": row.side, "regrading": row.pk})
        [found] = cursor.fetchall()
    return dict(zip(DIFF, found, strict=True))


def list_changed(row: Regrading, changed: str) -> QuerySet[Regrade]:
    """Its grades: all, or those of answers that changed their `side`, or their `grade`."""
    good_before, good_now = Q(old__gte=row.side), Q(new__gte=row.side)
    bad_before, bad_now = Q(old__lt=row.side), Q(new__lt=row.side)
    if changed == "side":
        return row.grades.filter((good_before & bad_now) | (bad_before & good_now))
    if changed == "grade":
        return row.grades.exclude(old=F("new")).exclude(old=None, new=None)
    return row.grades.all()


def find_unfinished(regrading_ids: Any) -> list[tuple[int, int]]:
    """(id, project) of those that go on."""
    running = Regrading.objects.filter(pk__in=regrading_ids, state=Regrading.State.RUNNING)
    return list(running.values_list("pk", "project_id"))


def fail_regrading(regrading_id: int, *, link: str, reason: str, by: str) -> None:
    """It could not be done; what was graded until then is kept."""
    row = Regrading.objects.get(pk=regrading_id)
    if row.state in {Regrading.State.QUEUED, Regrading.State.RUNNING}:
        move(row, Regrading.State.FAILED, by=by, failure=reason)


def revive_regrading(regrading_id: int, *, link: str, by: str) -> None:
    """Let one that failed go on behind its last grade."""
    row = Regrading.objects.get(pk=regrading_id)
    if row.state == Regrading.State.FAILED:
        move(row, Regrading.State.RUNNING, by=by, failure="")
