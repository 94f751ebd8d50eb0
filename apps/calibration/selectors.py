"""What is known of raters: weights and quarantine for the apps that use their words, rows for pages."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db.models import F, Q, QuerySet

from apps.calibration.models import Comparison, Rater
from apps.judges.models import JudgeProbe, name_llm_manager, name_pair_rater
from tentalis.core.scoring.calibration import Confusion, Interval, Standing, approves

UNKNOWN_WEIGHT = 1.0
REMEMBERED = 2_000
"""Comparisons a weight is counted anew from; older ones have no say left."""
WINDOW = 50
"""Items of one kind behind an error rate in the history."""
POINTS = 60

Judged = tuple[float, float]
"""(said, truth)."""


@dataclass(frozen=True)
class Point:
    """A rater after so many audited items.

    Args:
        items: audited until then, of those that are remembered.
        false_approvals: of the last WINDOW bad items; false_rejections: of the last WINDOW good ones.
    """

    items: int
    at: datetime
    weight: float
    false_approvals: Interval
    false_rejections: Interval


def weights_of(project_id: int, handles: Iterable[str]) -> dict[str, float]:
    """Handle -> factor on the trust in its word, for every handle asked for. One query.

    In [0, 1]; 1 for a rater nobody compared yet, 0 for a quarantined one; a learning manager's weight times its gate.
    """
    wanted = set(handles)
    rows = Rater.objects.filter(project_id=project_id, handle__in=wanted).order_by()
    found = {
        handle: 0.0 if quarantined_at else weight * (1.0 if gate is None else gate)
        for handle, weight, gate, quarantined_at in rows.values_list("handle", "weight", "gate", "quarantined_at")
    }
    return {handle: found.get(handle, UNKNOWN_WEIGHT) for handle in wanted}


def find_rubric(project_id: int, handle: str, *, of: str) -> tuple[dict[str, float], float | None]:
    """A rubric manager's refitted weights, and its gate, None before it has one.

    Args:
        of: hash of the rubric as it is written now; weights refitted to another text count no more.
    Returns:
        {} for the weights it was written with.
    """
    row = Rater.objects.filter(project_id=project_id, handle=handle).values_list("rubric", "gate").first()
    rubric, gate = row or ({}, None)
    return (rubric["weights"] if rubric.get("of") == of else {}), gate


def find_adapter(project_id: int, handle: str) -> tuple[dict[str, str], float | None]:
    """What a manager that is a language model judges by, {"name", "uri", "sha256"} or {}; and its gate, as above."""
    row = Rater.objects.filter(project_id=project_id, handle=handle).values_list("adapter", "gate").first()
    return row or ({}, None)


def is_quarantined(project_id: int, handle: str) -> bool:
    """Its word is not used, and it is given no new reviews."""
    return Rater.objects.filter(project_id=project_id, handle=handle, quarantined_at__isnull=False).exists()


def find_counted(rater: Rater) -> QuerySet[Comparison]:
    """The comparisons that are in the rater's weight."""
    rows = Comparison.objects.filter(rater=rater, counts=True)
    return rows.filter(at__gte=rater.counted_from) if rater.counted_from else rows


def find_sittings(rater: Rater) -> list[tuple[datetime, list[Judged]]]:
    """The last `REMEMBERED` comparisons in the weight, oldest first: (when, (said, truth) of one sitting)."""
    rows = find_counted(rater).order_by("-id").values_list("at", "said", "truth")[:REMEMBERED]
    sittings: dict[datetime, list[Judged]] = {}
    for at, said, truth in reversed(rows):
        sittings.setdefault(at, []).append((said, truth))
    return list(sittings.items())


def trace_history(sittings: Iterable[tuple[datetime, list[Judged]]]) -> list[Point]:
    """How weight and error rates went, at most POINTS of them, the last one as it is now."""
    standing, items = Standing(), 0
    kinds: dict[bool, list[Judged]] = {False: [], True: []}
    found: list[Point] = []
    sittings = list(sittings)
    every = max(1, -(-len(sittings) // POINTS))
    for place, (at, judged) in enumerate(sittings, start=1):
        standing, _ = standing.add(judged)
        items += len(judged)
        for said, truth in judged:
            kinds[approves(truth)].append((said, truth))
        if (len(sittings) - place) % every == 0:
            found.append(
                Point(
                    items,
                    at,
                    round(standing.weight(), 4),
                    Confusion.of(kinds[False][-WINDOW:]).false_approval_rate,
                    Confusion.of(kinds[True][-WINDOW:]).false_rejection_rate,
                )
            )
    return found


def find_words_beside_people(probe: JudgeProbe) -> list[list[Judged]]:
    """What the judge of a probe and people said of the same tasks, as AI manager or of pairs, by task; the last
    `REMEMBERED` words. What was compared before it was reinstated counts no more.

    Handles name a model without its server: two servers' models of one name are told apart by nobody.
    """
    handles = [name_llm_manager(probe.model), name_pair_rater(probe.model)]
    rows = Comparison.objects.filter(
        Q(rater__counted_from=None) | Q(at__gte=F("rater__counted_from")),
        rater__project=probe.project_id,
        rater__handle__in=handles,
        source__in=("human", "gold"),
    )
    tasks: dict[int, list[Judged]] = {}
    for task, said, truth in rows.order_by("-id").values_list("attempt__task", "said", "truth")[:REMEMBERED]:
        tasks.setdefault(task, []).append((said, truth))
    return list(tasks.values())
