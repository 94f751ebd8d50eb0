"""The desk's whole way: scored by the verifier, reviewed by the rule book, hinted by grammar."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import Project
from apps.feedback.create_reviews import open_reviews
from apps.feedback.hints import extract_hints
from apps.feedback.selectors import effective_judgement
from apps.scoring.services import score_tasks
from apps.tasks.models import Task
from tests.apps.feedback.builders import make_desk_task, read_hint, write_answer
from tests.factories import make_project

FULL_HINT = "use ship, write the unit, check the sum"


@pytest.fixture
def desk_project(db: None) -> Project:
    return make_project(review_policy={"who": "ai", "ai_manager": "rule-book"})


def test_a_desk_task_ends_with_verified_rewards_step_scores_and_the_full_hint(desk_project: Project) -> None:
    task = make_desk_task(desk_project, [write_answer(), write_answer("gift"), write_answer(with_unit=False)])
    score_tasks([task.pk])
    open_reviews([task.pk])
    extract_hints([task.pk])
    task.refresh_from_db()
    assert task.state == Task.State.LEARNING
    assert task.answer == "17 EUR"
    judgements = list(effective_judgement(task).values())
    assert [judgement.reward for judgement in judgements] == [1.0, 0.0, 0.0]
    assert {judgement.reward_source for judgement in judgements} == {"verified"}
    assert [[score for _, score in sorted(judgement.step_scores.items())] for judgement in judgements] == [
        [1.0, 1.0, 1.0],
        [1.0, 0.0, 0.0],
        [1.0, 1.0, 0.3],
    ]
    assert read_hint(task) == FULL_HINT


def test_the_links_of_a_group_of_eight_take_few_queries(desk_project: Project) -> None:
    task = make_desk_task(desk_project, [write_answer()] * 8)
    counts = {}
    for name, link in {"score": score_tasks, "review": open_reviews, "hint": extract_hints}.items():
        with CaptureQueriesContext(
            connection,
        ) as queries:
            link([task.pk])
        counts[name] = len([query for query in queries if "SAVEPOINT" not in query["sql"]])
    assert counts["score"] <= 8
    assert counts["review"] <= 10
    assert counts["hint"] <= 8  # attempts and steps by their ids: a join with them walks all there ever were
    with CaptureQueriesContext(connection) as queries:
        effective_judgement(task)
    assert len(queries) == 5


def test_every_link_run_twice_changes_nothing_more(desk_project: Project) -> None:
    task = make_desk_task(desk_project, [write_answer(), write_answer("gift")])
    for link in (score_tasks, open_reviews, extract_hints):
        link([task.pk])
        before = count_rows(task)
        link([task.pk])
        assert count_rows(task) == before


def count_rows(task: Task) -> tuple[int, ...]:
    task.refresh_from_db()
    scores = sum(attempt.step_scores.count() for attempt in task.attempts.all())
    return (scores, task.reviews.count(), task.feedback.count(), task.hints.count(), len(task.state))
