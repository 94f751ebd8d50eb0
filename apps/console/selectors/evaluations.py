"""Evaluations, for their pages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from django.db.models import QuerySet

from apps.accounts.models import Project
from apps.base.errors import TentalisError
from apps.evals.asking import reopen_items
from apps.evals.models import Evaluation, ItemTry

PAGE = 25
COMPARABLE = 20
SHOWN_ITEMS = 25


@dataclass(frozen=True)
class TriedItem:
    """What became of an item.

    Args:
        number: its place in the set, from 1; prompt: "" where its set cannot be opened any more.
        outcome: the mean of its tries that have one; None: none has. reasons: why tries have none.
    """

    number: int
    prompt: str
    tries: int
    outcome: float | None
    reasons: Sequence[str]


def find_asked(project: Project, *, before: int | None = None) -> tuple[list[Evaluation], int | None]:
    """A page of what people asked for, newest first, and the id to go on below."""
    rows = _asked(project)
    if before is not None:
        rows = rows.filter(pk__lt=before)
    found = list(rows[: PAGE + 1])
    return found[:PAGE], found[PAGE - 1].pk if len(found) > PAGE else None


def find_comparable(evaluation: Evaluation) -> list[Evaluation]:
    """The newest others that people asked for on the very same items."""
    same = _asked(evaluation.project).filter(item_set_hash=evaluation.item_set_hash, played__gt=0)
    return list(same.exclude(pk=evaluation.pk)[:COMPARABLE]) if evaluation.item_set_hash else []


def list_tried(evaluation: Evaluation, *, start: int = 0) -> tuple[list[TriedItem], int | None]:
    """A page of its items in their order, and where the next page starts."""
    rows: dict[int, list[ItemTry]] = {}
    end = start + SHOWN_ITEMS
    for row in evaluation.item_tries.filter(place__gte=start, place__lt=end).order_by("place", "number"):
        rows.setdefault(row.place, []).append(row)
    prompts = _find_prompts(evaluation)
    shown = [_sum_up(place, prompts.get(place, ""), tries) for place, tries in rows.items()]
    return shown, end if evaluation.item_tries.filter(place__gte=end).exists() else None


def _asked(project: Project) -> QuerySet[Evaluation]:
    asked = Evaluation.objects.filter(project=project).exclude(asked_by="")
    return asked.select_related("worker", "adapter").order_by("-id")


def _sum_up(place: int, prompt: str, tries: Sequence[ItemTry]) -> TriedItem:
    scored = [row.outcome for row in tries if row.outcome is not None]
    reasons = dict.fromkeys(row.reason for row in tries if row.reason)
    return TriedItem(place + 1, prompt, len(tries), fmean(scored) if scored else None, list(reasons))


def _find_prompts(evaluation: Evaluation) -> Mapping[int, str]:
    try:
        return {place: item.prompt for place, item in enumerate(reopen_items(evaluation).items)}
    except (TentalisError, ValueError):  # it is the gate's own, or its set changed
        return {}
