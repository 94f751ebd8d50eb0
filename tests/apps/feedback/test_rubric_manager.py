"""The rubric manager off the desk: a model judges each criterion, the weights make the score."""

import json

import pytest
from pytest_django import Settings

from apps.calibration.services import set_rubric
from apps.feedback.create_reviews import open_reviews
from apps.feedback.managers.rubric import written_weights
from apps.feedback.models import Feedback, Review, StepFeedback
from apps.tasks.models import Task
from tentalis.core.canon import content_hash
from tests.apps.feedback.builders import make_chat_task
from tests.apps.feedback.test_policy import use_model
from tests.factories import make_project
from tests.fakes import FakeModelServer

RUBRIC = "- Is brief.\n- Is kind."


def judge(prompt: str, index: int) -> str:
    """The second answer is brief and unkind, the first kind and long."""
    brief, kind = (1.0, 0.0) if "second" in prompt else (0.0, 1.0)
    steps = [{"index": 0, "score": brief, "reason": "so"}, {"index": 1, "score": kind, "reason": "so"}]
    return json.dumps({"steps": steps, "overall": 0.5, "reason": "so"})


def review(task: Task) -> Feedback:
    open_reviews([task.pk])
    return task.feedback.get()


@pytest.fixture
def task(db: None) -> Task:
    return make_chat_task(make_project(rubric=RUBRIC, review_policy={"who": "ai", "ai_manager": "rubric"}))


def test_each_criterion_is_judged_and_kept(settings: Settings, task: Task) -> None:
    with FakeModelServer(reply=judge, models=["boss"], is_plain=True) as server:
        use_model(settings, server)
        feedback = review(task)
    assert (feedback.author, feedback.judge) == ("agent:rubric:chat", {"provider": None, "model": "boss"})
    words = StepFeedback.objects.filter(feedback=feedback).order_by("attempt__index")
    assert [word.items for word in words] == [
        {"Is brief.": -1.0, "Is kind.": 1.0, "always": 1.0},
        {"Is brief.": 1.0, "Is kind.": -1.0, "always": 1.0},
    ]
    assert [word.score for word in words] == [0.5, 0.5]


def test_refitted_weights_change_what_it_says(settings: Settings, task: Task) -> None:
    of = content_hash(written_weights(task.project, "chat"))
    weights = {"Is brief.": 3.0, "Is kind.": 0.5, "always": 0.0}
    set_rubric(project_id=task.project_id, handle="agent:rubric:chat", of=of, weights=weights, gate=0.5)
    with FakeModelServer(reply=judge, models=["boss"], is_plain=True) as server:
        use_model(settings, server)
        feedback = review(task)
    words = list(StepFeedback.objects.filter(feedback=feedback).order_by("attempt__index"))
    assert [word.score for word in words] == [pytest.approx(0.0759, abs=1e-4), pytest.approx(0.9241, abs=1e-4)]
    assert words[1].comment == "Is brief. +3.0; Is kind. -0.5"


@pytest.mark.parametrize(("rubric", "reason"), [("", "wanted one criterion or more"), (RUBRIC, "no JSON object")])
def test_what_cannot_be_judged_is_no_word(settings: Settings, task: Task, rubric: str, reason: str) -> None:
    type(task.project).objects.filter(pk=task.project_id).update(rubric=rubric)
    with FakeModelServer(reply=lambda *_: "I like it", models=["boss"], is_plain=True) as server:
        use_model(settings, server)
        open_reviews([task.pk])
    assert task.reviews.get().state == Review.State.SKIPPED
    assert reason in task.reviews.get().reason
    assert not Feedback.objects.exists()


def test_without_a_model_it_has_no_word(task: Task) -> None:
    open_reviews([task.pk])
    assert "no model is configured for the rubric's criteria" in task.reviews.get().reason
