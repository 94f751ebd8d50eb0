"""Gold items: handed out unseen, held against what is known, and never learnt from."""

from collections import Counter
from typing import Any

import pytest
from django.urls import reverse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.accounts.models import Member, Project, Role, User
from apps.audit.models import AuditEntry
from apps.base.errors import BadInputError, ConflictError, NotAllowedError
from apps.calibration.models import Comparison, Rater
from apps.feedback.claims import claim_review
from apps.feedback.gold import add_gold, find_expected, list_gold, remove_gold
from apps.feedback.hints import extract_hints
from apps.feedback.judgement import StepRating
from apps.feedback.models import Feedback, GoldItem, Hint, Review
from apps.feedback.queue import QueueFilter
from apps.feedback.submit import give_feedback, give_task_feedback
from apps.pipeline import bulk as bulks
from apps.pipeline import judging
from apps.rollouts.models import Rollout, TrainingUse
from apps.rollouts.services import build_rollouts
from apps.tasks.models import Attempt, Task
from tests.apps.console.builders import sign_in
from tests.apps.feedback.builders import make_chat_task, make_open_review
from tests.factories import make_judged_task, make_user


@pytest.fixture
def all_gold(project: Project) -> Project:
    project.review_policy = {"who": "human", "gold_rate": 1.0}
    project.save()
    return project


def make_gold(project: Project, alice: User) -> GoldItem:
    task = make_chat_task(project, state=Task.State.DONE)
    Attempt.objects.filter(task=task, index=0).update(outcome=1.0)
    Attempt.objects.filter(task=task, index=1).update(outcome=0.0)
    return add_gold(task=task, by=alice)


def test_a_gold_review_looks_like_any_and_moves_nothing(all_gold: Project, alice: User, bob: User) -> None:
    item = make_gold(all_gold, alice)
    plain = make_open_review(all_gold)
    taken = claim_review(all_gold, bob)
    assert taken is not None
    assert (taken.task_id, taken.purpose, taken.shown_purpose) == (item.task_id, "gold", "work")
    assert taken.claimed_by == bob
    assert taken.due_at is not None
    feedback = give_feedback(review=taken, by=bob, preferred_attempt=1)
    assert find_expected(feedback) == {"score": None, "attempts": {0: 1.0, 1: 0.0}}
    item.task.refresh_from_db()
    assert item.task.state == Task.State.DONE
    judged = Comparison.objects.filter(source=Comparison.Source.GOLD)
    assert judged.exists()
    again = claim_review(all_gold, bob)
    assert again is not None
    assert again.pk == plain.pk  # no gold is left for him


def test_the_share_of_gold_is_the_policys(project: Project, alice: User, bob: User) -> None:
    project.review_policy = {"who": "human", "gold_rate": 0.5}
    project.save()
    for _ in range(60):
        make_gold(project, alice)
        make_open_review(project)
    taken = [claim_review(project, bob) for _ in range(60)]
    purposes = Counter(review.purpose for review in taken if review is not None)
    assert 10 <= purposes["gold"] <= 50  # 30 expected; outside with a chance below 1e-7
    assert claim_review(project, make_user("alice")) is not None


def test_without_a_rate_nothing_gold_is_handed_out(project: Project, alice: User, bob: User) -> None:
    make_gold(project, alice)
    assert claim_review(project, bob) is None
    assert not Review.objects.exists()


def test_what_is_known_comes_from_the_world_a_manager_or_whoever_adds_it(
    project: Project, alice: User, bob: User
) -> None:
    task = make_chat_task(project, state=Task.State.DONE)
    with pytest.raises(BadInputError, match="nothing is known of this"):
        add_gold(task=task, by=alice)
    with pytest.raises(NotAllowedError):
        add_gold(task=task, by=bob, expected={"score": 1})
    with pytest.raises(BadInputError, match="wanted attempts of the task, found 7"):
        add_gold(task=task, by=alice, expected={"score": None, "attempts": {7: 1}})
    with pytest.raises(BadInputError, match="a score from 0 to 1, found 2"):
        add_gold(task=task, by=alice, expected={"score": 2})
    reference = give_task_feedback(task=task, by=alice, score=0.25)
    item = add_gold(task=task, by=alice, reference=reference)
    assert (item.truth, item.expected) == ("reference", {"score": 0.25, "attempts": {"0": 0.25, "1": 0.25}})
    with pytest.raises(ConflictError, match="gold item already"):
        add_gold(task=task, by=alice, expected={"score": 1})
    remove_gold(item=item, by=alice)
    assert add_gold(task=task, by=alice, expected={"score": 1}).expected["score"] == 1


@pytest.mark.thorough
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.booleans(), st.sampled_from(["score", "preferred", "steps", "hint"])), max_size=6))
def test_no_word_on_a_gold_item_reaches_a_batch(all_gold: Project, alice: User, said: list[tuple[bool, str]]) -> None:
    """Whatever is said of whatever mixture, rollouts are judged as if gold words had not been said.

    Each example has people of its own: who is wrong about gold items again and again rightly loses the weight of their
    word, and is given no more reviews.
    """
    task = make_judged_task(all_gold)
    item = add_gold(task=task, by=alice, expected={"score": 1.0})
    words = {
        "score": {"score": 0.123},
        "preferred": {"preferred_attempt": 0},
        "steps": {"none_good": True},
        "hint": {"hint_text": "gold hint", "score": 0.5},
    }
    real = False
    for number, (is_gold, what) in enumerate(said):
        user = make_user(f"person-{task.pk}-{number}")
        Member.objects.get_or_create(project=all_gold, user=user, role=Role.REVIEWER)
        if is_gold:
            taken = claim_review(all_gold, user)
            assert taken is not None
            assert taken.purpose == "gold"
            give_feedback(review=taken, by=user, **words[what])  # type: ignore[arg-type]
        else:
            real = True
            give_task_feedback(task=task, by=user, score=0.75)
    extract_hints([task.pk])
    build_rollouts([task.pk], by="test")
    remove_gold(item=item, by=alice)
    rollouts = list(Rollout.objects.filter(task=task).order_by("attempt__index"))
    assert TrainingUse.objects.filter(rollout__task=task).count() == len(rollouts) == 2
    wanted = [0.25, 1.0] if real else [0.0, 1.0]
    assert [rollout.reward for rollout in rollouts] == pytest.approx(wanted)
    assert not Hint.objects.filter(feedback__review__purpose="gold").exists()
    assert Feedback.objects.filter(task=task, review__purpose="gold").count() == sum(is_gold for is_gold, _ in said)


@pytest.mark.parametrize(
    ("said", "known"),
    [
        ({"score": 0.0}, {0: 0.0, 1: 0.0}),
        ({"none_good": True}, {0: 0.0, 1: 0.0}),
        ({"preferred_attempt": 1}, {1: 1.0}),
        ({"ranking": [[1], [0]]}, {0: 0.0, 1: 1.0}),
        ({"score": 0.75, "steps": [StepRating(attempt_index=0, score=0.25)]}, {0: 0.25, 1: 0.75}),
    ],
)
def test_a_managers_judgement_says_what_is_known_of_each_attempt(
    all_gold: Project, alice: User, bob: User, said: dict[str, Any], known: dict[int, float]
) -> None:
    task = make_chat_task(all_gold, state=Task.State.DONE)
    item = add_gold(task=task, by=alice, reference=give_task_feedback(task=task, by=alice, **said))
    assert item.expected["attempts"] == {str(index): score for index, score in known.items()}
    review = claim_review(all_gold, bob)
    assert review is not None
    wrong = [StepRating(attempt_index=index, score=1.0 - score) for index, score in known.items()]
    give_feedback(review=review, by=bob, steps=wrong)
    (shown,) = list_gold(all_gold)
    assert (shown.item, shown.judged, shown.compared, shown.right) == (item, 1, len(known), 0)
    assert Rater.objects.get(handle=bob.handle).errors == len(known)


def test_a_truth_that_is_taken_back_measures_nobody_any_more(all_gold: Project, alice: User, bob: User) -> None:
    carol = make_user("carol")
    Member.objects.get_or_create(project=all_gold, user=carol, role=Role.REVIEWER)
    task = make_chat_task(all_gold, state=Task.State.DONE)
    reference = give_task_feedback(task=task, by=carol, score=0.0)
    item = add_gold(task=task, by=alice, reference=reference)
    assert item.reference == reference
    late = make_user("dave")
    Member.objects.get_or_create(project=all_gold, user=late, role=Role.REVIEWER)
    early, open_still = claim_review(all_gold, bob), claim_review(all_gold, late)
    assert early is not None
    assert open_still is not None
    give_feedback(review=early, by=bob, score=1.0)
    assert Rater.objects.get(handle=bob.handle).weight < 1.0
    judging.retract(reference, by=carol, reason="I was wrong")
    item.refresh_from_db()
    assert item.removed_at is not None
    assert AuditEntry.objects.filter(kind="gold.removed", subject_id=item.pk, actor=carol.handle).count() == 1
    rater = Rater.objects.get(handle=bob.handle)
    assert (rater.weight, rater.audited) == (1.0, 0)
    give_feedback(review=open_still, by=late, score=1.0)
    assert not Comparison.objects.filter(source=Comparison.Source.GOLD).exists()


def test_a_truth_judged_in_bulk_ends_with_the_bulk_judgement(all_gold: Project, alice: User) -> None:
    review = make_open_review(all_gold)
    bulk = bulks.start(project=all_gold, by=alice, filters=QueueFilter(), judgement={"score": 1.0}, confirmed=1)
    bulks.do_all(bulk.pk)
    item = add_gold(task=review.task, by=alice, reference=Feedback.objects.get())
    bulk.refresh_from_db()
    bulks.begin_undo(bulk=bulk, by=alice)
    bulks.undo_all(bulk.pk)
    item.refresh_from_db()
    assert item.removed_at is not None


def test_who_added_an_item_is_not_measured_by_it(all_gold: Project, alice: User, bob: User) -> None:
    item = make_gold(all_gold, alice)
    assert claim_review(all_gold, alice) is None
    taken = claim_review(all_gold, bob)
    assert taken is not None
    assert taken.task_id == item.task_id


def test_words_alone_are_no_truth(project: Project, alice: User) -> None:
    task = make_chat_task(project, state=Task.State.DONE)
    with pytest.raises(BadInputError, match="nothing is known of this"):
        add_gold(task=task, by=alice, reference=give_task_feedback(task=task, by=alice, text="Be brief."))


def test_a_judgement_becomes_a_control_item_on_its_page_and_is_seen_and_removed_under_quality(
    all_gold: Project, alice: User, bob: User
) -> None:
    review = make_open_review(all_gold)
    said = give_feedback(review=review, by=alice, score=1.0)
    client, words = sign_in(alice), "Use as a control item (gold)"
    page = reverse("console:feedback", args=(all_gold.slug, said.pk))
    quality = reverse("console:quality", args=(all_gold.slug,))
    assert words in client.get(page).content.decode()
    assert words not in sign_in(bob).get(page).content.decode()
    add = reverse("console:gold-add", args=(all_gold.slug, said.pk))
    assert sign_in(bob).post(add).status_code == 403
    closed = reverse("console:review", args=(all_gold.slug, review.pk))
    assert words in client.get(closed).content.decode(), "the closed review's own page has the button too"
    added = client.post(add, {"then": "review"}, follow=True)
    assert "handed out for review unmarked" in added.content.decode()
    assert added.redirect_chain[-1][0] == closed
    assert words not in client.get(page).content.decode()
    assert "This is a control item (gold)" in client.get(closed).content.decode()
    taken = claim_review(all_gold, bob)
    assert taken is not None
    give_feedback(review=taken, by=bob, score=0.0)
    shown = " ".join(client.get(quality).content.decode().split())
    assert "100.0 % of reviews" in shown
    assert 'class="right">0 of 1</td>' in shown
    assert "Control items" not in sign_in(bob).get(quality).content.decode()
    item = GoldItem.objects.get()
    remove = reverse("console:gold-remove", args=(all_gold.slug, item.pk))
    assert sign_in(bob).post(remove).status_code == 403
    client.post(remove)
    assert list_gold(all_gold) == []
    assert client.post(reverse("console:gold-remove", args=(all_gold.slug, 0))).status_code == 404
    assert "gold item already" not in client.post(add, follow=True).content.decode()
