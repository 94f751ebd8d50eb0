"""Where nothing says what is right, answers are compared: by a judge whose error is known, or by people who do not know
whose they are."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import Project, User
from apps.adapters.models import Adapter
from apps.calibration.models import Comparison, Rater
from apps.erasure.records import forget_person
from apps.evals.holding import find_held_out
from apps.evals.models import Item, ItemTry
from apps.evals.panels import read_item
from apps.evals.services import hash_item
from apps.feedback.claims import claim
from apps.feedback.expiry import expire_reviews
from apps.feedback.hints import extract_hints
from apps.feedback.managers import find_judge
from apps.feedback.models import Feedback, Hint, Review
from apps.feedback.rules import validate_review_policy
from apps.feedback.side_by_side import find_conversation, find_judged_pairs, open_pair, read_preferences
from apps.feedback.submit import give_feedback, give_task_feedback
from apps.gate.awaiting import find_answered, withdraw_decided
from apps.gate.gating import PEOPLE, gate_adapter
from apps.gate.models import AnswerPair
from apps.gate.pairs import calibrate
from apps.inference.models import Exchange, Provider
from apps.outbox.models import Segment
from apps.pipeline import flow
from apps.rollouts.models import Rollout
from apps.rollouts.services import build_rollouts
from apps.tasks.models import Attempt, Task
from apps.training.services import is_unsettled
from apps.workers.models import Worker
from tentalis.core.learning.judged_pairs import LEAST_JUDGED
from tests.apps.adapters.desk_adapters import make_served
from tests.apps.gate.conftest import hold_out, judge
from tests.factories import make_task, make_user
from tests.fakes import FakeModelServer

pytestmark = pytest.mark.django_db
WISE = "wise"


def is_right(prompt: str, answer: str) -> bool:
    number = re.search(r"\d+", prompt)
    return number is not None and answer.strip() == str(2 * int(number[0]))


def _never(number: int) -> bool:
    return False


class Judge(FakeModelServer):
    """Knows what is right; likes the first place, or is wrong, in some cases.

    Attributes:
        likes_first, errs: of a case's number, whether.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.models = [WISE]
        self.likes_first: Callable[[int], bool] = _never
        self.errs: Callable[[int], bool] = _never
        self.reply = self._say

    def _say(self, asked: str, index: int) -> str:
        text = json.loads(asked)[-1]["content"]
        blocks = {
            name: re.search(rf"<<<{name} \S+\n(.*?)\nfence", text, re.S)
            for name in ("TASK", "FIRST ANSWER", "SECOND ANSWER")
        }
        prompt, first, second = (found[1] if found else "" for found in blocks.values())
        number = int(re.findall(r"\d+", prompt)[0])
        sides = is_right(prompt, first), is_right(prompt, second)
        better = "tie" if sides[0] == sides[1] else "first" if sides[0] != self.errs(number) else "second"
        return json.dumps({"better": "first" if self.likes_first(number) else better, "reason": "so"})


@pytest.fixture
def wise(clerk: Worker) -> Iterator[Judge]:
    with Judge() as stub:
        Provider.objects.create(
            project=clerk.project, name="bench", kind="custom", base_url=f"{stub.url}/v1", allow_private=True
        )
        clerk.project.review_policy = {"model": f"bench/{WISE}"}
        clerk.project.save()
        yield stub


def judge_pairs(worker: Worker, alice: User, count: int, *, start: int = 1_000) -> None:
    """People said of so many tasks with two answers which is the right one."""
    for number in range(start, start + count):
        task = make_task(worker.project, worker, prompt=f"Double the number {number}", state="done")
        right = number % 2
        for index in range(2):
            answer = str(2 * number + (index != right))
            Attempt.objects.create(task=task, index=index, worker=worker, text=answer, answer=answer)
        Feedback.objects.create(
            project=task.project, task=task, author=alice.handle, source="human",
            preferred_attempt=task.attempts.get(index=right),
        )  # fmt: skip


def test_a_calibrated_judge_decides_and_is_named_in_the_verdict(
    clerk: Worker, store: Path, wise: Judge, alice: User
) -> None:
    hold_out(clerk.project, 40, is_checked=False)
    judge_pairs(clerk, alice, 40)
    wise.errs = lambda number: number >= 1_000 and number % 10 == 0
    state, verdict = judge(clerk, 1, store)
    assert (state, verdict.outcome) == ("verified", "yes")
    assert "by wise, asked in both orders, which errs on 10% of 40 pairs that people judged" in verdict.words
    evidence = verdict.details["evidence"]
    assert (evidence["kind"], evidence["human_pairs"], evidence["judge_error"]) == ("judge", 40, 0.1)
    won = verdict.details["pairs won"]
    assert won["difference"] == pytest.approx(0.5 / 0.8, abs=0.08), "half of the pairs, corrected for the judge's error"
    asked = AnswerPair.objects.filter(adapter__version=1)
    assert set(asked.values_list("by", flat=True)) == {"agent:pairs:wise"}
    assert asked.filter(said=0.5).count() >= asked.filter(said=1.0).count() - 1, "the same answer is a tie, unasked"
    assert not asked.filter(said=0.0).exists()
    assert Exchange.objects.filter(turn="judge").exists(), "what it cost is kept"


def test_what_a_judge_finds_worse_is_refused(clerk: Worker, store: Path, wise: Judge, alice: User) -> None:
    hold_out(clerk.project, 40, is_checked=False)
    judge_pairs(clerk, alice, 40)
    make_served(clerk, 1, store, state=Adapter.State.REFUSED)
    state, verdict = judge(clerk, 2, store)
    assert (state, verdict.outcome) == ("refused", "no")


def test_a_judge_that_was_not_compared_with_people_proves_nothing_and_says_what_is_missing(
    clerk: Worker, store: Path, wise: Judge, alice: User
) -> None:
    hold_out(clerk.project, 40, is_checked=False)
    judge_pairs(clerk, alice, LEAST_JUDGED - 5)
    state, verdict = judge(clerk, 1, store)
    assert (state, verdict.outcome) == ("candidate", "inconclusive")
    assert "the judge wise was compared with people on 25 pairs of answers: wanted 5 more" in verdict.words
    assert verdict.details["missing_pairs"] == 5
    assert not AnswerPair.objects.exists()


def test_a_judge_that_takes_the_first_place_says_only_ties_and_proves_nothing(
    clerk: Worker, store: Path, wise: Judge, alice: User
) -> None:
    hold_out(clerk.project, 40, is_checked=False)
    judge_pairs(clerk, alice, 40)
    wise.likes_first = lambda number: True
    state, verdict = judge(clerk, 1, store)
    assert (state, verdict.outcome) == ("candidate", "inconclusive")
    assert "no better than a guess" in verdict.words


def test_without_a_judge_or_people_nothing_is_proved(clerk: Worker, store: Path) -> None:
    hold_out(clerk.project, 40, is_checked=False)
    state, verdict = judge(clerk, 1, store)
    assert (state, verdict.outcome) == ("candidate", "inconclusive")
    assert "no model is configured as a judge" in verdict.words


def test_a_judge_is_asked_about_a_pair_once(clerk: Worker, wise: Judge, alice: User, store: Path) -> None:
    hold_out(clerk.project, 40, is_checked=False)
    judge_pairs(clerk, alice, 40)
    judge(clerk, 1, store)
    asked = len(wise.requests)
    rater = Rater.objects.get(handle="agent:pairs:wise")
    assert Comparison.objects.filter(rater=rater, source="human").count() == 40
    Adapter.objects.filter(version=1).update(state="candidate")
    Adapter.objects.get(version=1).verdicts.all().delete()
    gate_adapter(Adapter.objects.get(version=1).pk, by="gate")
    assert len(wise.requests) == asked


def test_of_who_is_trusted_no_more_no_word_tells_how_often_a_judge_errs(
    clerk: Worker, wise: Judge, alice: User, bob: User
) -> None:
    judge_pairs(clerk, alice, 20)
    judge_pairs(clerk, bob, 20, start=2_000)
    asked = find_judge(validate_review_policy(clerk.project.review_policy), clerk.project)
    assert calibrate(clerk.project, asked).pairs == 40
    Rater.objects.update_or_create(
        project=clerk.project, handle=bob.handle, defaults={"quarantined_at": timezone.now()}
    )
    assert calibrate(clerk.project, asked).pairs == 20


# --- people ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def people(clerk: Worker) -> Project:
    clerk.project.gate_policy |= {"blind_pairs": 40}
    clerk.project.save()
    hold_out(clerk.project, 40, is_checked=False)
    return clerk.project


def begin(worker: Worker, version: int, store: Path) -> Adapter:
    adapter = make_served(worker, version, store, state=Adapter.State.CANDIDATE)
    gate_adapter(adapter.pk, by="gate")
    adapter.refresh_from_db()
    return adapter


def say_which_is_right(by: User) -> int:
    """Everything that waits is judged by somebody who sees which answer is right."""
    waiting = Review.objects.filter(state="open", purpose="pair").select_related("task")
    for review in waiting:
        rights = [is_right(review.task.prompt, one.answer) for one in review.task.attempts.order_by("index")]
        said: dict[str, Any] = {"preferred_attempt": rights.index(True)} if any(rights) else {"ranking": [[0, 1]]}
        give_feedback(review=review, by=by, **said)
    over = Task.objects.filter(state="learning", metadata__has_key="blind_pair")
    ids = list(over.values_list("pk", flat=True))
    extract_hints(ids)
    build_rollouts(ids, by="ledger")
    return len(ids)


def test_people_compare_blindly_until_it_is_decided(clerk: Worker, people: Project, store: Path, alice: User) -> None:
    adapter = begin(clerk, 1, store)
    assert (adapter.state, adapter.verdicts.count()) == ("candidate", 0)
    assert (adapter.waits_for, is_unsettled(clerk.pk)) == (PEOPLE, True)
    assert not find_answered()
    tasks = Task.objects.filter(metadata__has_key="blind_pair")
    assert find_held_out(tasks) == {task.pk for task in tasks}
    assert all(one.adapter is None for one in Attempt.objects.all()), "nothing says whose an answer is"
    assert {row.is_swapped for row in AnswerPair.objects.that_wait()} == {True, False}
    assert say_which_is_right(alice) == 15, "of 30 pairs half are the same answer twice"
    assert find_answered() == [(adapter.pk, people.pk)]
    flow.end_learning([tasks.latest("pk").pk])
    begun = Segment.objects.filter(kind="adopt", subject_id=adapter.pk, state="open")
    assert begun.delete()[0] == 1, "without a sweep's wait"
    gate_adapter(adapter.pk, by="gate")
    adapter.refresh_from_db()
    verdict = adapter.verdicts.get(question="safe")
    assert (adapter.state, verdict.outcome) == ("verified", "yes")
    assert "by people, who judged 15 of 15 pairs without knowing whose they were" in verdict.words
    assert verdict.details["evidence"]["kind"] == "people"
    assert "not with the anchor" in adapter.verdicts.get(question="proved").words
    assert not is_unsettled(clerk.pk)
    assert not find_answered()


@pytest.mark.parametrize("sides", [("theirs",), ("mine", "theirs")])
def test_answers_that_were_deleted_when_somebody_was_forgotten_are_no_tie(
    clerk: Worker, people: Project, store: Path, alice: User, sides: tuple[str, ...]
) -> None:
    adapter = begin(clerk, 1, store)
    told = list(Task.objects.filter(metadata__has_key="blind_pair").values_list("pk", flat=True))
    kept = dict(ItemTry.objects.exclude(answer="").values_list("pk", "answer"))
    forget_person(project=people, by=make_user("root", is_superuser=True), text="somebody of that name")
    assert not ItemTry.objects.exclude(answer="").exists()
    for pair in AnswerPair.objects.all():  # what is asked of the candidate anew is there again
        for side in {"mine", "theirs"} - set(sides):
            one = getattr(pair, side)
            ItemTry.objects.filter(pk=one.pk).update(answer=kept[one.pk], reason="")
    AnswerPair.objects.all().delete()
    Task.objects.filter(pk__in=told).delete()
    gate_adapter(adapter.pk, by="gate")
    assert not AnswerPair.objects.exists(), "neither put before people nor a tie"


def test_nothing_of_a_blind_pair_is_learned(clerk: Worker, people: Project, store: Path, alice: User) -> None:
    begin(clerk, 1, store)
    say_which_is_right(alice)
    assert set(Task.objects.filter(metadata__has_key="blind_pair").values_list("state", flat=True)) == {"done"}
    assert not Hint.objects.exclude(text="").exists()
    assert not Rollout.objects.filter(is_usable=True).exists()
    found = find_judged_pairs(people.pk)
    assert len(found) == 15, "and each tells how well a judge judges"


def test_each_person_counts_once_by_their_last_word_and_not_where_they_are_not_trusted(
    clerk: Worker, alice: User, bob: User, django_assert_num_queries: Any
) -> None:
    hold_out(clerk.project, 1)
    task = open_pair(clerk, "chat", read_item(Item.objects.get()), ["7", "8"], people=2, by="gate")
    for preferred in (0, 1, 1, 1):
        give_task_feedback(task=task, by=bob, preferred_attempt=preferred)
    give_task_feedback(task=task, by=bob, text="Both are short.")  # says nothing of which is better
    with django_assert_num_queries(4):
        assert read_preferences([task.pk]) == {task.pk: 0.0}
    give_feedback(review=task.reviews.get(), by=alice, preferred_attempt=0)
    assert read_preferences([task.pk]) == {task.pk: 0.5}
    quarantined, doubted = {"quarantined_at": timezone.now()}, {"weight": 0.49}
    Rater.objects.update_or_create(project=clerk.project, handle=bob.handle, defaults=quarantined)
    assert read_preferences([task.pk]) == {task.pk: 1.0}
    Rater.objects.update_or_create(project=clerk.project, handle=alice.handle, defaults=doubted)
    assert read_preferences([task.pk]) == {}, "nobody whose word is trusted has said"


def test_a_pair_is_what_the_last_trusted_person_said_of_it_whoever_spoke_after_them(
    clerk: Worker, alice: User, bob: User, django_assert_num_queries: Any
) -> None:
    hold_out(clerk.project, 1)
    task = open_pair(clerk, "chat", read_item(Item.objects.get()), ["7", "8"], people=2, by="gate")

    def read_better() -> list[tuple[str, str]]:
        with django_assert_num_queries(4):
            pairs = find_judged_pairs(clerk.project_id)
        return [(one.by, (one.first if one.truth else one.second).text) for one in pairs]

    give_task_feedback(task=task, by=alice, preferred_attempt=0)
    give_task_feedback(task=task, by=bob, preferred_attempt=1)
    assert read_better() == [(bob.handle, "8")]
    Rater.objects.update_or_create(
        project=clerk.project, handle=bob.handle, defaults={"quarantined_at": timezone.now()}
    )
    assert read_better() == [(alice.handle, "7")], "his word does not hide hers"
    give_task_feedback(task=task, by=alice, text="Both are short.")  # says nothing of which is better
    assert read_better() == [(alice.handle, "7")]


def test_who_compares_answers_to_a_conversation_reads_all_of_it(
    clerk: Worker, alice: User, client: Client, django_assert_num_queries: Any
) -> None:
    """As long as its item is there: nothing of it is copied."""
    hold_out(clerk.project, 1)
    said = [
        {"role": "user", "content": "My lamp is broken."},
        {"role": "assistant", "content": "How old is it?"},
        {"role": "user", "content": "Double the number 0"},
    ]
    Item.objects.update(messages=said, content_hash=hash_item("Double the number 0", said))
    item = read_item(Item.objects.get())
    pairs = [
        open_pair(clerk, "chat", one, ["7", "8"], people=1, by="gate") for one in (item, replace(item, messages=()))
    ]
    assert "lamp" not in json.dumps(pairs[0].metadata)
    client.force_login(alice)
    pages = []
    for task in pairs:
        review = claim(review=task.reviews.get(), by=alice)
        pages.append(client.get(reverse("console:review", args=("shop", review.pk))).content.decode())
    assert [("The whole conversation: 3 messages" in page, "My lamp is broken." in page) for page in pages] == [
        (True, True),
        (False, False),
    ]
    Item.objects.all().delete()
    assert find_conversation(pairs[0]) == ()
    with django_assert_num_queries(0):
        find_conversation(pairs[1])


def test_what_nobody_compared_in_time_is_left_to_a_person(clerk: Worker, people: Project, store: Path) -> None:
    adapter = begin(clerk, 1, store)
    Review.objects.filter(purpose="pair").update(due_at=timezone.now() - timedelta(seconds=1))
    ids = expire_reviews()
    assert len(ids) == 15
    Task.objects.filter(pk=ids.pop()).delete()
    build_rollouts(ids, by="ledger")
    assert find_answered() == [(adapter.pk, people.pk)]
    gate_adapter(adapter.pk, by="gate")
    adapter.refresh_from_db()
    verdict = adapter.verdicts.get(question="safe")
    assert (adapter.state, verdict.outcome) == ("candidate", "inconclusive")
    assert "nobody told their answers apart" in verdict.words
    assert not find_answered()


def test_two_people_are_asked_where_two_are_wanted(
    clerk: Worker, people: Project, store: Path, alice: User, bob: User
) -> None:
    people.gate_policy |= {"people_per_pair": 2}
    people.save()
    begin(clerk, 1, store)
    assert say_which_is_right(alice) == 0, "the second person is asked first"
    assert say_which_is_right(bob) == 15
    assert Feedback.objects.count() == 30


def test_pairs_of_an_adapter_that_somebody_decided_about_leave_the_queue(
    clerk: Worker, people: Project, store: Path
) -> None:
    adapter = begin(clerk, 1, store)
    withdraw_decided(by="gate")
    assert Review.objects.filter(state="open").count() == 15
    Adapter.objects.filter(pk=adapter.pk).update(state="refused")
    withdraw_decided(by="gate")
    adapter.refresh_from_db()
    assert adapter.waits_for == ""
    assert not Review.objects.filter(state="open").exists()
    assert set(Task.objects.values_list("state", flat=True)) == {"cancelled"}


@pytest.mark.parametrize("door", ["page", "rest"])
def test_people_are_asked_by_one_click_where_nothing_was_proved(
    clerk: Worker, store: Path, alice: User, charlie: User, client: Client, door: str
) -> None:
    hold_out(clerk.project, 40, is_checked=False)
    state, _ = judge(clerk, 1, store)
    adapter = Adapter.objects.get()
    page, click = (reverse(f"console:{name}", args=("shop", adapter.pk)) for name in ("adapter", "adapter-compare"))
    client.force_login(charlie)
    assert client.post(click).status_code == 404
    client.force_login(alice)
    assert "Have people compare its answers" in client.get(page).content.decode()
    if door == "page":
        assert (state, client.post(click).status_code) == ("candidate", 302)
    else:
        told = client.post(f"/api/v1/adapters/{adapter.pk}/compare", content_type="application/json")
        assert (told.status_code, told.json()["state"]) == (200, "candidate")
    assert not adapter.verdicts.exists()
    gate_adapter(adapter.pk, by="gate")
    shown = client.get(page).content.decode()
    assert "0 of 15 pairs so far" in shown
    assert "Have people compare its answers" not in shown
    client.post(click, follow=True)
    again = client.post(f"/api/v1/adapters/{adapter.pk}/compare", content_type="application/json")
    assert (again.status_code, "the gate is looking at it" in again.content.decode()) == (409, True)
    assert Review.objects.filter(state="open", purpose="pair").count() == 15, "a second click asks nothing twice"
    review = Review.objects.filter(purpose="pair").earliest("pk")
    form = client.get(reverse("console:review", args=("shop", review.pk))).content.decode()
    assert adapter.name not in form
    assert "base model" not in form
    say_which_is_right(alice)
    gate_adapter(adapter.pk, by="gate")
    assert "people’s blind pairs" in client.get(page).content.decode()
