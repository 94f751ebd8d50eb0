"""Evaluations that people ask for, by REST: done in parts, paused, taken up again; and two of them compared."""

import json
import time
from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.tokens import create_token
from apps.base.counting import forget_callers
from apps.evals.asking import measure_asked
from apps.evals.models import Evaluation, Item, ItemTry, Taskset
from apps.evals.results import BLOCK
from apps.outbox.models import Segment
from apps.workers.models import Worker
from tentalis.core.learning.several_questions import adjust_holm
from tests.apps.evals.conftest import make_numbers, number_of
from tests.edges.caller import Caller
from tests.fakes import FakeModelServer
from tests.links import run_link

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def as_alice(alice: User) -> Caller:
    forget_callers()
    _, text = create_token(user=alice, name="test", scopes=Right.values, project=None, by=alice)
    return Caller(text)


@pytest.fixture
def numbers(project: Project) -> Taskset:
    return make_numbers(project, range(1, 2 * BLOCK + 1))


def ask(caller: Caller, taskset: Taskset, **changes: Any) -> Any:
    return caller.send("POST", "evaluations", {"project": "shop", "worker": "helper", "taskset": taskset.pk} | changes)


def work_on() -> None:
    """Do the link that is due, as a queue process does."""
    segment = Segment.objects.get(kind="evaluate", state="open")
    run_link(lambda pk: measure_asked(pk, by="evals"), segment.pk, 0)


def test_an_evaluation_goes_on_after_a_pause_and_a_breakdown_and_tries_nothing_twice(
    as_alice: Caller, worker: Worker, numbers: Taskset, server: FakeModelServer
) -> None:
    asked = ask(as_alice, numbers, limits={"concurrency": 1})
    assert (asked.status, asked.body["state"], asked.body["planned"]) == (201, "queued", 2 * BLOCK)
    path, spoken = f"evaluations/{asked.body['id']}", server.reply

    def pause(prompt: str, index: int) -> str:
        if number_of(prompt) == BLOCK:
            Evaluation.objects.update(state="paused")
            connection.close()
        if number_of(prompt) > BLOCK:
            time.sleep(0.2)  # longer than what ends is gathered for, before it is looked whether it goes on
        return spoken(prompt, index)

    server.reply = pause
    work_on()
    found = as_alice.get(path).body
    assert found["state"] == "paused"
    assert BLOCK <= found["played"] <= BLOCK + 4, "what was begun before it was seen is kept"
    assert not Segment.objects.filter(kind="evaluate", state="open").exists()
    server.reply = spoken
    assert as_alice.send("POST", f"{path}/resume").body["state"] == "queued"
    server.mode = "broken"
    work_on()
    assert as_alice.get(path).body["state"] == "running"
    server.mode = "ok"
    Segment.objects.filter(kind="evaluate", state="open").update(run_after=Now())
    work_on()
    found = as_alice.get(path).body
    assert (found["state"], found["played"], found["items"]) == ("done", 2 * BLOCK, 2 * BLOCK)
    assert 0 < found["low"] < found["mean_outcome"] < found["high"] < 1
    said = [
        number_of(json.dumps(one.body["messages"])) for one in server.requests if one.path == "/v1/chat/completions"
    ]
    assert len(said) - len(set(said)) <= 1, "but for the one that broke off"
    tries = as_alice.get(f"{path}/tries").body["results"]
    assert sorted(one["place"] for one in tries) == list(range(2 * BLOCK))
    assert ask(as_alice, numbers).body["id"] == asked.body["id"], "the very same is measured once"
    assert as_alice.send("POST", f"{path}/cancel").status == 409


def test_a_killed_one_is_taken_up_behind_its_last_block(
    as_alice: Caller, worker: Worker, numbers: Taskset, server: FakeModelServer
) -> None:
    """What a process that is killed had committed is there; its segment comes back when its lease is over."""
    ask(as_alice, numbers)
    row = Evaluation.objects.get()
    Evaluation.objects.update(state="running")
    measured = [ItemTry(evaluation=row, place=place, key=place, outcome=1.0) for place in range(BLOCK)]
    ItemTry.objects.bulk_create(measured)
    work_on()
    row.refresh_from_db()
    assert (row.state, row.played) == ("done", 2 * BLOCK)
    said = {number_of(json.dumps(one.body["messages"])) for one in server.requests if "messages" in one.body}
    assert said == set(range(BLOCK + 1, 2 * BLOCK + 1))


def test_what_was_begun_in_another_world_is_not_gone_on_with(
    as_alice: Caller, worker: Worker, numbers: Taskset, server: FakeModelServer
) -> None:
    ask(as_alice, numbers)
    row = Evaluation.objects.get()
    row.asked_with["world"] = "chat+0123456789ab"
    row.save()
    work_on()
    row.refresh_from_db()
    assert (row.state, row.played) == ("failed", 0)
    assert "the world is not what it was: it was begun in chat+0123456789ab, found chat+" in row.failure


def test_two_evaluations_are_compared_by_item(
    as_alice: Caller, worker: Worker, numbers: Taskset, server: FakeModelServer
) -> None:
    pks = []
    for seed in (0, 1):
        pks.append(ask(as_alice, numbers, seed=seed).body["id"])
        work_on()
        server.reply = lambda prompt, _: str(number_of(prompt))
    found = as_alice.get(f"comparisons?a={pks[1]}&b={pks[0]}").body
    wrong = sum(n % 3 == 0 for n in range(1, 2 * BLOCK + 1)) / (2 * BLOCK)
    assert found["outcomes"]["difference"] == pytest.approx(wrong)
    assert found["outcomes"]["low"] > 0
    assert found["outcomes"]["p"] < 0.1
    other = fill_other(worker.project)
    apart = ask(as_alice, other).body["id"]
    work_on()
    refused = as_alice.get(f"comparisons?a={apart}&b={pks[0]}")
    assert (refused.status, refused.body["code"]) == (409, "too_few_scored")


def fill_other(project: Project) -> Taskset:
    Taskset.objects.filter(name="numbers").update(name="before")
    return make_numbers(project, range(100, 104))


def test_what_cannot_be_measured_is_refused_by_name(
    as_alice: Caller, worker: Worker, numbers: Taskset, project: Project
) -> None:
    for changes, field in (
        ({"taskset": None, "environment": "desk", "size": 5}, ""),
        ({"environment": "desk"}, "taskset"),
        ({"split": "skills"}, "taskset"),
        ({"tries": 99}, "tries"),
        ({"adapter": "nobody@v1"}, "adapter"),
    ):
        body = {"project": "shop", "worker": "helper", "taskset": numbers.pk} | changes
        answer = as_alice.send(
            "POST", "evaluations", {name: value for name, value in body.items() if value is not None}
        )
        assert (answer.status >= 400) == bool(field), answer
        assert not field or field in answer.body["errors"], answer
    Worker.objects.filter(pk=worker.pk).update(kind="openclaw", base_model="")
    assert "chooses the model itself" in ask(as_alice, numbers).body["detail"]
    Evaluation.objects.update(asked_by="")
    [gates] = Evaluation.objects.all()
    assert as_alice.send("POST", f"evaluations/{gates.pk}/cancel").status == 409


def test_an_agent_outside_is_asked_no_item_that_goes_on_from_what_was_said(
    as_alice: Caller, worker: Worker, numbers: Taskset
) -> None:
    """A task says no more than its prompt: what was said before would be lost."""
    Worker.objects.filter(pk=worker.pk).update(kind="outside")
    said = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "1"}, {"role": "user", "content": "2"}]
    past = Item.objects.filter(taskset=numbers).first()
    assert past is not None
    Item.objects.filter(pk=past.pk).update(messages=said)
    refused = ask(as_alice, numbers)
    assert (refused.status, refused.body["errors"]) == (400, {"taskset": [
        "wanted prompts for an agent that works outside, as helper does; found a conversation"
    ]})  # fmt: skip
    assert not Evaluation.objects.exists()
    Item.objects.filter(pk=past.pk).update(messages=said[:1])
    assert ask(as_alice, numbers).status == 201, "no past"


def test_several_questions_are_corrected_for() -> None:
    assert adjust_holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert adjust_holm([0.9, 0.5]) == pytest.approx([1.0, 1.0])
    assert adjust_holm([]) == []


def test_bad_input_is_named_and_nothing_is_half_written(as_alice: Caller, worker: Worker, numbers: Taskset) -> None:
    charlies = Project.objects.create(slug="theirs", name="Theirs")
    other = Taskset.objects.create(project=charlies, name="numbers", environment="chat")
    empty = Taskset.objects.create(project=numbers.project, name="empty", environment="chat")
    for taskset in (other, empty):
        refused = ask(as_alice, taskset)
        assert refused.status in {400, 404}
        assert "taskset" in refused.body["errors"], refused.body
    sides = set(numbers.items.values_list("pk", "split"))
    for content, words in (
        (b'{"shares": {"train": 60, "train": 40}}', "twice"),
        (b'{"shares": {"train": NaN, "held_out": 100}}', "NaN"),
        (b'{"shares": {"train": "60", "held_out": 40}}', "shares"),
        (b'{"shares": {"train": 60.5, "held_out": 39.5}}', "shares"),
        (b'{"shares": {"train": 1e999, "held_out": 40}}', "finite numbers"),
        (b'{"shares": {"train": 60, "exam": 40}}', "split"),
        (b'{"shares": {}}', "shares"),
    ):
        answer = as_alice.send("POST", f"tasksets/{numbers.pk}/split", content)
        assert answer.status == 400, (content, answer.body)
        assert words in json.dumps(answer.body), (content, answer.body)
    assert as_alice.send("POST", f"tasksets/{other.pk}/split", {"shares": {"train": 100}}).status == 404
    assert set(numbers.items.values_list("pk", "split")) == sides
    assert not Evaluation.objects.exists()


def test_an_experiment_asks_its_questions_together_and_each_number_is_traced_to_tries(
    as_alice: Caller, worker: Worker, numbers: Taskset, server: FakeModelServer
) -> None:
    base, spoken = ask(as_alice, numbers).body["id"], server.reply
    better, same, later = (ask(as_alice, numbers, seed=seed).body["id"] for seed in (1, 2, 3))
    questions = {"is it better": better, "is it the same": same, "later": later}
    body = {
        "project": "shop",
        "experiment": "three seeds",
        "scenarios": [{"scenario": name, "candidate": pk, "reference": base} for name, pk in questions.items()],
    }
    made = as_alice.send("POST", "experiments", body).body
    assert (made["findings"], made["finished_at"]) == ({"questions": 3, "measured": 0}, None)
    for pk in (base, better, same):
        server.reply = (lambda prompt, _: str(number_of(prompt))) if pk == better else spoken
        measure_asked(pk, by="evals")
    path = f"experiments/{made['id']}"
    assert as_alice.get(path).body["findings"] == {"questions": 3, "measured": 2}
    rows = {row["scenario"]: row for row in as_alice.get(f"{path}/scenarios").body["results"]}
    alone = as_alice.get(f"comparisons?a={better}&b={base}").body["outcomes"]
    together = rows["is it better"]["details"]["outcomes"]
    wrong = sum(n % 3 == 0 for n in range(1, 2 * BLOCK + 1)) / (2 * BLOCK)
    assert rows["is it better"]["score"] == pytest.approx(wrong)
    assert together["p"] == pytest.approx(alone["p"] * 5 / 2), "of five questions, that which is not answered yet too"
    assert {**together, "p": 0} == {**alone, "p": 0}
    assert rows["is it the same"]["details"]["outcomes"]["p"] == 1.0
    assert (rows["later"]["score"], rows["later"]["details"]["why"]) == (
        None, f"evaluation {later} is queued: wanted it done",
    )  # fmt: skip
    tries = as_alice.get(f"evaluations/{rows['is it better']['candidate']}/tries").body["results"]
    assert sum(one["outcome"] for one in tries) / len(tries) == together["candidate"]
    as_alice.send("POST", f"evaluations/{later}/cancel")
    assert as_alice.get(path).body["failure"] == f"evaluation {later}: cancelled"


def test_an_experiment_is_refused_by_name(as_alice: Caller, worker: Worker, numbers: Taskset) -> None:
    pk = ask(as_alice, numbers).body["id"]
    right = {"scenario": "one", "candidate": pk, "reference": ask(as_alice, numbers, seed=1).body["id"]}
    for scenarios in ([], [right | {"reference": pk}], [right, right], [right | {"candidate": 10**9}], [right] * 51):
        body = {"project": "shop", "experiment": "e", "scenarios": scenarios}
        answer = as_alice.send("POST", "experiments", body)
        assert answer.status in {400, 404}, answer
        assert any(name.startswith("scenarios") for name in answer.body["errors"]), answer.body
    assert as_alice.get("experiments").body["results"] == []
