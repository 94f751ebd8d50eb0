"""What a reviewer says of one step reaches exactly that step's tokens in the next batch, and nothing else."""

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Project
from apps.feedback.models import Review
from apps.rollouts.models import Batch
from apps.rollouts.selectors import iterate_records
from apps.rollouts.services import build_rollouts
from apps.scoring.models import StepScore
from apps.tasks.models import Step, Task
from tentalis.core.learning.advantages import token_advantages
from tentalis.core.learning.recipes import Recipe
from tests.factories import make_judged_task, make_user

JUDGED = {(0, 0): 0.75, (0, 1): 0.5, (1, 0): 0.25, (1, 1): 0.5}
"""(attempt, step) -> what the scorer gave."""


def open_scored_review(project: Project) -> Review:
    task = make_judged_task(project, state=Task.State.IN_REVIEW)
    task.attempts.update(score_details={"profile": {"prm": 1.0}})
    for step in Step.objects.filter(attempt__task=task).select_related("attempt"):
        score = JUDGED[step.attempt.index, step.index]
        StepScore.objects.create(attempt=step.attempt, step=step, scorer="prm", score=score)
    review = Review.objects.create(project=project, task=task, audience="human", claimed_by=make_user("bob"))
    Review.objects.filter(pk=review.pk).update(lease_until="2100-01-01T00:00:00Z")
    return review


def learn_from(project: Project, said: dict[str, str]) -> list[list[float] | None]:
    """Token advantages of the batch that a task enters after bob filled his form with `said`."""
    review = open_scored_review(project)
    client = Client()
    client.force_login(make_user("bob"))
    sent = client.post(reverse("console:review", args=(project.slug, review.pk)), said)
    assert sent.status_code == 302, sent.content.decode()
    Task.objects.filter(pk=review.task_id).update(state=Task.State.LEARNING)
    build_rollouts([review.task_id], by="ledger")
    records = [one for one in iterate_records(Batch.objects.get(project=project)) if one.group_id == review.task_id]
    return token_advantages(records, Recipe())


@pytest.mark.django_db
@pytest.mark.parametrize(("attempt", "step"), JUDGED)
def test_a_reviewers_step_score_changes_exactly_that_steps_tokens_advantages(
    project: Project, attempt: int, step: int
) -> None:
    before = learn_from(project, {"text": "fine"})
    after = learn_from(project, {"text": "fine", f"a{attempt}-s{step}-score": "0"})
    changed = [
        (place, token)
        for place, (left, right) in enumerate(zip(before, after, strict=True))
        for token, (old, new) in enumerate(zip(left or (), right or (), strict=True))
        if old != new
    ]
    tokens = [3 * step + token for token in range(3) if (step, token) != (0, 2)]  # that one is a tool's
    assert changed == [(attempt, token) for token in tokens]
    for token in tokens:
        row, old_row = after[attempt], before[attempt]
        assert row is not None
        assert old_row is not None
        assert row[token] - old_row[token] == pytest.approx(0.5 * (0.0 - JUDGED[attempt, step]) / 0.5)
