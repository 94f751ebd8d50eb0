"""What is measured once stays: blocks are committed, nothing is tried twice; what says nothing of a model is no 0."""

import itertools
import json
import threading
from collections import Counter
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from apps.evals.comparing import compare_evaluations, pair_first
from apps.evals.errors import TooFewScoredError
from apps.evals.measuring import measure, play
from apps.evals.models import Evaluation, ItemTry
from apps.evals.panels import ItemSet
from apps.evals.results import BLOCK, LARGE_BLOCK, QUICK_BLOCK, WantedTries, find_block, find_measured, read_measured
from apps.evals.streaming import ROUNDS
from apps.inference.errors import PacedError, ProviderBusyError, ProviderRefusedError
from apps.inference.models import Exchange
from apps.workers.models import Worker
from apps.worlds.registry import get_world
from tentalis.core.learning.gate import compare_paired
from tentalis.core.worlds import PanelItem
from tests.apps.evals.conftest import number_of
from tests.factories import make_measured
from tests.fakes import FakeModelServer

pytestmark = pytest.mark.django_db
REPORT = Evaluation.Purpose.REPORT


def make_set(count: int, *, is_checked: bool = True) -> ItemSet:
    numbers = range(1, count + 1)
    items = [PanelItem(prompt=f"Say {n}", reference=n if is_checked else None, seed=n) for n in numbers]
    return ItemSet("numbers", get_world("chat"), items)


def asked(server: FakeModelServer) -> Counter[int]:
    return Counter(
        number_of(json.dumps(one.body["messages"])) for one in server.requests if one.path.endswith("/completions")
    )


def test_what_was_measured_is_read_and_not_asked_again(worker: Worker, server: FakeModelServer) -> None:
    first = measure(worker, None, make_set(9), REPORT)
    assert list(first.outcomes.values()) == [1, 1, 0] * 3
    row = first.evaluation
    assert (row.state, row.played, row.planned, row.items, row.unscored) == ("done", 9, 9, 9, 0)
    assert row.mean_outcome == pytest.approx(6 / 9)
    before = len(server.requests)
    again = measure(worker, None, make_set(9), REPORT)
    assert (again.outcomes, again.evaluation) == (first.outcomes, row)
    assert len(server.requests) == before


@pytest.mark.parametrize(
    ("most_tokens", "parameters", "block"),
    [(2_000, None, BLOCK), (48, None, QUICK_BLOCK), (48, 136_000, QUICK_BLOCK), (48, 268_000_000, LARGE_BLOCK)],
)
def test_short_tries_of_a_large_model_are_asked_for_in_smaller_blocks(
    most_tokens: int, parameters: int | None, block: int
) -> None:
    worker = Worker(kind="chat", sampling={"max_tokens": most_tokens}, base_directory="/models/some")
    worker.base_facts = {"parameters": parameters}
    assert find_block(worker) == block


def test_one_that_broke_off_goes_on_behind_its_last_block(worker: Worker, server: FakeModelServer) -> None:
    items, spoken, replies = make_set(3 * BLOCK), server.reply, itertools.count(1)

    def break_down(prompt: str, index: int) -> str:
        if next(replies) == BLOCK:
            server.mode = "broken"
        return spoken(prompt, index)

    server.reply = break_down
    with pytest.raises(ProviderBusyError):
        measure(worker, None, items, REPORT)
    row = Evaluation.objects.get()
    made = {place + 1 for place in ItemTry.objects.values_list("place", flat=True)}
    assert (row.state, row.played) == ("running", len(made))
    assert BLOCK <= len(made) < 3 * BLOCK, "what was under way is kept, and no more is begun"
    server.mode, server.reply = "ok", spoken
    server.requests.clear()
    measured = measure(worker, None, items, REPORT)
    assert measured.evaluation == row
    assert set(asked(server)) == set(range(1, 3 * BLOCK + 1)) - made, "what was committed is not tried again"
    assert set(asked(server).values()) == {1}
    assert (Evaluation.objects.get().state, ItemTry.objects.count()) == ("done", 3 * BLOCK)


def test_two_who_measure_the_same_have_one_evaluation_and_each_try_once(worker: Worker) -> None:
    items = make_set(6)
    mine, theirs = (find_measured(worker, None, items, REPORT) for _ in range(2))
    play(WantedTries(theirs, items, range(4)))
    play(WantedTries(mine, items))
    assert mine.evaluation == theirs.evaluation == Evaluation.objects.get()
    assert (mine.evaluation.played, ItemTry.objects.count()) == (6, 6)
    with pytest.raises(IntegrityError), transaction.atomic():
        row = Evaluation.objects.get()
        row.pk, row._state.adding = None, True
        row.save()


def test_what_two_who_measure_the_same_spent_is_what_its_tries_took(worker: Worker, server: FakeModelServer) -> None:
    server.usage = {"prompt_tokens": 90, "completion_tokens": 10}
    items = make_set(6)
    play(WantedTries(find_measured(worker, None, items, REPORT), items, range(1)))
    mine, theirs = (read_measured(Evaluation.objects.get()) for _ in range(2))
    assert (mine.spent.tokens, theirs.spent.tokens) == (100, 100)
    play(WantedTries(theirs, items, range(4)))
    play(WantedTries(mine, items))
    assert (ItemTry.objects.count(), mine.spent.tokens) == (6, 600)


def test_what_could_not_be_asked_is_tried_again_and_is_never_wrong(worker: Worker, server: FakeModelServer) -> None:
    refuse(server, {4})
    measured = measure(worker, None, make_set(20), REPORT)
    assert asked(server)[4] == ROUNDS
    assert len(measured.outcomes) == 19
    lost = ItemTry.objects.get(outcome=None)
    assert (lost.place, lost.cause) == (3, "infrastructure")
    assert "policy" in lost.reason
    assert (measured.evaluation.state, measured.evaluation.unscored) == ("done", 1)
    assert measured.evaluation.mean_outcome == pytest.approx(13 / 19)


@pytest.mark.parametrize("times", [1, 2, 3])
def test_where_a_server_wants_fewer_at_a_time_fewer_are_asked_and_none_is_wrong(
    worker: Worker, server: FakeModelServer, times: int
) -> None:
    limit(server, {3: times})
    measured = measure(worker, None, make_set(2 * BLOCK), REPORT)
    assert list(measured.outcomes.values()) == [float(number % 3 != 0) for number in range(1, 2 * BLOCK + 1)]
    assert (measured.evaluation.state, measured.evaluation.unscored) == ("done", 0)


def test_what_is_refused_when_all_others_were_answered_is_asked_again_as_often(
    worker: Worker, server: FakeModelServer
) -> None:
    limit(server, {3: 3})
    answer_now, others_are_asked = server._answer, threading.Event()

    def refuse_late(path: str, body: dict[str, Any]) -> Any:
        if len(asked(server)) == 2 * BLOCK:
            others_are_asked.set()
        answer = answer_now(path, body)
        if answer[0] == 429:
            assert others_are_asked.wait(120)
        return answer

    server._answer = refuse_late  # type: ignore[method-assign]
    measured = measure(worker, None, make_set(2 * BLOCK), REPORT)
    assert (measured.evaluation.state, measured.evaluation.unscored) == ("done", 0)
    assert asked(server)[3] == 4


def test_what_a_server_has_no_room_for_waits_and_what_it_answered_is_kept(
    worker: Worker, server: FakeModelServer
) -> None:
    items = make_set(2 * BLOCK)
    limit(server, {BLOCK + 3: 99})
    for _ in range(2):
        with pytest.raises(ProviderBusyError):
            measure(worker, None, items, REPORT)
        row = Evaluation.objects.get()
        made = {place + 1 for place in ItemTry.objects.values_list("place", flat=True)}
        assert (row.state, row.played, row.unscored) == ("running", len(made), 0)
        assert set(range(1, BLOCK + 3)) <= made
        assert BLOCK + 3 not in made
    limit(server, {})
    server.requests.clear()
    assert measure(worker, None, items, REPORT).evaluation == row
    assert asked(server) == Counter(set(range(1, 2 * BLOCK + 1)) - made)
    row.refresh_from_db()
    assert (row.state, row.unscored) == ("done", 0)


def test_who_says_when_is_not_asked_before(worker: Worker, server: FakeModelServer) -> None:
    limit(server, {3: 99}, retry_after="40")
    with pytest.raises(PacedError) as caught:
        measure(worker, None, make_set(BLOCK), REPORT)
    assert caught.value.retry_after_s == 40.0
    assert set(asked(server).values()) == {1}, "nothing is asked again, and what was not sent yet not at all"
    assert asked(server)[3] == 1


def test_where_too_many_could_not_be_asked_nothing_is_said_and_the_next_may_try(
    worker: Worker, server: FakeModelServer
) -> None:
    refuse(server, {4, 5, 7})
    lost = measure(worker, None, make_set(20), REPORT)
    assert lost.evaluation.state == "failed"
    assert "3 of 20" in lost.evaluation.failure
    server.mode, spoken = "ok", make_measured(worker, None, [1.0] * 20, items="other", keys=make_set(20).keys)
    with pytest.raises(TooFewScoredError, match=r"90% of 20 tasks.* found 17.*policy"):
        pair_first(lost, read_measured(spoken), make_set(20).keys)
    refuse(server, set())
    assert measure(worker, None, make_set(20), REPORT).evaluation != lost.evaluation


def test_a_server_that_answers_nothing_at_all_is_told_as_such(worker: Worker, server: FakeModelServer) -> None:
    server.mode = "refusing"
    with pytest.raises(ProviderRefusedError):
        measure(worker, None, make_set(3), REPORT)
    assert not Evaluation.objects.exists()


def test_rubbish_is_wrong_and_what_nothing_checks_is_neither(worker: Worker, server: FakeModelServer) -> None:
    server.reply = lambda prompt, _: ""
    assert list(measure(worker, None, make_set(3), REPORT).outcomes.values()) == [0, 0, 0]
    server.reply = lambda prompt, _: "something"
    unchecked = measure(worker, None, make_set(3, is_checked=False), REPORT)
    assert (unchecked.outcomes, unchecked.evaluation.unscored) == ({}, 3)
    assert set(ItemTry.objects.filter(outcome=None).values_list("cause", flat=True)) == {"unchecked"}


def test_results_pair_by_what_an_item_says_and_several_tries_of_one_are_one(worker: Worker) -> None:
    keys = make_set(4).keys
    mine = read_measured(make_measured(worker, None, [1.0, 0.0, 1.0, 0.0], items="a", keys=keys))
    theirs = read_measured(make_measured(worker, None, [1.0, 1.0, 0.0, 0.0], items="b", places=[3, 2, 1, 0], keys=keys))
    found, _ = pair_first(mine, theirs, keys).compare(0.9)
    wanted = compare_paired([1.0, 0.0, 1.0, 0.0], [0.0, 0.0, 1.0, 1.0])
    assert (found.low, found.high, found.items) == pytest.approx((wanted.low, wanted.high, 4))
    ItemTry.objects.create(evaluation=mine.evaluation, place=0, key=keys[0], number=1, outcome=0.0)
    clustered, _ = pair_first(read_measured(mine.evaluation), theirs, keys).compare(0.9)
    wanted = compare_paired([0.5, 0.0, 1.0, 0.0], [0.0, 0.0, 1.0, 1.0])
    assert (clustered.low, clustered.high, clustered.items) == pytest.approx((wanted.low, wanted.high, 4))


def limit(server: FakeModelServer, times: dict[int, int], *, retry_after: str = "7") -> None:
    """Answer these prompts 429 so many times, and all others."""
    left = Counter(times)

    def answer(path: str, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        number = number_of(json.dumps(body["messages"])) if path.endswith("/completions") else 0
        if left[number] > 0:
            left[number] -= 1
            return 429, {"error": {"message": "slow down", "code": "rate_limited"}}, {"Retry-After": retry_after}
        return *server._serve(path, body), {}

    server._answer = answer  # type: ignore[method-assign]


def refuse(server: FakeModelServer, numbers: set[int]) -> None:
    """Refuse these prompts, and answer the others."""

    def answer(path: str, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        if path.endswith("/completions") and number_of(json.dumps(body["messages"])) in numbers:
            return 400, {"error": {"message": "this is against the policy", "type": "error", "code": "refused"}}, {}
        return *server._serve(path, body), {}

    server._answer = answer  # type: ignore[method-assign]


@pytest.mark.django_db(transaction=True)
def test_what_a_judge_grades_is_another_evaluation_under_another_rubric(
    worker: Worker, server: FakeModelServer
) -> None:
    said, project = server.reply, worker.project

    def reply(prompt: str, index: int) -> str:
        if "rubric" not in prompt.lower():
            return said(prompt, index)
        steps = [{"index": 0, "score": 0.5, "reason": "so"}] * ("STEP 0" in prompt)
        return json.dumps({"steps": steps, "overall": 0.75, "reason": "so"})

    server.reply = reply
    check = {"check": "judge", "model": "box/desk"}
    items = [PanelItem(prompt=f"Say {n}", checks=[check], seed=n) for n in (1, 2)]
    item_set = ItemSet("judged", get_world("chat"), items)
    project.rubric = "Be brief: this is the rubric."
    project.save()
    first = measure(worker, None, item_set, REPORT)
    assert set(first.outcomes.values()) == {0.75}
    (grader,) = first.evaluation.asked_with["graders"]
    assert grader.startswith("judge desk, prompt ")
    assert measure(worker, None, item_set, REPORT).evaluation == first.evaluation
    project.rubric = "Another rubric."
    project.save()
    assert measure(worker, None, item_set, REPORT).evaluation != first.evaluation
    assert Exchange.objects.filter(project=project, turn="judge").count() == 2 * 2 * 3


def test_an_item_counts_as_much_as_its_weight(worker: Worker) -> None:
    """1 and 2 are answered right, 3 wrong: of weights 1, 1 and 2 half is right."""
    items = [PanelItem(prompt=f"Say {n}", reference=n, seed=n, weight=2.0 if n == 3 else 1.0) for n in (1, 2, 3)]
    weighted = ItemSet("weighted", get_world("chat"), items)
    assert weighted.keys == make_set(3).keys
    assert weighted.hash != make_set(3).hash
    row = measure(worker, None, weighted, REPORT).evaluation
    assert row.mean_outcome == pytest.approx(0.5)
    assert row.items == 3
    assert row.effective_items == pytest.approx(16 / 6)
    plain = measure(worker, None, make_set(3), REPORT).evaluation
    assert plain.mean_outcome == pytest.approx(2 / 3)
    assert plain.effective_items is None
    assert row.interval is not None
    assert plain.interval is not None
    assert row.interval.high - row.interval.low > plain.interval.high - plain.interval.low
    found = compare_evaluations(row, plain)
    assert found.outcomes.difference == 0.0
    assert found.outcomes.candidate == pytest.approx(0.5)
    pairs = pair_first(read_measured(row), read_measured(row), weighted.keys[:2])
    assert pairs.weights == [1.0, 1.0]
