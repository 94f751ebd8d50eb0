"""Raters of a project that has lived: two people mostly right, and a judging scorer that approves everything."""

from collections.abc import Iterable

from apps.accounts.models import Project
from apps.calibration.models import Comparison
from apps.calibration.services import JudgedRow, Sitting, note_sittings
from apps.tasks.models import Task


def compare_raters(project: Project, tasks: Iterable[Task]) -> None:
    """One sitting an attempt: what was said of it and of its steps, beside what the world verified."""
    for task in tasks:
        for attempt in task.attempts.prefetch_related("steps"):
            truth = attempt.outcome or 0.0
            items = [(attempt.pk, None, truth), *((attempt.pk, step.pk, truth) for step in attempt.steps.all())]
            bob = [(*item, truth if place or attempt.index else 1 - truth) for place, item in enumerate(items)]
            sittings = [
                Sitting("user:bob", "person", [_row(item, "verified") for item in bob]),
                Sitting("scorer:prm", "scorer", [_row((*item, 1.0), "verified") for item in items]),
                Sitting(
                    "user:alice",
                    "person",
                    [_row((*item, truth), "verified") for item in items]
                    + [
                        JudgedRow(pk, step, truth, said, Comparison.Source.PEER, "user:bob")
                        for pk, step, truth, said in bob
                    ],
                ),
            ]
            note_sittings(project_id=project.pk, sittings=sittings)
            note_sittings(
                project_id=project.pk,
                sittings=[
                    Sitting(
                        "scorer:prm",
                        "scorer",
                        [
                            JudgedRow(pk, step, 1.0, said, Comparison.Source.HUMAN, "user:bob", False)
                            for pk, step, _, said in bob
                        ],
                    )
                ],
            )


def _row(item: tuple[int, int | None, float, float], source: str) -> JudgedRow:
    attempt, step, truth, said = item
    return JudgedRow(attempt, step, said, truth, source)
