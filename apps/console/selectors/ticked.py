"""Ticked rows of a list, or all that its filter leaves, and what an action would come to for them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from django.http import QueryDict
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from apps.accounts.models import Project, User
from apps.base.errors import BadInputError
from apps.feedback.bulk import MAX_REVIEWS
from apps.feedback.models import Review
from apps.feedback.queue import find_waiting
from apps.finding.bounds import within
from apps.finding.failed import FailedFilters
from apps.finding.reviews import ReviewFilters
from apps.finding.tasks import TaskFilters
from apps.outbox.models import Segment
from apps.outbox.selectors import find_dead
from apps.tasks.models import Task

NOT_FILTERS = ("of", "action", "id", "all", "after", "before", "fragment", "sort", "csrfmiddlewaretoken")


@dataclass(frozen=True)
class Doing:
    """What can be done to ticked rows.

    Attributes:
        lines: what will happen, a sentence each.
    """

    label: str | Promise
    lines: Sequence[str | Promise]
    is_dangerous: bool = False


DOINGS: Mapping[str, Mapping[str, Doing]] = {
    "tasks": {
        "cancel": Doing(
            _("Cancel tasks"),
            (
                _("Work on each of them stops, and nobody is asked to review it any more."),
                _("What was done stays readable, and teaches nothing."),
                _("This cannot be taken back."),
            ),
            is_dangerous=True,
        ),
        "assign": Doing(_("Assign"), (_("Their open reviews are given to one person, or to anyone again."),)),
        "close": Doing(
            _("Close reviews"),
            (_("Their open reviews are closed without a judgement; each task goes on without one."),),
        ),
        "judge": Doing(
            _("Judge"),
            (
                _("Each of their open reviews gets the same judgement, and is learned from."),
                _("It can be taken back afterwards."),
            ),
        ),
    },
    "reviews": {
        "assign": Doing(_("Assign"), (_("They are given to one person, or to anyone again."),)),
        "close": Doing(_("Close"), (_("They are closed without a judgement; each task goes on without one."),)),
        "judge": Doing(
            _("Judge"),
            (_("Each gets the same judgement, and is learned from."), _("It can be taken back afterwards.")),
        ),
    },
    "failed": {
        "replay": Doing(_("Replay"), (_("Each is tried again from where it failed."),)),
        "put_away": Doing(
            _("Put away"),
            (
                _("They leave this list without another try; what they worked on stays failed."),
                _("This cannot be taken back."),
            ),
            is_dangerous=True,
        ),
    },
}


@dataclass(frozen=True)
class Ticked:
    """What was ticked and what of it can be acted on.

    Attributes:
        number: how many rows of the list. ids: of what is acted on: of tasks, their open reviews where it is they.
    """

    number: int
    ids: Sequence[int]


def find_ticked(project: Project, user: User, *, of: str, action: str, query: QueryDict) -> Ticked:
    """The rows that are meant.

    Raises:
        BadInputError: none, too many, or a filter that cannot be followed.
    """
    rows = _all_rows(project, user, of, query) if query.get("all") else _chosen_rows(project, user, of, query)
    with within():
        found = list(rows.order_by("pk").values_list("pk", flat=True)[: MAX_REVIEWS + 1])
        if not found:
            raise BadInputError("tick some rows first: none is chosen")
        if len(found) > MAX_REVIEWS:
            raise BadInputError(f"wanted at most {MAX_REVIEWS:,} rows at once, found more; narrow them")
        return Ticked(len(found), list(_find_acted_on(project, of, action, found)))


def _find_acted_on(project: Project, of: str, action: str, ids: Sequence[int]) -> QuerySet[Any, int]:
    if action == "cancel":
        rows: QuerySet[Any] = Task.objects.filter(pk__in=ids).exclude(state__in=Task.FINAL)
    elif of == "failed":
        rows = Segment.objects.filter(pk__in=ids, state=Segment.State.DEAD)
    else:
        rows = Review.objects.filter(project=project, state=Review.State.OPEN, audience=Review.Audience.HUMAN)
        rows = rows.filter(**{"task__in" if of == "tasks" else "pk__in": ids})
    return rows.order_by("pk").values_list("pk", flat=True)


def _chosen_rows(project: Project, user: User, of: str, query: QueryDict) -> QuerySet[Any]:
    typed = query.getlist("id")
    if not all(one.isascii() and one.isdigit() and len(one) < 19 for one in typed):
        raise BadInputError("id: wanted numbers of rows, found something else")
    ids = [int(one) for one in typed]
    if of == "failed":
        return find_dead(project.pk).filter(pk__in=ids)
    rows: QuerySet[Any] = (Task if of == "tasks" else Review).objects.filter(project=project)
    return rows.filter(pk__in=ids)


def _all_rows(project: Project, user: User, of: str, query: QueryDict) -> QuerySet[Any]:
    filters = {name: str(value) for name, value in query.items() if name not in NOT_FILTERS}
    if of == "tasks":
        rows: QuerySet[Any] = TaskFilters.bind(filters, Task.objects.filter(project=project), user).qs
        return rows
    if of == "reviews":
        waiting = find_waiting(project, with_snoozed=filters.get("held") == "snoozed")
        reviews: QuerySet[Any] = ReviewFilters.bind(filters, waiting, user).qs
        return reviews
    failed: QuerySet[Any] = FailedFilters.bind(filters, find_dead(project.pk), user).qs
    return failed
