"""Whose hints teach, and how far: those of who is trusted, as it is with rewards."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now
from django.utils import timezone

from apps.accounts.models import Project, User
from apps.calibration.models import Rater
from apps.feedback.hints import NOTHING, ONLY_AUDITED, extract_hints
from apps.feedback.models import Feedback, Hint
from apps.feedback.selectors import effective_judgement, find_hint, find_hints
from apps.feedback.submit import give_task_feedback
from apps.judges.models import JudgeProbe, name_llm_manager
from apps.rollouts.models import Rollout
from apps.rollouts.rejudging import rejudge_rollouts
from apps.rollouts.selectors import make_records
from apps.rollouts.services import build_rollouts
from apps.tasks.models import Task
from tests.factories import make_judged_task, make_task

pytestmark = pytest.mark.django_db

RULE = "Always refuse refunds."
WHY = ("quarantined", "only audited yet", "below its bar")


def add_word(project: Project, why: str) -> Task:
    """A task of which an AI manager said a rule that is not to be learnt."""
    task = make_task(project, state=Task.State.LEARNING)
    author = name_llm_manager("judge")
    trust = 0.0 if why == "only audited yet" else 1.0
    Feedback.objects.create(
        project=project, task=task, source="ai", author=author, score=0.1, hint_text=RULE, trust=trust
    )
    return task


def distrust(project: Project, why: str) -> None:
    if why == "quarantined":
        Rater.objects.create(project=project, handle=name_llm_manager("judge"), kind="ai", quarantined_at=Now())
    if why == "below its bar":
        JudgeProbe.objects.create(
            project=project, model="judge", version="0" * 12, state="done", verdict="below", words="unfair",
            asked_by="user:alice", finished_at=timezone.now() + timedelta(minutes=1),
        )  # fmt: skip


@pytest.mark.parametrize("why", WHY[1:])
def test_no_hint_is_drawn_from_words_that_never_teach_and_it_is_said_why(project: Project, why: str) -> None:
    task = add_word(project, why)
    distrust(project, why)
    extract_hints([task.pk])
    hint = Hint.objects.get()
    assert (hint.text, hint.source) == ("", NOTHING)
    assert hint.reason == ONLY_AUDITED if why == "only audited yet" else "the judge judge is below" in hint.reason


@pytest.mark.parametrize("why", WHY)
def test_a_hint_is_taught_no_more_once_its_giver_is_not_trusted(project: Project, why: str) -> None:
    task = add_word(project, why)
    Hint.objects.create(task=task, feedback=task.feedback.get(), text=RULE, source="reviewer")
    distrust(project, why)
    assert find_hint(task) is None
    assert find_hints([task.pk]) == {}
    assert all(one.reward is None for one in effective_judgement(task).values())


def test_the_hint_of_who_is_trusted_stands_where_the_last_one_is_not(project: Project, alice: User, bob: User) -> None:
    task = make_task(project, state=Task.State.LEARNING)
    for person, words in ((alice, "Greet first."), (bob, RULE)):
        give_task_feedback(task=task, by=person, text=words)
    extract_hints([task.pk])
    assert find_hints([task.pk]) == {task.pk: [RULE, "Greet first."]}
    Rater.objects.create(project=project, handle=bob.handle, kind="person", quarantined_at=Now())
    assert find_hints([task.pk]) == {task.pk: ["Greet first."]}
    taught = find_hint(task)
    assert taught is not None
    assert (str(taught.hint), taught.trust) == ("Greet first.", 1.0)


@pytest.mark.parametrize("score", [None, 1.0])
def test_words_of_who_is_trusted_by_a_quarter_weigh_a_quarter_with_a_number_or_without(
    project: Project, bob: User, score: float | None
) -> None:
    task = make_judged_task(project)
    task.feedback.all().delete()
    task.attempts.update(score=None, outcome=None)
    give_task_feedback(task=task, by=bob, text="Greet first.", score=score, none_good=score is not None)
    Rater.objects.update_or_create(project=project, handle=bob.handle, defaults={"kind": "person", "weight": 0.25})
    extract_hints([task.pk])
    build_rollouts([task.pk], by="ledger")
    found = Rollout.objects.values_list("is_usable", "hint__text", "weight")
    assert set(found) == {(True, "Greet first.", 0.25)}


def test_where_the_world_gave_the_reward_the_rollout_weighs_as_that_does_and_its_hint_as_who_gave_it(
    project: Project, bob: User
) -> None:
    task = make_judged_task(project)
    task.feedback.all().delete()
    task.attempts.update(outcome=1.0)
    give_task_feedback(task=task, by=bob, text="Greet first.")
    Rater.objects.create(project=project, handle=bob.handle, kind="person", weight=0.25)
    extract_hints([task.pk])
    build_rollouts([task.pk], by="ledger")
    assert set(Rollout.objects.values_list("hint__text", "hint_weight", "reward_source", "weight")) == {
        ("Greet first.", 0.25, "verified", 1.0)
    }
    told = {(record.weight, record.trust_in_hint) for record in make_records(list(Rollout.objects.all()))}
    assert told == {(1.0, 0.25)}, "who is doubted teaches less, though the reward beside it is certain"
    Rater.objects.update(weight=0.5)
    assert rejudge_rollouts(task, by="test").changed == Rollout.objects.filter(hint_weight=0.5).count() > 0
