"""Runs of tasksets: chosen items, limits, what is written down as it comes, and the same prompts once more."""

import json
import threading
from typing import Any

import pytest

from apps.accounts.models import User
from apps.base.errors import BadInputError, ConflictError
from apps.evals.asking import ask_evaluation, measure_asked, reopen_items, replay_evaluation, resume_evaluation
from apps.evals.limits import RunLimits
from apps.evals.models import Evaluation, Item, ItemTry, Taskset, TryRecord
from apps.inference.kept_answers import find_written_answers, name_asked, write_answers
from apps.inference.models import Provider
from apps.workers.models import Worker
from tests.apps.evals.conftest import make_numbers, number_of
from tests.fakes import FakeModelServer

pytestmark = pytest.mark.django_db(transaction=True)
COUNT = 12


@pytest.fixture
def numbers(worker: Worker) -> Taskset:
    return make_numbers(worker.project, range(1, COUNT + 1))


def run(worker: Worker, taskset: Taskset, by: User, **asked: Any) -> Evaluation:
    row = ask_evaluation(worker=worker, taskset=taskset, by=by, **asked)
    measure_asked(row.pk, by="evals")
    row.refresh_from_db()
    return row


def find_asked(server: FakeModelServer) -> list[int]:
    return [number_of(json.dumps(one.body["messages"])) for one in server.requests if "messages" in one.body]


def test_a_run_may_be_of_the_first_items_or_of_chosen_ones(
    worker: Worker, numbers: Taskset, alice: User, server: FakeModelServer
) -> None:
    first = run(worker, numbers, alice, limit=3)
    assert (first.state, first.planned, sorted(find_asked(server))) == ("done", 3, [1, 2, 3])
    server.requests.clear()
    chosen = run(worker, numbers, alice, indices=[4, 2, 9])
    assert (chosen.state, sorted(find_asked(server))) == ("done", [3, 5, 10])
    keys = {row.key for row in ItemTry.objects.filter(evaluation=first)}
    assert len(keys & {row.key for row in ItemTry.objects.filter(evaluation=chosen)}) == 1, "the third pairs"
    for wrong in ([0, 0], [COUNT], [-1]):
        with pytest.raises(BadInputError) as caught:
            ask_evaluation(worker=worker, taskset=numbers, by=alice, indices=wrong)
        assert "indices" in caught.value.errors


def test_what_a_run_was_made_with_is_kept(worker: Worker, numbers: Taskset, alice: User) -> None:
    row = run(worker, numbers, alice, limit=1)
    assert {"tentalis", "python", "code", "agent", "system_prompt", "sampling", "world"} <= row.made_with.keys()
    assert row.seconds > 0


def test_a_try_that_takes_too_long_has_no_outcome_and_holds_up_nobody(
    worker: Worker, numbers: Taskset, alice: User, server: FakeModelServer
) -> None:
    spoken, opened = server.reply, threading.Event()

    def reply(prompt: str, index: int) -> str:
        if number_of(prompt) == 2:
            opened.wait(120)
        return spoken(prompt, index)

    server.reply = reply
    row = run(worker, numbers, alice, limits=RunLimits(timeout_s=2.0, concurrency=3))
    opened.set()
    assert (row.state, row.played) == ("done", COUNT)
    late = ItemTry.objects.get(place=1)
    assert (late.outcome, late.cause, late.reason) == (None, "timeout", "it took longer than 2 s")


def test_a_run_ends_though_a_try_is_refused_in_words_that_cannot_be_stored(
    worker: Worker, numbers: Taskset, alice: User
) -> None:
    class Picky(FakeModelServer):
        def _serve(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
            if "messages" in body and number_of(json.dumps(body["messages"])) == 2:
                return 400, {"error": {"message": "bad prompt \x00 here"}}
            return super()._serve(path, body)

    with Picky() as picky:
        Provider.objects.update(base_url=picky.url)
        worker.refresh_from_db()
        row = run(worker, numbers, alice)
    assert (row.state, row.played) == ("done", COUNT)
    refused = ItemTry.objects.get(place=1)
    assert (refused.outcome, refused.cause) == (None, "infrastructure")
    assert "bad prompt \ufffd here" in refused.reason


def test_a_run_whose_budget_is_used_pauses_in_words_and_goes_on_with_another(
    worker: Worker, numbers: Taskset, alice: User, server: FakeModelServer
) -> None:
    server.usage = {"prompt_tokens": 90, "completion_tokens": 10}
    row = run(worker, numbers, alice, limits=RunLimits(tokens=500, concurrency=1))
    assert (row.state, row.played) == ("paused", 5)
    assert row.failure == "its budget of 500 tokens is used: 500"
    resume_evaluation(evaluation=row, by=alice)
    measure_asked(row.pk, by="evals")
    row.refresh_from_db()
    assert (row.state, row.played) == ("paused", 5), "with the same budget nothing more is asked"
    resume_evaluation(evaluation=row, by=alice, limits=RunLimits(tokens=10_000))
    measure_asked(row.pk, by="evals")
    row.refresh_from_db()
    assert (row.state, row.played, row.failure) == ("done", COUNT, "")
    assert sorted(find_asked(server)) == list(range(1, COUNT + 1)), "each was asked once"


@pytest.mark.parametrize(
    "wrong",
    [{"tokens": 0}, {"usd": 0}, {"minutes": -1}, {"concurrency": 257}, {"timeout_s": float("nan")}, {"tokens": True}],
)
def test_limits_that_are_none_are_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadInputError) as caught:
        RunLimits(**wrong)
    assert list(caught.value.errors) == list(wrong)


def test_money_cannot_be_limited_where_no_price_is_known(worker: Worker, numbers: Taskset, alice: User) -> None:
    with pytest.raises(BadInputError, match="price"):
        ask_evaluation(worker=worker, taskset=numbers, by=alice, limits=RunLimits(usd=1.0))


def test_a_replay_asks_the_very_same_bytes_and_stands_beside_the_run(
    worker: Worker, numbers: Taskset, alice: User, server: FakeModelServer
) -> None:
    first = run(worker, numbers, alice, tries=2, seed=7, indices=[0, 3, 5])
    asked = sorted(json.dumps(one.body) for one in server.requests)
    server.requests.clear()
    again = replay_evaluation(evaluation=first, by=alice)
    measure_asked(again.pk, by="evals")
    again.refresh_from_db()
    assert sorted(json.dumps(one.body) for one in server.requests) == asked
    assert (again.pk != first.pk, again.replay_of, again.failure, again.state) == (True, first, "", "done")
    assert replay_evaluation(evaluation=first, by=alice) == again, "a replay too is made once"
    TryRecord.objects.filter(item_try__evaluation=first, item_try__place=0).update(prompt_hash="another")
    Evaluation.objects.filter(pk=again.pk).update(state="running")
    measure_asked(again.pk, by="evals")
    again.refresh_from_db()
    assert again.failure == f"2 of its prompts are not those of evaluation {first.pk}"
    Worker.objects.filter(pk=worker.pk).update(system_prompt="Be brief.")
    with pytest.raises(ConflictError, match="not what it was: system_prompt"):
        replay_evaluation(evaluation=Evaluation.objects.get(pk=first.pk), by=alice)
    Worker.objects.filter(pk=worker.pk).update(system_prompt="")
    Item.objects.filter(prompt="Say 1").update(prompt="Say 01")
    with pytest.raises(ConflictError, match="not what they were"):
        replay_evaluation(evaluation=Evaluation.objects.get(pk=first.pk), by=alice)


@pytest.mark.parametrize("name", ["report", "desk/300/3d8dd8da01f1", "desk/400/skills/38"])
def test_items_that_were_made_up_for_one_measurement_are_not_drawn_again(name: str) -> None:
    with pytest.raises(ConflictError, match="made up for one measurement"):
        reopen_items(Evaluation(item_set=name, planned=300, tries=1))


def test_what_was_answered_to_a_try_that_was_interrupted_is_not_asked_again(
    worker: Worker, numbers: Taskset, alice: User, server: FakeModelServer
) -> None:
    """A process that is killed behind an answer leaves it written down, under its try."""
    row = ask_evaluation(worker=worker, taskset=numbers, by=alice, limit=2)
    measure_asked(row.pk, by="evals")
    [sent] = [
        one for one in server.requests if "messages" in one.body and number_of(json.dumps(one.body["messages"])) == 1
    ]
    said = {"model": "desk", "choices": [{"message": {"content": "written"}, "finish_reason": "stop"}]}
    with write_answers(row.project_id, f"evaluation:{row.pk}:0:0"):
        kept = find_written_answers()
        assert kept is not None
        assert kept.take("0" * 64) is None, "nothing is left of a try that ended"
        kept.add(name_asked(server.url, sent.path, sent.body), said)
    ItemTry.objects.filter(evaluation=row).delete()
    Evaluation.objects.filter(pk=row.pk).update(state="running")
    server.requests.clear()
    measure_asked(row.pk, by="evals")
    assert find_asked(server) == [2]
    assert TryRecord.objects.get(item_try__place=0).answer == "written"
    with write_answers(row.project_id, f"evaluation:{row.pk}:0:0"):
        kept = find_written_answers()
        assert kept is not None
        assert kept.take(name_asked(server.url, sent.path, sent.body)) is None
