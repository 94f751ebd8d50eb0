"""Checks beside the work they judge: one is tried on what a project's workers have answered already, before anything is
judged by it, and is deleted while nothing uses it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import QuerySet, TextField
from django.db.models.functions import Cast

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.errors import ConflictError
from apps.checks.graders import ATTEMPTS_AT_ONCE, Graders, convene_graders
from apps.checks.language import Ask, Check, read_check
from apps.checks.models import NamedCheck
from apps.checks.results import CheckError, CheckResult, CheckVerdict, leave_unscored
from apps.checks.services import read_written
from apps.evals.models import Item
from apps.inference.metering import charge
from apps.tasks.drafts import rebuild_draft, with_finish_reasons
from apps.tasks.models import WITH_STEPS, Attempt, Task
from apps.tasks.verifying import read_verification
from apps.worlds.verifying import open_context
from tentalis.core.worlds import AttemptDraft
from tentalis.outbound.scopes import CancelScope, ScopedThreadPool

MOST_ANSWERS = 200
MOST_ASKED = 10
"""Answers that a check is tried on which asks a scorer, a judge or a grader that asks one: a judge is asked three times
about each."""
ASKED_WITHIN_S = 60
"""What a judge does not say by then is unscored."""
EXAMPLES = 5
"""Of each verdict."""


Tried = tuple[Attempt | None, AttemptDraft]


class TriedAnswer(NamedTuple):
    """What a check says of one answer; `attempt` is None for one that was only given to be tried."""

    attempt: Attempt | None
    answer: str
    result: CheckResult


class TriedCheck(NamedTuple):
    """How a check did.

    Args:
        counts: answers by verdict; examples: the newest few of each verdict.
    """

    counts: Mapping[str, int]
    examples: Sequence[TriedAnswer]


def try_check(
    *, project: Project, spec: Any, by: User, answers: Sequence[str] | None = None, environment: str = ""
) -> TriedCheck:
    """Run a check that nobody has to have written down yet. Writes nothing but what a judge costs.

    Args:
        answers: to be tried; None takes the project's newest answered attempts, of an environment where one is named.
            `MOST_ANSWERS` of them at most, and where somebody is asked `MOST_ASKED`.
    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        BadInputError: at `spec`, what was wanted and what was found.
    """
    require_right(by, project, Right.EVALS_WRITE)
    check = read_written(project, spec)
    most = MOST_ASKED if check.asked else MOST_ANSWERS
    tried = _find_answers(project, answers, environment, most)
    with charge(project=project, turn="judge"), CancelScope(ASKED_WITHIN_S):
        results = _run_each(check, tried, convene_graders(project, check.spec), environment)
    counts: Counter[str] = Counter({verdict.value: 0 for verdict in CheckVerdict})
    examples: list[TriedAnswer] = []
    for (attempt, draft), result in zip(tried, results, strict=True):
        counts[result.verdict] += 1
        if counts[result.verdict] <= EXAMPLES:
            examples.append(TriedAnswer(attempt, draft.answer, result))
    return TriedCheck(counts, examples)


def _run_each(check: Check, tried: Sequence[Tried], graders: Graders | None, environment: str) -> list[CheckResult]:
    if graders is None:
        return [_run(check, attempt, draft.answer) for attempt, draft in tried]

    def ask(one: Tried) -> CheckResult:
        attempt, draft = one
        task = attempt.task if attempt else Task(environment=environment)
        told: dict[str, Any] = {
            "environment": task.environment,
            "prompt": task.prompt,
            "reference": task.reference,
            "draft": draft,
        }
        context = open_context(graders, **told, verification=read_verification(attempt) if attempt else None)
        return _run(check, attempt, draft.answer, partial(graders.ask, context=context))

    with ScopedThreadPool(ATTEMPTS_AT_ONCE) as pool:
        return list(pool.map(ask, tried))


def _run(check: Check, attempt: Attempt | None, answer: str, ask: Ask | None = None) -> CheckResult:
    """What it says with the facts of the answer's task; where that lacks one, the answer is unscored."""
    if check.facts and attempt is not None:
        try:
            check = read_check(check.spec, facts=attempt.task.metadata)
        except CheckError as error:
            return leave_unscored(check.kind, str(error))
    return check.run(answer, ask)


def _find_answers(project: Project, answers: Sequence[str] | None, environment: str, most: int) -> list[Tried]:
    if answers is not None:
        return [(None, AttemptDraft(answer=answer)) for answer in answers[:most]]
    found = Attempt.objects.filter(
        task__project=project, state=Attempt.State.ANSWERED, is_private=False, task__evaluation=None
    )
    if environment:
        found = found.filter(task__environment=environment)
    told = with_finish_reasons(found).select_related("task").prefetch_related(WITH_STEPS)
    newest = list(told.order_by("-id")[:most])
    return [(one, rebuild_draft(one, one.ordered_steps)) for one in newest]


def remove_check(*, check: NamedCheck, by: User) -> None:
    """Delete a version of a check that nothing names: a name with its version means one text for good.

    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        ConflictError: naming what uses it.
    """
    require_right(by, check.project, Right.EVALS_WRITE)
    with transaction.atomic():
        found = NamedCheck.objects.select_for_update().get(pk=check.pk)
        if words := say_check_stays(found):
            raise ConflictError(words)
        record(Kind.CHECK_REMOVED, subject=found, by=by.handle, payload={"check": str(found)})
        found.delete()


def say_check_stays(check: NamedCheck) -> str:
    """Why a version of a check cannot be deleted; "" where it can."""
    if check.default_for:
        return f"{check} checks tasks of {check.default_for} by default: take that from it first"
    users = _find_users(check)
    return f"{check} is kept for what uses it: {', '.join(users)}" if users else ""


def _find_users(check: NamedCheck) -> list[str]:
    """In words. A check is written out where it is used, beside its name and version."""
    of_project = {
        "tasks": (Task.objects.filter(project=check.project_id), "checks"),
        "items of tasksets": (Item.objects.filter(taskset__project=check.project_id), "checks"),
        "other checks": (NamedCheck.objects.filter(project=check.project_id).exclude(pk=check.pk), "spec"),
    }
    named, users = f'"use": "{check}"', []
    for what, (rows, field) in of_project.items():
        told: QuerySet[Any] = rows.alias(told=Cast(field, TextField())).filter(told__contains=named)
        if count := told.count():
            users.append(f"{count} {what}")
    return users
