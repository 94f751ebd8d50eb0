"""People and machines compared for a while: good ones, one who drifted away, a scorer that approves too much."""

import random
from datetime import timedelta

from django.utils import timezone

from apps.accounts.models import Member, Project, Role
from apps.calibration.models import Comparison, Rater
from apps.calibration.services import JudgedRow, Sitting, record_comparisons
from apps.feedback.models import Feedback
from apps.tasks.models import Attempt, Task
from tests.factories import make_task, make_user

ERRORS = {"user:alice": (0.04, 0.03), "user:bob": (0.03, 0.06), "user:dora": (0.45, 0.5), "scorer:prm": (0.37, 0.02)}
"""Handle -> (share of bad approved, share of good rejected)."""
PROMPT = "Ticket {}: “Two parcels, 3 kg and 5 kg, to Zurich by Friday. What will it cost me?”"


def build_raters(project: Project, *, sittings: int = 24, attempts: int = 4) -> dict[str, Rater]:
    """Handle -> rater, after so many tasks of so many attempts; alice and bob judge the same. Without chance."""
    rng = random.Random(7)
    if not project.members.filter(user__username="dora").exists():
        Member.objects.create(project=project, user=make_user("dora"), role=Role.REVIEWER)
    tasks = [make_task(project, prompt=PROMPT.format(4_200 + number), state="done") for number in range(sittings)]
    for place, task in enumerate(tasks):
        made = _make_attempts(task, attempts)
        truths = [float(rng.random() < 0.5) for _ in made]
        said = {handle: [_judge(rng, truth, rates) for truth in truths] for handle, rates in ERRORS.items()}
        spoken = [
            Sitting(
                handle,
                "scorer" if handle.startswith("scorer") else "person",
                [
                    *_rows(made, scores, truths, "verified"),
                    *_pairs(made, handle, said),
                ],
            )
            for handle, scores in said.items()
        ]
        record_comparisons(project_id=project.pk, sittings=spoken)
        for handle, scores in said.items():
            if handle.startswith("user"):
                _give(task, handle, scores[0], place)
    return {rater.handle: rater for rater in Rater.objects.filter(project=project)}


def _make_attempts(task: Task, count: int) -> list[Attempt]:
    return Attempt.objects.bulk_create(
        Attempt(task=task, index=index, worker=task.worker, answer="38.60 EUR") for index in range(count)
    )


def _judge(rng: random.Random, truth: float, rates: tuple[float, float]) -> float:
    is_wrong = rng.random() < rates[0 if truth == 0.0 else 1]
    return round(abs((1.0 - truth if is_wrong else truth) - 0.05 * rng.randrange(4)), 2)


def _rows(attempts: list[Attempt], said: list[float], truths: list[float], source: str) -> list[JudgedRow]:
    return [
        JudgedRow(attempt.pk, None, score, truth, source)
        for attempt, score, truth in zip(attempts, said, truths, strict=True)
    ]


def _pairs(attempts: list[Attempt], handle: str, said: dict[str, list[float]]) -> list[JudgedRow]:
    """Bob's words beside alice's, dora's beside bob's, the scorer's beside alice's."""
    other = {"user:bob": "user:alice", "user:dora": "user:bob", "scorer:prm": "user:alice"}.get(handle)
    if other is None:
        return []
    source = Comparison.Source.HUMAN if handle.startswith("scorer") else Comparison.Source.PEER
    return [
        JudgedRow(attempt.pk, None, mine, theirs, source, other, False)
        for attempt, mine, theirs in zip(attempts, said[handle], said[other], strict=True)
    ]


def _give(task: Task, handle: str, score: float, place: int) -> None:
    given = Feedback.objects.create(
        project_id=task.project_id,
        task=task,
        source="human",
        author=handle,
        score=0.8 if handle == "user:dora" and place >= 9 else score,
        active_s=2.0 if handle == "user:dora" and place % 5 == 4 else 35.0 + 3 * (place % 7),
    )
    at = timezone.now() - timedelta(minutes=3 * (24 - place))
    Feedback.objects.filter(pk=given.pk).update(created_at=at)
