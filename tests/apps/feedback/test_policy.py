"""What the review policy does with a scored task, and when nobody comes."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now
from pytest_django import Settings

from apps.accounts.models import Member, Role
from apps.audit.models import AuditEntry
from apps.base.errors import BadInputError
from apps.feedback.claims import claim, release_review, renew_claim
from apps.feedback.create_reviews import open_reviews
from apps.feedback.expiry import LONGEST_DELAY, expire_reviews, expire_reviews_of
from apps.feedback.hints import extract_hints
from apps.feedback.managers import choose_manager
from apps.feedback.models import Feedback, Review
from apps.feedback.rules import validate_review_policy
from apps.feedback.selectors import effective_judgement
from apps.feedback.submit import give_feedback, give_task_feedback
from apps.feedback.undo import retract_feedback
from apps.scoring.models import StepScore
from apps.scoring.services import score_tasks
from apps.tasks.models import Task
from tentalis.core.desk import make_tickets
from tests.apps.feedback.builders import make_chat_task, make_desk_task, read_hint, write_answer
from tests.factories import make_project, make_task, make_user
from tests.fakes import FakeModelServer


def open_with(policy: dict[str, Any], **values: Any) -> Task:
    """A chat task after the review link, in a project with this policy."""
    task = make_chat_task(make_project(review_policy=policy), **values)
    open_reviews([task.pk])
    task.refresh_from_db()
    return task


def use_model(settings: Settings, server: FakeModelServer) -> None:
    changes = {"LLM_MODEL": "boss", "INFERENCE_BACKEND": "openai", "INFERENCE_BASE_URL": server.url}
    settings.TENTALIS = settings.TENTALIS | changes


def verdict(score: float, reason: str, steps: int = 2) -> str:
    words = [{"index": index, "score": score, "reason": f"step {index}"} for index in range(steps)]
    return json.dumps({"steps": words, "overall": score, "reason": reason})


@pytest.mark.django_db
def test_nobody_is_asked_and_the_task_learns() -> None:
    task = open_with({"who": "none"})
    assert task.state == Task.State.LEARNING
    assert not task.reviews.exists()
    assert AuditEntry.objects.get().payload["reason"] == "the policy asks for no reviews"


@pytest.mark.django_db
def test_a_person_is_asked_within_the_policys_patience() -> None:
    task = open_with({"who": "human", "patience_s": 3600})
    assert task.state == Task.State.IN_REVIEW
    review = task.reviews.get()
    assert (review.state, review.audience, review.reason) == (Review.State.OPEN, "human", "sampled for review (100 %)")
    soon, late = Now() + timedelta(seconds=3500), Now() + timedelta(seconds=3700)
    assert Review.objects.filter(due_at__gt=soon, due_at__lt=late).exists()


@pytest.mark.django_db
def test_votes_that_lie_apart_bring_a_person_where_the_draw_does_not() -> None:
    project = make_project(review_policy={"who": "human", "rate": 0, "uncertain_spread": 0.4})
    sure, unsure = make_chat_task(project, score=0.9), make_chat_task(project, score=0.9)
    for task, spread in ((sure, 0.3), (unsure, 0.5)):
        StepScore.objects.create(attempt=task.attempts.all()[0], scorer="prm", score=0.9, spread=spread)
        open_reviews([task.pk])
        task.refresh_from_db()
    assert (sure.state, unsure.state) == (Task.State.LEARNING, Task.State.IN_REVIEW)
    assert unsure.reviews.get().reason == "uncertain: votes 0.50 apart, the policy asks from 0.40"


@pytest.mark.django_db
def test_both_gives_the_ai_managers_word_at_once_and_waits_for_a_person() -> None:
    task = make_desk_task(make_project(review_policy={"who": "both"}), [write_answer(), write_answer("gift")])
    score_tasks([task.pk])
    open_reviews([task.pk])
    task.refresh_from_db()
    assert task.state == Task.State.IN_REVIEW
    assert set(task.reviews.values_list("audience", "state")) == {("ai", "closed"), ("human", "open")}
    feedback = task.feedback.get()
    assert (feedback.source, feedback.author, feedback.score) == ("ai", "agent:rule-book", 0.5)
    assert list(feedback.steps.filter(step=None).order_by("attempt").values_list("score", flat=True)) == [1.0, 0.0]


@pytest.mark.django_db
def test_the_rule_book_has_no_word_outside_the_desk_and_says_so() -> None:
    task = open_with({"who": "ai", "ai_manager": "rule-book"})
    assert task.state == Task.State.LEARNING
    review = task.reviews.get()
    assert review.state == Review.State.SKIPPED
    assert "environment chat has no rule book" in review.reason
    assert not Feedback.objects.exists()


@pytest.mark.django_db
def test_an_llm_manager_without_a_model_gives_no_feedback_and_a_person_is_still_asked() -> None:
    task = open_with({"who": "both", "ai_manager": "llm"})
    assert task.state == Task.State.IN_REVIEW
    assert "no model is configured" in task.reviews.get(audience="ai").reason
    assert not Feedback.objects.exists()


@pytest.mark.django_db
def test_an_llm_managers_judgement_reaches_attempts_steps_and_hint(settings: Settings) -> None:
    def reply(prompt: str, index: int) -> str:
        if "[HINT]" in prompt:
            return "[HINT]Be brief.[/HINT]"
        return verdict(0.8, "good") if "second" in prompt else verdict(0.2, "too long")

    with FakeModelServer(reply=reply, models=["boss"], is_plain=True) as server:
        use_model(settings, server)
        task = open_with({"who": "ai", "ai_manager": "llm"})
        extract_hints([task.pk])
    feedback = task.feedback.get()
    assert feedback.author == "agent:llm:boss"
    assert feedback.score == pytest.approx(0.5)
    assert feedback.text == "Attempt 1: too long\nAttempt 2: good"
    judgements = effective_judgement(task).values()
    assert [(one.reward, one.reward_source, list(one.step_scores.values())) for one in judgements] == [
        (0.2, "ai", [0.2, 0.2]),
        (0.8, "ai", [0.8, 0.8]),
    ]
    assert read_hint(task) == "Be brief."


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("answer", "mode", "reason"),
    [("I like it", "ok", "no JSON object"), ("", "broken", "ProviderBusyError"), ("", "refusing", "RefusedError")],
)
def test_a_broken_llm_managers_word_is_not_made_up(settings: Settings, answer: str, mode: Any, reason: str) -> None:
    with FakeModelServer(reply=lambda *_: answer, models=["boss"], is_plain=True, mode=mode) as server:
        use_model(settings, server)
        task = open_with({"who": "ai"})
    assert task.state == Task.State.LEARNING
    assert task.reviews.get().state == Review.State.SKIPPED
    assert reason in AuditEntry.objects.get(kind="review.skipped").payload["reason"]
    assert not Feedback.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize("state", [state for state in Task.State if state != Task.State.SCORING])
def test_a_task_past_scoring_is_left_alone(state: Task.State) -> None:
    task = make_task(make_project(review_policy={"who": "human"}), state=state)
    open_reviews([task.pk])
    score_tasks([task.pk])
    task.refresh_from_db()
    assert task.state == state
    assert not AuditEntry.objects.exists()


@pytest.mark.django_db
def test_reviews_that_are_due_expire_and_their_tasks_learn() -> None:
    due = open_with({"who": "human"})
    Review.objects.update(due_at=Now() - timedelta(seconds=1))
    waiting = make_chat_task(due.project)
    open_reviews([waiting.pk])
    assert expire_reviews() == [due.pk]
    assert expire_reviews() == []
    states = dict(Task.objects.values_list("pk", "state"))
    assert states == {due.pk: Task.State.LEARNING, waiting.pk: Task.State.IN_REVIEW}
    assert due.reviews.get().state == Review.State.EXPIRED


@pytest.mark.django_db
def test_a_review_that_somebody_works_on_expires_only_once_they_gave_it_up() -> None:
    task = open_with({"who": "human"})
    review, bob = task.reviews.get(), make_user("bob")
    claim(review, bob)
    Review.objects.update(due_at=Now() - timedelta(seconds=1))
    renew_claim(review, bob)
    assert expire_reviews() == []
    give_feedback(review=review, score=0.5, text="Nearly.", by=bob)
    assert (task.reviews.get().state, task.feedback.get().author) == (Review.State.CLOSED, bob.handle)


@pytest.mark.django_db
@pytest.mark.parametrize("given_up", ["lease ran out", "released", "held for a day"])
def test_a_claim_that_was_given_up_or_never_ends_does_not_keep_a_review(given_up: str) -> None:
    task = open_with({"who": "human"})
    review, bob = task.reviews.get(), make_user("bob")
    claim(review, bob)
    Review.objects.update(due_at=Now() - (LONGEST_DELAY if given_up == "held for a day" else timedelta(seconds=1)))
    if given_up == "lease ran out":
        Review.objects.update(lease_until=Now() - timedelta(seconds=1))
    elif given_up == "released":
        release_review(review, bob)
    else:
        renew_claim(review, bob)
    assert expire_reviews() == [task.pk]
    assert task.reviews.get().state == Review.State.EXPIRED


@pytest.mark.django_db
def test_a_policy_may_fail_the_task_nobody_reviewed() -> None:
    task = open_with({"who": "human", "on_timeout": "fail", "patience_s": 60})
    Review.objects.update(due_at=Now() - timedelta(seconds=1))
    assert expire_reviews() == []
    task.refresh_from_db()
    assert (task.state, task.failure) == (Task.State.FAILED, "no review came within 60 s")


@pytest.mark.django_db
@pytest.mark.parametrize("is_retracted", [False, True])
def test_a_second_opinion_that_does_not_come_fails_no_task_that_was_judged(is_retracted: bool) -> None:
    task = open_with({"who": "human", "on_timeout": "fail", "double_review_rate": 1.0, "patience_s": 60})
    alice = make_user("alice")
    given = give_feedback(review=task.reviews.get(), by=alice, score=0.75)
    assert task.reviews.get(state=Review.State.OPEN).purpose == Review.Purpose.SECOND
    if is_retracted:
        retract_feedback(given, by=alice, reason="I was wrong")
    Review.objects.filter(state=Review.State.OPEN).update(due_at=Now() - timedelta(seconds=1))
    assert expire_reviews() == ([] if is_retracted else [task.pk])
    task.refresh_from_db()
    assert task.state == (Task.State.FAILED if is_retracted else Task.State.LEARNING)
    assert {one.reward for one in effective_judgement(task).values()} == {None if is_retracted else 0.75}


@pytest.mark.django_db
def test_a_policy_may_turn_to_the_ai_manager_when_nobody_came() -> None:
    project = make_project(review_policy={"who": "human", "on_timeout": "ai"})
    task = make_desk_task(project, [write_answer()])
    score_tasks([task.pk])
    open_reviews([task.pk])
    Review.objects.update(due_at=Now() - timedelta(seconds=1))
    assert expire_reviews() == [task.pk]
    assert not Feedback.objects.exists()
    extract_hints([task.pk])
    assert dict(task.reviews.values_list("audience", "state")) == {"human": "expired", "ai": "closed"}
    assert task.feedback.get().source == "ai"
    assert read_hint(task) == "use ship, write the unit, check the sum"


@pytest.mark.django_db
def test_the_ai_manager_is_no_second_opinion_where_a_person_judged() -> None:
    task = open_with({"who": "human", "on_timeout": "ai", "double_review_rate": 1.0, "patience_s": 60})
    give_feedback(review=task.reviews.get(), by=make_user("alice"), score=0.75)
    Review.objects.filter(state=Review.State.OPEN).update(due_at=Now() - timedelta(seconds=1))
    assert expire_reviews() == [task.pk]
    assert set(task.reviews.values_list("audience", flat=True)) == {"human"}
    assert {one.reward for one in effective_judgement(task).values()} == {0.75}


@pytest.mark.django_db
def test_the_ai_manager_is_not_asked_where_a_person_spoke_meanwhile() -> None:
    project = make_project(review_policy={"who": "human", "on_timeout": "ai"})
    task = make_desk_task(project, [write_answer()])
    score_tasks([task.pk])
    open_reviews([task.pk])
    Review.objects.update(due_at=Now() - timedelta(seconds=1))
    assert expire_reviews() == [task.pk]
    alice = make_user("alice")
    Member.objects.get_or_create(project=project, user=alice, defaults={"role": Role.MANAGER})
    give_task_feedback(task=task, by=alice, score=0.75)
    extract_hints([task.pk])
    review = task.reviews.get(audience="ai")
    assert (review.state, "a person judged it" in review.reason) == (Review.State.SKIPPED, True)
    assert task.feedback.get().source == "human"


@pytest.mark.django_db(transaction=True)
def test_what_the_ai_manager_says_behind_a_person_is_not_kept(settings: Settings) -> None:
    task = open_with({"who": "human", "on_timeout": "ai", "ai_manager": "llm"})
    alice = make_user("alice")
    Member.objects.get_or_create(project=task.project, user=alice, defaults={"role": Role.MANAGER})
    Review.objects.update(due_at=Now() - timedelta(seconds=1))
    assert expire_reviews() == [task.pk]

    def think(*_: object) -> str:
        if not task.feedback.exists():
            run_elsewhere(lambda: give_task_feedback(task=task, by=alice, score=0.75))
        connection.close()
        return verdict(0.1, "poor")

    with FakeModelServer(reply=think, models=["boss"], is_plain=True) as server:
        use_model(settings, server)
        extract_hints([task.pk])
        assert server.requests
    assert task.reviews.get(audience="ai").state == Review.State.SKIPPED
    assert set(task.feedback.values_list("source", flat=True)) == {"human"}


@pytest.mark.django_db
def test_one_projects_unreadable_policy_does_not_stop_the_others() -> None:
    broken = open_with({"who": "human"})
    broken.project.review_policy = {"who": "everybody"}
    broken.project.save()
    fine = make_chat_task(make_project("fine", review_policy={"who": "human"}))
    open_reviews([fine.pk])
    Review.objects.update(due_at=Now() - timedelta(seconds=1))
    assert expire_reviews() == [fine.pk]
    assert broken.reviews.get().state == Review.State.OPEN


@pytest.mark.django_db(transaction=True)
def test_the_sweep_passes_over_a_review_that_is_being_closed() -> None:
    task = open_with({"who": "human"})
    Review.objects.update(due_at=Now() - timedelta(seconds=1))
    with transaction.atomic():
        Task.objects.select_for_update().get(pk=task.pk)
        assert run_elsewhere(expire_reviews) == []
    assert run_elsewhere(expire_reviews) == [task.pk]


def run_elsewhere(work: Any) -> Any:
    """In another thread, and so on another connection."""

    def run() -> Any:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET lock_timeout = '5s'")  # waiting for a lock is a failure here, and not for ever
            return work()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(run).result(timeout=30)


@pytest.mark.django_db
def test_a_cancelled_tasks_reviews_are_expired_with_it() -> None:
    task = open_with({"who": "human"})
    assert expire_reviews_of([task], by="user:alice") == 1
    assert task.reviews.get().state == Review.State.EXPIRED


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"whom": "ai"}, "fields of who, rate.*found 'whom'"),
        ({"who": "everybody"}, "who: wanted one of none, ai, human, both, found 'everybody'"),
        ({"rate": 2}, "rate: wanted a number from 0 to 1, found 2"),
        ({"ai_manager": ["llm"]}, "ai_manager: wanted a text of at most 32 characters"),
        ({"model": 7}, "model: wanted a text of at most 200 characters, found 7"),
        ([], "wanted an object, found"),
    ],
)
def test_an_unreadable_policy_is_refused_by_name(policy: Any, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        validate_review_policy(policy)


def test_the_manager_is_the_desks_rule_book_there_and_a_model_elsewhere() -> None:
    rules = validate_review_policy({"who": "both", "model": "gpt"})
    assert (choose_manager(rules, "desk"), choose_manager(rules, "chat"), rules.model) == ("rule-book", "llm", "gpt")


@pytest.mark.django_db
def test_the_first_task_that_teaches_waits_for_a_person_though_only_a_share_does() -> None:
    project = make_project(review_policy={"who": "both", "ai_manager": "rule-book", "human_rate": 0.0})
    ticket = make_tickets(1, 1, held_out=True)[0]
    held_out = make_desk_task(project, [write_answer()], prompt=ticket.text)
    first, second = (make_desk_task(project, [write_answer()]) for _ in range(2))
    for task in (held_out, first, second):
        score_tasks([task.pk])
        open_reviews([task.pk])
        task.refresh_from_db()
    assert [task.state for task in (held_out, first, second)] == ["learning", "in_review", "learning"]
    assert dict(first.reviews.values_list("audience", "state")) == {"ai": "closed", "human": "open"}
    give_feedback(review=first.reviews.get(audience="human"), by=make_user("alice"), score=1.0)
    first.refresh_from_db()
    assert first.state == "learning"
