"""A judgement is disputed, and a third person decides."""

from typing import Any

import pytest

from apps.accounts.models import Member, Project, Role, User
from apps.audit.models import AuditEntry
from apps.base.errors import BadInputError, ConflictError, NotFoundError
from apps.feedback import appeals
from apps.feedback.appeals import find_contradiction, has_judge
from apps.feedback.claims import assign_review, claim, claim_review
from apps.feedback.errors import NotYourReviewError
from apps.feedback.hints import extract_hints
from apps.feedback.judgement import JudgementInput, StepRating
from apps.feedback.models import Feedback, Review
from apps.feedback.submit import give_task_feedback
from apps.pipeline import flow, judging
from apps.rollouts.models import Rollout
from apps.rollouts.services import build_rollouts
from tests.apps.feedback.builders import make_open_review
from tests.factories import make_judged_task, make_user


def scored(score: float) -> list[StepRating]:
    return [StepRating(attempt_index=0, step_index=0, score=score)]


@pytest.mark.parametrize(
    ("disputed", "anew", "wanted"),
    [
        ({"score": 1.0}, {"score": 0.5}, "scored 0.5, not 1"),
        ({"score": 1.0}, {"score": 0.6}, ""),
        ({"steps": scored(1)}, {"steps": scored(0)}, "the scores of 1 steps lie 1.00 apart"),
        ({"steps": scored(1)}, {"steps": [StepRating(attempt_index=0, step_index=1, score=0)]}, ""),
        ({"preferred_attempt": 0}, {"ranking": [[1], [0]]}, "attempt 2 is best, not 1"),
        ({"preferred_attempt": 0}, {"ranking": [[0, 1]]}, ""),
        ({"ranking": [[0, 1], [2]]}, {"preferred_attempt": 1}, ""),
        ({"preferred_attempt": 0}, {"none_good": True}, "none is good enough"),
        ({"none_good": True}, {"score": 0.9}, "one is good enough"),
        ({"none_good": True}, {"score": 0.1}, ""),
        ({"score": 1.0}, {"text": "hm"}, ""),
    ],
)
def test_the_rule_by_hand(disputed: dict[str, Any], anew: dict[str, Any], wanted: str) -> None:
    assert find_contradiction(JudgementInput(**disputed), JudgementInput(**anew)) == wanted


@pytest.fixture
def carol(project: Project) -> User:
    """Reviews too, and has not spoken."""
    carol = make_user("carol")
    Member.objects.create(project=project, user=carol, role=Role.REVIEWER)
    return carol


@pytest.fixture
def disputed(project: Project, bob: User) -> Feedback:
    """Bob's word, which rollouts in an open batch were judged by."""
    task = make_judged_task(project)
    given = give_task_feedback(task=task, by=bob, score=1.0)
    extract_hints([task.pk])
    build_rollouts([task.pk], by="test")
    return given


@pytest.mark.parametrize(("score", "is_upheld"), [(0.0, True), (0.75, False)])
def test_an_upheld_appeal_retracts_what_it_contradicts_and_rollouts_follow(
    project: Project, alice: User, bob: User, carol: User, disputed: Feedback, score: float, is_upheld: bool
) -> None:
    appeal = appeals.open_appeal(feedback=disputed, by=alice, reason="step 2 is wrong")
    assert (appeal.purpose, appeal.about) == (Review.Purpose.APPEAL, disputed)
    assert claim_review(project, bob) is None
    with pytest.raises(NotYourReviewError, match="own judgement"):
        claim(appeal, bob)
    taken = claim_review(project, carol)
    assert taken is not None
    given = flow.give_feedback(review=taken, by=carol, undo_s=60, score=score)
    assert given.undo_until is None
    disputed.refresh_from_db()
    assert (disputed.retracted_at is not None) == is_upheld
    assert set(Rollout.objects.values_list("reward", flat=True)) == ({0.0, 0.5} if is_upheld else {0.375, 1.0})
    kinds = set(AuditEntry.objects.filter(subject_type="feedback").values_list("kind", flat=True))
    assert ("feedback.retracted" in kinds) == is_upheld
    with pytest.raises(ConflictError):
        appeals.open_appeal(feedback=disputed, by=alice, reason="again")


def test_who_appeals_does_not_judge_the_appeal(project: Project, alice: User, bob: User, disputed: Feedback) -> None:
    appeal = appeals.open_appeal(feedback=disputed, by=alice, reason="step 2 is wrong")
    assert not has_judge(appeal)
    assert claim_review(project, alice) is None
    with pytest.raises(NotYourReviewError, match="somebody else judges it"):
        claim(appeal, alice)
    with pytest.raises(NotYourReviewError, match="somebody else judges it"):
        flow.give_feedback(review=appeal, by=alice, score=0.0)
    with pytest.raises(BadInputError, match="somebody else judges it"):
        assign_review(review=appeal, to=alice, by=alice)
    Member.objects.create(project=project, user=make_user("carol"), role=Role.REVIEWER)
    assert has_judge(appeal)
    assert not disputed.retracted_at


def test_who_may_not_appeal_is_told_why(project: Project, alice: User, bob: User, charlie: User) -> None:
    review = make_open_review(project)
    given = give_task_feedback(task=review.task, by=bob, score=1)
    with pytest.raises(ConflictError, match="has an open review"):
        appeals.open_appeal(feedback=given, by=alice, reason="wrong")
    with pytest.raises(BadInputError, match="retract it instead"):
        appeals.open_appeal(feedback=given, by=bob, reason="wrong")
    with pytest.raises(BadInputError, match="reason: wanted 1 to 200"):
        appeals.open_appeal(feedback=given, by=alice, reason="")
    with pytest.raises(NotFoundError):
        appeals.open_appeal(feedback=given, by=charlie, reason="wrong")
    judging.retract(given, by=bob, reason="mine")
    with pytest.raises(ConflictError, match="taken back already"):
        appeals.open_appeal(feedback=given, by=alice, reason="wrong")
    assert Review.objects.count() == 1
