"""Taking back: as if it had not been while nothing learnt from it, and afterwards with its effect told."""

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.accounts.models import Project, User
from apps.audit.models import AuditEntry
from apps.base.errors import BadInputError, ConflictError, NotAllowedError
from apps.calibration.models import Comparison
from apps.feedback.claims import LEASE, claim, claim_review
from apps.feedback.create_reviews import open_reviews
from apps.feedback.drafts import find_draft, save_draft
from apps.feedback.errors import CannotUndoError
from apps.feedback.finalizing import settle_feedback
from apps.feedback.hints import extract_hints
from apps.feedback.judgement import StepRating
from apps.feedback.models import Feedback, Hint, Review, ReviewDraft
from apps.feedback.selectors import effective_judgement
from apps.feedback.submit import give_task_feedback
from apps.outbox.models import Segment
from apps.outbox.services import claim_links
from apps.pipeline import flow, judging
from apps.rollouts.models import Batch, Rollout, TrainingUse
from apps.rollouts.services import build_rollouts
from apps.tasks.models import Task
from tests.apps.feedback.builders import make_chat_task, make_open_review, read_hint
from tests.factories import make_judged_task, make_project, make_task, make_user


def snapshot(task: Task) -> dict[str, Any]:
    """What an undo has to bring back: states, who holds what, what the task is worth, what is to run."""
    task.refresh_from_db()
    reviews = task.reviews.exclude(state=Review.State.EXPIRED).order_by("pk")
    return {
        "task": task.state,
        "reviews": list(reviews.values_list("pk", "purpose", "state", "claimed_by", "assigned_to")),
        "said": list(task.feedback.standing().order_by("pk").values_list("pk", flat=True)),
        "worth": effective_judgement(task),
        "hint": read_hint(task),
        "segments": list(Segment.objects.filter(subject_id=task.pk, state="open").values_list("kind", flat=True)),
        "compared": list(Comparison.objects.order_by("pk").values_list("pk", "said", "truth")),
    }


WORDS: list[dict[str, Any]] = [
    {"score": 0.25, "text": "Say please."},
    {"ranking": [[1], [0]], "none_good": True},
    {"preferred_attempt": 0, "steps": [StepRating(attempt_index=1, step_index=0, score=0.0, spans=[[0, 5, "x"]])]},
    {"edited_answer": "please", "hint_text": "Say please.", "active_s": 4.5},
]


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize("double", [0.0, 1.0])
def test_an_undone_judgement_leaves_what_was_before(
    project: Project, bob: User, words: dict[str, Any], double: float
) -> None:
    project.review_policy = {"who": "human", "double_review_rate": double}
    project.save()
    task = make_chat_task(project)
    open_reviews([task.pk])
    review = claim_review(project, bob)
    assert review is not None
    before = snapshot(task)
    given = flow.give_feedback(review=review, by=bob, undo_s=60, **words)
    assert snapshot(task) != before
    reopened = judging.undo(given, by=bob)
    assert snapshot(task) == before
    assert (reopened.pk, reopened.state, reopened.claimed_by, reopened.closed_at) == (review.pk, "open", bob, None)
    draft = find_draft(reopened, bob)
    assert draft is not None
    said = dict(words)
    steps = said.pop("steps", [])
    assert {name: value for name, value in draft.data["words"].items() if name != "steps"} == said
    assert [step["spans"] for step in draft.data["words"].get("steps", [])] == [list(step.spans) for step in steps]
    assert AuditEntry.objects.filter(kind="feedback.undone", subject_id=given.pk).count() == 1
    again = flow.give_feedback(review=reopened, by=bob, **words)  # and once more, for good
    assert again.retracted_at is None
    task.refresh_from_db()
    assert task.state == (Task.State.IN_REVIEW if double else Task.State.LEARNING)
    assert task.reviews.filter(state=Review.State.OPEN).count() == int(double)


def test_the_form_comes_back_as_it_was_sent(project: Project, bob: User) -> None:
    review = claim(make_open_review(project), bob)
    save_draft(review=review, by=bob, data={"text": "half a"}, version=0)
    sent = {"text": "half a sentence", "step-1": "0.5"}
    given = flow.give_feedback(review=review, by=bob, undo_s=60, typed=sent, text="half a sentence")
    assert find_draft(review, bob) is None
    judging.undo(given, by=bob)
    draft = find_draft(review, bob)
    assert draft is not None
    assert (draft.data, draft.version) == (sent, 2)


def test_nothing_learns_before_the_time_for_an_undo_is_over(project: Project, bob: User) -> None:
    review = make_open_review(project)
    flow.give_feedback(review=review, by=bob, undo_s=60, score=1)
    segment = Segment.objects.get(kind="learn")
    assert claim_links([segment.pk], 0, owner="early") is None
    assert Segment.objects.filter(run_after__gt=Now() + timedelta(seconds=50)).exists()
    Segment.objects.update(run_after=Now())
    assert claim_links([segment.pk], 0, owner="in time") is not None


def test_what_was_said_first_can_still_be_undone_when_the_second_opinion_is_in(
    project: Project, alice: User, bob: User
) -> None:
    project.review_policy = {"who": "human", "double_review_rate": 1.0}
    project.save()
    task = make_chat_task(project)
    open_reviews([task.pk])
    first = flow.give_feedback(review=task.reviews.get(), by=bob, undo_s=60, score=1)
    second = task.reviews.get(state=Review.State.OPEN)
    assert second.purpose == Review.Purpose.SECOND
    flow.give_feedback(review=second, by=alice, score=0)
    assert Segment.objects.filter(kind="learn", run_after__gt=Now() + timedelta(seconds=50)).exists()
    judging.undo(first, by=bob)
    task.refresh_from_db()
    assert task.state == Task.State.IN_REVIEW
    assert [one.author for one in task.feedback.standing()] == ["user:alice"]


@pytest.mark.parametrize("obstacle", ["another", "late", "claimed", "second held", "twice", "no time given"])
def test_too_late_is_said_and_changes_nothing(project: Project, alice: User, bob: User, obstacle: str) -> None:
    rate = 1.0 if obstacle == "second held" else 0.0
    project.review_policy = {"who": "human", "double_review_rate": rate}
    project.save()
    task = make_chat_task(project)
    open_reviews([task.pk])
    undo_s = 0 if obstacle == "no time given" else 60
    given, by = flow.give_feedback(review=task.reviews.get(), by=bob, undo_s=undo_s, score=1), bob
    if obstacle == "another":
        by = alice
    elif obstacle == "late":
        Feedback.objects.update(undo_until=Now() - timedelta(seconds=1))
    elif obstacle == "claimed":
        Segment.objects.update(run_after=Now())
        assert claim_links([Segment.objects.get(kind="learn").pk], 0, owner="a link") is not None
    elif obstacle == "second held":
        assert claim_review(project, alice) is not None
    elif obstacle == "twice":
        judging.undo(given, by=bob)
    before = snapshot(task)
    with pytest.raises(CannotUndoError):
        judging.undo(given, by=by)
    assert snapshot(task) == before


def test_what_stands_is_settled_once_and_its_draft_goes(project: Project, bob: User) -> None:
    review = make_open_review(project)
    given = flow.give_feedback(review=review, by=bob, undo_s=60, typed={"text": "x"}, score=1)
    assert settle_feedback() == 0
    Feedback.objects.update(undo_until=Now())
    assert (settle_feedback(), settle_feedback()) == (1, 0)
    given.refresh_from_db()
    assert (given.undo_until, given.retracted_at) == (None, None)
    assert not ReviewDraft.objects.exists()


def test_a_long_queue_is_settled_in_pieces_up_to_the_limit(project: Project) -> None:
    task = make_task(project)
    Feedback.objects.bulk_create(
        Feedback(project=project, task=task, source="human", author="user:bob", undo_until=Now()) for _ in range(110)
    )
    with CaptureQueriesContext(connection) as queries:
        assert settle_feedback(limit=70) == 70
    assert sum("UPDATE" in query["sql"] and "undo_until" in query["sql"] for query in queries) >= 2
    assert Feedback.objects.filter(undo_until=None).count() == 70
    assert settle_feedback() == 40


def test_a_review_that_was_due_meanwhile_is_not_due_the_moment_it_is_back(project: Project, bob: User) -> None:
    review = make_open_review(project)
    Review.objects.update(due_at=Now() - timedelta(minutes=1))
    given = flow.give_feedback(review=review, by=bob, undo_s=60, score=1)
    judging.undo(given, by=bob)
    assert Review.objects.filter(due_at__gt=Now() + LEASE - timedelta(minutes=1)).exists()


actions = st.lists(st.sampled_from(["give", "undo", "release", "skip later", "draft", "settle"]), max_size=8)


@pytest.mark.thorough
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(actions, st.sampled_from([0.0, 1.0]))
def test_any_sequence_of_actions_and_an_undo_is_the_state_before(
    project: Project, bob: User, actions: list[str], double: float
) -> None:
    """After whatever came before: a judgement that is undone at once has not been."""
    project.review_policy = {"who": "human", "double_review_rate": double}
    project.save()
    task = make_chat_task(project)
    open_reviews([task.pk])
    review, given = task.reviews.get(), None
    for action in actions:
        review.refresh_from_db()
        try:
            with transaction.atomic():
                if action == "give":
                    given = flow.give_feedback(review=claim(review, bob), by=bob, undo_s=60, score=0.5)
                elif action == "undo" and given is not None:
                    judging.undo(given, by=bob)
                elif action == "release":
                    Review.objects.filter(pk=review.pk).update(claimed_by=None, lease_until=None)
                elif action == "skip later":
                    flow.skip_review(review=review, by=bob, reason="x", then="later")
                elif action == "draft":
                    save_draft(review=review, by=bob, data={"text": action}, version=0)
                else:
                    settle_feedback()
        except ConflictError:
            continue
    review.refresh_from_db()
    if review.state != Review.State.OPEN:
        return
    claim(review, bob)
    before = snapshot(task)
    judging.undo(flow.give_feedback(review=review, by=bob, undo_s=60, score=0.75), by=bob)
    assert snapshot(task) == before


# --- afterwards ---


def judged(project: Project, by: User, *, outcome: bool = False, **said: Any) -> tuple[Task, Feedback]:
    """A task that a person judged and whose rollouts are in the open batch."""
    task = make_judged_task(project)
    if not outcome:
        task.attempts.update(outcome=None, score=None)
    given = give_task_feedback(task=task, by=by, **said)
    extract_hints([task.pk])
    build_rollouts([task.pk], by="test")
    return task, given


def test_what_waits_in_an_open_batch_is_judged_anew(project: Project, bob: User) -> None:
    task, given = judged(project, bob, outcome=True, score=0.25)
    assert set(Rollout.objects.values_list("reward", "reward_source")) == {(0.0, "human"), (0.75, "human")}
    effect = judging.retract(given, by=bob, reason="the wrong task")
    assert effect == "2 rollouts that no run has trained on are judged anew."
    assert list(Rollout.objects.order_by("attempt__index").values_list("reward", "reward_source")) == [
        (0.0, "verified"),
        (1.0, "verified"),
    ]
    given.refresh_from_db()
    assert (given.retracted_by, given.retract_reason) == ("user:bob", "the wrong task")
    assert judging.retract(given, by=bob, reason="again") == effect
    assert AuditEntry.objects.get(kind="feedback.retracted").payload["effect"] == effect
    task.refresh_from_db()
    assert task.state == Task.State.DONE


def test_what_nobody_else_judged_leaves_the_batch_and_its_counts(project: Project, bob: User) -> None:
    _, given = judged(project, bob, score=0.25)
    judged(project, make_user("alice"), score=0.5)
    assert Batch.objects.values_list("task_count", "rollout_count").get() == (2, 4)
    effect = judging.retract(given, by=bob, reason="the wrong task")
    assert "2 of them left their batch" in effect
    assert Batch.objects.values_list("task_count", "rollout_count").get() == (1, 2)
    assert TrainingUse.objects.count() == 2
    assert Rollout.objects.filter(is_usable=False, unusable_reason__contains="nobody judged it").count() == 2


def test_what_a_run_has_is_named_and_stays(project: Project, alice: User, bob: User) -> None:
    task, given = judged(project, bob, outcome=True, score=0.25)
    run = flow.close_batch(worker=task.worker, by=alice)
    effect = judging.retract(given, by=alice, reason="bob misread it")
    assert effect == f"{run.batch} holds it, for run {run.pk} (queued)."
    assert set(Rollout.objects.values_list("reward", flat=True)) == {0.0, 0.75}
    assert all(one.reward_source == "verified" for one in effective_judgement(task).values())


def test_before_anything_learnt_the_task_learns_without_it(project: Project, bob: User) -> None:
    review = make_open_review(project)
    given = flow.give_feedback(review=review, by=bob, text="x", hint_text="Say please.", score=0.5)
    extract_hints([review.task_id])
    task = review.task
    assert (read_hint(task), Hint.objects.get().source) == ("Say please.", "reviewer")
    assert "Nothing has learnt from it yet" in judging.retract(given, by=bob, reason="no")
    assert read_hint(task) == ""
    assert all(one.reward is None for one in effective_judgement(task).values())


def test_only_its_author_or_a_manager_takes_a_word_back_and_says_why(
    project: Project, alice: User, bob: User, charlie: User
) -> None:
    given = give_task_feedback(task=make_chat_task(project), by=alice, score=1)
    with pytest.raises(NotAllowedError):
        judging.retract(given, by=bob, reason="I disagree")
    with pytest.raises(BadInputError, match="reason: wanted 1 to 300"):
        judging.retract(given, by=alice, reason=" ")
    assert not Feedback.objects.filter(retracted_at__isnull=False).exists()


# --- races ---


@pytest.fixture
def learning(transactional_db: None) -> tuple[Feedback, User]:
    project, bob = make_project(), make_user("bob")
    task = make_judged_task(project, state=Task.State.IN_REVIEW)
    review = Review.objects.create(project=project, task=task, audience=Review.Audience.HUMAN)
    return flow.give_feedback(review=review, by=bob, undo_s=60, score=0.25), bob


def at_once(*calls: Callable[[], object]) -> list[object]:
    """What each call gave, or the error it met, when all began together."""
    start, outcomes = threading.Barrier(len(calls)), [None] * len(calls)

    def work(place: int, call: Callable[[], object]) -> None:
        try:
            connection.ensure_connection()
            start.wait(timeout=120)
            outcomes[place] = call()  # type: ignore[call-overload]
        except Exception as error:
            outcomes[place] = error  # type: ignore[call-overload]
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=(place, call)) for place, call in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return list(outcomes)


def test_of_eight_undos_at_once_one_undoes(learning: tuple[Feedback, User]) -> None:
    given, bob = learning
    outcomes = at_once(*[lambda: judging.undo(given, by=bob)] * 8)
    assert sum(isinstance(outcome, Review) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, CannotUndoError) for outcome in outcomes) == 7
    assert AuditEntry.objects.filter(kind="feedback.undone").count() == 1


@pytest.mark.parametrize("attempt", range(6))
def test_an_undo_and_a_link_that_takes_the_task_up_never_both_win(
    learning: tuple[Feedback, User], attempt: int
) -> None:
    given, bob = learning
    segment = Segment.objects.get(kind="learn")
    Segment.objects.update(run_after=Now())
    claimed, undone = at_once(lambda: claim_links([segment.pk], 0, owner="a link"), lambda: judging.undo(given, by=bob))
    assert (claimed is not None) != isinstance(undone, Review), (claimed, undone)
    given.task.refresh_from_db()
    assert given.task.state == (Task.State.IN_REVIEW if isinstance(undone, Review) else Task.State.LEARNING)


@pytest.mark.thorough
@pytest.mark.parametrize("attempt", range(6))
def test_a_retraction_beside_the_building_of_rollouts_is_never_lost(
    learning: tuple[Feedback, User], attempt: int
) -> None:
    given, bob = learning
    outcomes = at_once(
        lambda: build_rollouts([given.task_id], by="test"),
        lambda: judging.retract(given, by=bob, reason="wrong"),
    )
    assert not [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    assert set(Rollout.objects.values_list("reward_source", flat=True)) == {"verified"}


def test_of_eight_retractions_at_once_one_is_told_and_all_say_the_same(learning: tuple[Feedback, User]) -> None:
    given, bob = learning
    build_rollouts([given.task_id], by="test")
    outcomes = at_once(*[lambda: judging.retract(given, by=bob, reason="wrong")] * 8)
    assert outcomes == ["2 rollouts that no run has trained on are judged anew."] * 8
    assert AuditEntry.objects.filter(kind="feedback.retracted").count() == 1


def test_a_task_without_reviews_has_nothing_to_undo(project: Project, bob: User) -> None:
    given = give_task_feedback(task=make_task(project, state=Task.State.DONE), by=bob, score=1)
    with pytest.raises(CannotUndoError):
        judging.undo(given, by=bob)
