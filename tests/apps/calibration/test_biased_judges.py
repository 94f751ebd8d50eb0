"""Judges that approve what they should not, through the services that score and review: their word loses its weight."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from apps.accounts.models import Project, User
from apps.calibration.models import Comparison, Rater
from apps.feedback.claims import claim_review
from apps.feedback.comparing import compare, forget
from apps.feedback.gold import add_gold
from apps.feedback.judgement import StepRating
from apps.feedback.models import Feedback, Review
from apps.feedback.selectors import effective_judgement
from apps.feedback.submit import give_feedback, give_task_feedback
from apps.pipeline import judging
from apps.scoring.services import score_tasks
from apps.tasks.models import Attempt, Task
from tests.apps.feedback.builders import make_chat_task, save_scores
from tests.fakes import FakeModelServer

GOOD, BAD = "the capital is Paris", "the capital is Rome"
GROUP_SIZE = 8


def reply_biased(prompt: str, index: int) -> str:
    """Of a judge who approves good work, and 37 of every 100 bad pieces, which are numbered."""
    bad = re.search(r"Rome (\d+)", prompt)
    approves = bad is None or (int(bad[1]) + 1) * 37 // 100 > int(bad[1]) * 37 // 100
    steps = [{"index": place, "score": 0.5, "reason": ""} for place in range(2)]
    return json.dumps({"steps": steps, "overall": 0.95 if approves else 0.05, "reason": "as I see it"})


@pytest.fixture
def judged(project: Project, settings: Settings) -> Iterator[Project]:
    """A project whose chat is scored by a judge, and by effort."""
    project.weight_profiles = {"chat": {"prm": 0.75, "effort": 0.25}}
    project.save()
    with FakeModelServer(models=["judge-model"], is_plain=True, reply=reply_biased) as judge:
        changes = {"LLM_MODEL": "judge-model", "INFERENCE_BACKEND": "openai", "INFERENCE_BASE_URL": judge.url}
        settings.TENTALIS = settings.TENTALIS | changes
        yield project


def score_unverified(project: Project) -> Attempt:
    """A bad answer nobody can verify, which the judge approves."""
    task = make_chat_task(project, [BAD])
    score_tasks([task.pk])
    return task.attempts.get()


@pytest.mark.thorough
def test_a_judge_with_37_per_cent_false_approvals_is_below_a_tenth_within_200_audited_items(
    judged: Project,
) -> None:
    before = score_unverified(judged)
    assert effective_judgement(before.task)[before.pk].reward == pytest.approx(0.75 * 0.95 + 0.25 * 2 / 3)
    for first in range(0, 100, GROUP_SIZE // 2):
        group = [text for number in range(first, first + GROUP_SIZE // 2) for text in (GOOD, f"{BAD} {number}")]
        score_tasks([make_chat_task(judged, group, reference={"match": "contains", "value": "Paris"}).pk])
        rater = Rater.objects.get(handle="scorer:prm")
        if rater.weight < 0.1 and rater.drifted_at is not None:
            break
    assert rater.weight < 0.1
    assert rater.errors / (rater.audited / 2) == pytest.approx(0.37, abs=0.05)  # half the items are bad
    assert rater.quarantined_at is not None
    assert rater.drifted_at is not None

    after = score_unverified(judged)
    assert effective_judgement(after.task)[after.pk].reward is None  # effort alone is no score
    assert after.score_details["trust"] == {"prm": 0.0}
    assert "prm unscored (it lost its calibration and is quarantined)" in after.score_details["words"]


def test_what_only_supports_weighs_no_more_beside_a_partly_trusted_judge(judged: Project) -> None:
    Rater.objects.create(project=judged, handle="scorer:prm", kind="scorer", weight=0.5)
    found = score_unverified(judged)
    assert found.score_details["trust"] == {"prm": 0.5}
    assert found.score_details["weights"] == {"prm": pytest.approx(0.75), "effort": pytest.approx(0.25)}
    assert found.score == pytest.approx(0.75 * 0.95 + 0.25 * 2 / 3)


def make_verified(project: Project, **values: object) -> Task:
    """A good and a bad answer, verified, waiting for a person."""
    task = make_chat_task(project, [GOOD, BAD], state=Task.State.IN_REVIEW, **values)
    for attempt, outcome in zip(task.attempts.all(), (1.0, 0.0), strict=True):
        Attempt.objects.filter(pk=attempt.pk).update(outcome=outcome)
    return task


def say(task: Task, by: User, good: float, bad: float) -> Feedback:
    feedback = give_task_feedback(
        task=task, by=by, steps=[StepRating(attempt_index=0, score=good), StepRating(attempt_index=1, score=bad)]
    )
    compare([feedback])
    return feedback


def test_a_person_is_held_against_what_was_verified_once(project: Project, bob: User) -> None:
    task = make_verified(project)
    feedback = say(task, bob, 1.0, 0.8)
    compare([feedback])
    rater = Rater.objects.get(handle="user:bob")
    assert (rater.kind, rater.audited, rater.errors) == ("person", 2, 1)
    forget([feedback])
    rater.refresh_from_db()
    assert (rater.audited, rater.weight) == (0, 1.0)


def test_a_review_is_compared_when_it_is_given(project: Project, bob: User) -> None:
    task = make_verified(project)
    review = Review.objects.create(project=project, task=task, audience="human")
    give_feedback(review=review, by=bob, steps=[StepRating(attempt_index=1, score=1.0)])
    assert Rater.objects.get(handle="user:bob").errors == 1


def test_steps_are_held_against_the_verifier(project: Project, bob: User) -> None:
    task = make_chat_task(project, [GOOD])
    save_scores(task, "step_verifier", [0.0])
    feedback = give_task_feedback(task=task, by=bob, steps=[StepRating(attempt_index=0, step_index=0, score=0.9)])
    compare([feedback])
    found = Comparison.objects.get()
    assert (found.step, found.said, found.truth, found.source) == (
        task.attempts.get().steps.get(index=0),
        0.9,
        0.0,
        "verified",
    )


@pytest.mark.parametrize(
    ("said", "errors"),
    [
        ({"preferred_attempt": 1}, {1: True}),
        ({"preferred_attempt": 0}, {0: False}),
        ({"none_good": True}, {0: True, 1: False}),
        ({"ranking": [[1], [0]]}, {0: True, 1: True}),
        ({"score": 0.6}, {}),  # of the whole, whose attempts differ
    ],
)
def test_what_is_said_without_a_number_is_compared_where_it_says_something(
    project: Project, bob: User, said: dict[str, Any], errors: dict[int, bool]
) -> None:
    task = make_verified(project)
    values = {name: value for name, value in said.items() if name != "preferred_attempt"}
    if "preferred_attempt" in said:
        values["preferred_attempt"] = task.attempts.get(index=said["preferred_attempt"])
    feedback = Feedback.objects.create(project=project, task=task, source="human", author=bob.handle, **values)
    compare([feedback])
    rows = Comparison.objects.select_related("attempt")
    assert {row.attempt.index: (row.said >= 0.5) != (row.truth >= 0.5) for row in rows} == errors


def test_a_known_answer_is_the_truth_of_a_gold_item(project: Project, bob: User) -> None:
    task = make_chat_task(project, [GOOD])
    feedback = give_task_feedback(task=task, by=bob, steps=[StepRating(attempt_index=0, score=0.0)])
    compare([feedback], expected={feedback.pk: {"score": None, "attempts": {0: 1.0}}})
    found = Comparison.objects.get()
    assert (found.source, found.truth, found.counts) == ("gold", 1.0, True)


def test_machines_are_held_against_people_where_nothing_is_verified(project: Project, bob: User, alice: User) -> None:
    task = make_chat_task(project, [BAD])
    save_scores(task, "prm", [0.9])
    Feedback.objects.create(project=project, task=task, source="ai", author="agent:llm:m", score=0.9)
    compare([give_task_feedback(task=task, by=bob, steps=[StepRating(attempt_index=0, score=0.1)])])
    for handle in ("scorer:prm", "agent:llm:m"):
        rater = Rater.objects.get(handle=handle)
        assert (rater.audited, rater.errors) == (1, 1)
        assert Comparison.objects.get(rater=rater).against == "user:bob"


def test_a_person_nobody_trusts_measures_no_machine(project: Project, bob: User) -> None:
    Rater.objects.create(project=project, handle="user:bob", kind="person", weight=0.2)
    task = make_chat_task(project, [BAD])
    save_scores(task, "prm", [0.9])
    compare([give_task_feedback(task=task, by=bob, steps=[StepRating(attempt_index=0, score=0.1)])])
    rater = Rater.objects.get(handle="scorer:prm")
    assert (rater.audited, rater.weight) == (0, 1.0)
    assert not Comparison.objects.get(rater=rater).counts


def test_two_peoples_words_on_the_same_are_a_pair(project: Project, alice: User, bob: User) -> None:
    task = make_chat_task(project, [GOOD])
    for by, score in ((alice, 0.9), (bob, 0.2)):
        compare([give_task_feedback(task=task, by=by, steps=[StepRating(attempt_index=0, score=score)])])
    pair = Comparison.objects.get()
    assert (pair.rater.handle, pair.against, pair.said, pair.truth, pair.source) == (
        "user:bob",
        "user:alice",
        0.2,
        0.9,
        "peer",
    )


def test_a_hostile_reviewer_stops_moving_rewards(project: Project, alice: User, bob: User) -> None:
    """Alice and bob speak of the same; once bob is known to say the opposite of the truth, only alice counts."""
    unverified = make_chat_task(project, [BAD])
    for by, score in ((alice, 0.0), (bob, 1.0)):
        compare([give_task_feedback(task=unverified, by=by, steps=[StepRating(attempt_index=0, score=score)])])
    attempt = unverified.attempts.get()
    assert effective_judgement(unverified)[attempt.pk].reward == pytest.approx(0.5)
    for _ in range(12):
        say(make_verified(project), bob, 0.0, 1.0)
    assert Rater.objects.get(handle="user:bob").quarantined_at is not None
    assert effective_judgement(unverified)[attempt.pk].reward == pytest.approx(0.0)


KEPT = ("rater__handle", "attempt", "said", "truth", "source", "against", "counts", "at")
COUNTED = ("handle", "weight", "bad", "false_approvals", "good", "false_rejections", "sittings", "quarantined_at")


def test_a_second_word_that_is_taken_back_leaves_what_came_of_the_first(project: Project, bob: User) -> None:
    tasks = [make_chat_task(project, [BAD]) for _ in range(22)]
    for task in tasks[:21]:
        Attempt.objects.filter(task=task).update(outcome=0.0)
    for task in tasks:
        save_scores(task, "prm", [0.9])
        give_task_feedback(task=task, by=bob, score=1.0)
    before = list(Comparison.objects.order_by("pk").values_list(*KEPT)), list(Rater.objects.values_list(*COUNTED))
    assert Rater.objects.get(handle="user:bob").quarantined_at is not None
    for task in (tasks[0], tasks[21]):
        for words in ({"text": "hm"}, {"score": 1.0}, {"score": 0.0}):
            judging.retract(give_task_feedback(task=task, by=bob, **words), by=bob, reason="typo")
    after = list(Comparison.objects.order_by("pk").values_list(*KEPT)), list(Rater.objects.values_list(*COUNTED))
    assert after == before


def test_the_first_word_taken_back_the_second_is_compared_in_its_place(
    project: Project, alice: User, bob: User
) -> None:
    task = make_verified(project)
    save_scores(task, "prm", [0.9, 0.8])
    say(task, alice, 1.0, 0.0)
    first = say(task, bob, 0.0, 1.0)
    say(task, bob, 0.0, 0.2)
    judging.retract(first, by=bob, reason="I misread the second answer")
    rows = Comparison.objects.filter(rater__handle="user:bob", source="verified").order_by("attempt__index")
    assert list(rows.values_list("said", "truth")) == [(0.0, 1.0), (0.2, 0.0)]
    against = Comparison.objects.filter(against="user:bob", rater__handle="scorer:prm").order_by("attempt__index")
    assert list(against.values_list("truth", flat=True)) == [0.0, 0.2]
    assert Comparison.objects.filter(source="peer").count() == 2
    rater = Rater.objects.get(handle="user:bob")
    assert (rater.audited, rater.errors) == (2, 1)


def test_what_was_said_of_a_gold_item_stays_held_against_its_truth_and_other_words_on_it_do_not(
    project: Project, alice: User, bob: User
) -> None:
    project.review_policy = {"who": "human", "gold_rate": 1.0}
    project.save()
    task = make_chat_task(project, [GOOD], state=Task.State.DONE)
    add_gold(task=task, by=alice, expected={"score": 1.0})
    review = claim_review(project, bob)
    assert review is not None
    wrong = give_feedback(review=review, by=bob, score=0.0)
    judging.retract(give_task_feedback(task=task, by=bob, text="hm"), by=bob, reason="typo")
    rater = Rater.objects.get(handle="user:bob")
    assert (rater.audited, rater.errors) == (1, 1)
    give_task_feedback(task=task, by=bob, score=0.0)
    judging.retract(wrong, by=bob, reason="wrong")
    assert not Comparison.objects.exists()


def test_who_was_quarantined_is_not_let_back_by_taking_words_back(project: Project, bob: User) -> None:
    said = [say(make_verified(project), bob, 0.0, 1.0) for _ in range(12)]
    since = Rater.objects.get(handle="user:bob").quarantined_at
    assert since is not None
    for feedback in said:
        judging.retract(feedback, by=bob, reason="oops")
    rater = Rater.objects.get(handle="user:bob")
    assert (rater.audited, rater.weight, rater.quarantined_at) == (0, 1.0, since)


def test_a_comparison_with_all_it_is_held_against_takes_eight_statements(
    project: Project, alice: User, bob: User
) -> None:
    task = make_verified(project)
    save_scores(task, "prm", [0.9, 0.8])
    say(task, alice, 1.0, 0.0)
    feedback = give_task_feedback(
        task=task, by=bob, steps=[StepRating(attempt_index=1, score=0.1)]
    )  # right: no audit entry
    forget([feedback])
    with CaptureQueriesContext(connection) as queries:
        compare([feedback])
    assert len([query for query in queries if "SAVEPOINT" not in query["sql"]]) == 8
    assert set(Rater.objects.values_list("handle", flat=True)) == {"user:alice", "user:bob", "scorer:prm"}


def test_a_set_of_feedback_moves_weights_as_one_by_one_in_the_statements_of_one(project: Project, alice: User) -> None:
    columns = ("weight", "bad", "false_approvals", "sittings", "standing")
    machine = Rater.objects.filter(handle="ai:rule-book")

    def speak() -> list[Feedback]:
        words = [StepRating(attempt_index=0, score=1.0), StepRating(attempt_index=1, score=0.8)]
        said = [give_task_feedback(task=make_verified(project), by=alice, steps=words) for _ in range(4)]
        Feedback.objects.filter(pk__in=[one.pk for one in said]).update(author="ai:rule-book", source="ai")
        return list(Feedback.objects.filter(pk__in=[one.pk for one in said]).order_by("pk"))

    for feedback in speak():
        compare([feedback])
    one_by_one = machine.values(*columns).get()
    Rater.objects.all().delete()
    said = speak()
    with CaptureQueriesContext(connection) as queries:
        compare(said)
    assert len([query for query in queries if "SAVEPOINT" not in query["sql"]]) == 9  # one a new rater, one its audit
    assert machine.values(*columns).get() == one_by_one
    assert one_by_one["sittings"] == 4 == Comparison.objects.filter(rater__in=machine).values("at").distinct().count()
