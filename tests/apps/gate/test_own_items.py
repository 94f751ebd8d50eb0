"""A stranger's worker is measured on the project's own held-out items: no world of ours makes any up for it."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from apps.accounts.models import Project, User
from apps.adapters.models import Adapter, Verdict
from apps.console.selectors.gate_tables import read_gate_tables
from apps.console.selectors.trace import find_movement
from apps.evals.benchmarks import install_benchmark
from apps.evals.models import ChosenPanel, Evaluation, Item, ItemTry, Taskset
from apps.evals.panels import LEAST_OWN, choose_panel, find_generator, has_panel, say_missing
from apps.gate.gating import gate_adapter
from apps.gate.sides import list_measured
from apps.inference.errors import ProviderBusyError
from apps.inference.models import Provider
from apps.workers.models import Worker
from tentalis.core.learning.gate import GatePolicy
from tests.apps.adapters.desk_adapters import make_served
from tests.apps.gate.conftest import Clerk, hold_out, judge
from tests.factories import make_task, make_worker

pytestmark = pytest.mark.django_db


class Limited(Exception):
    """Too many requests."""


def test_the_gate_decides_on_the_projects_own_items_without_a_person(clerk: Worker, store: Path) -> None:
    hold_out(clerk.project, 40)
    state, verdict = judge(clerk, 1, store)
    assert (state, verdict.outcome) == ("verified", "yes")
    assert "safe to serve (on 30 of 40 tasks); by the checks of 40 held-out items" in verdict.words
    assert verdict.details["own_items"] == {"items": 40, "tries": 1, "missing": 0, "effect": 0.1}
    proved = Verdict.objects.get(question="proved")
    assert "improved by +50.0" in proved.words
    assert proved.words.endswith("on 30 tasks asked once more"), "its own cannot be drawn anew"
    adapter = Adapter.objects.get()
    assert adapter.is_anchor
    again = read_gate_tables(adapter, [verdict, proved]).measured[1]
    assert again.title == "The held-out panel once more"
    moved = find_movement(adapter)
    assert moved is not None
    told = set(Item.objects.values_list("prompt", flat=True))
    assert moved.gained, "the adapter is better"
    assert {one.text for one in moved.gained} <= told


def test_a_server_that_wants_fewer_requests_at_a_time_makes_no_try_wrong(
    clerk: Worker, store: Path, server: Clerk
) -> None:
    hold_out(clerk.project, 40)
    spoken, before = server._chat, set[str]()

    def chat(body: dict[str, Any]) -> dict[str, Any]:
        asked = json.dumps([body["model"], body["messages"]])
        if "4" in body["messages"][-1]["content"] and asked not in before:
            before.add(asked)
            raise Limited
        return spoken(body)

    answer = server._answer

    def limit(path: str, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        try:
            return answer(path, body)
        except Limited:
            return 429, {"error": {"message": "slow down", "code": "rate_limited"}}, {"Retry-After": "7"}

    server._chat, server._answer = chat, limit  # type: ignore[method-assign]
    adapter = make_served(clerk, 1, store, state=Adapter.State.CANDIDATE)
    for _ in range(80):  # as a queue process comes back to it
        with suppress(ProviderBusyError):
            gate_adapter(adapter.pk, by="gate")
            break
    adapter.refresh_from_db()
    assert adapter.state == "verified"
    assert not ItemTry.objects.filter(outcome=None).exists()
    assert Evaluation.objects.get(adapter__version=1, purpose="panel").mean_outcome == 1.0


def test_what_is_surely_worse_is_refused(clerk: Worker, store: Path) -> None:
    hold_out(clerk.project, 40)
    make_served(clerk, 1, store, state=Adapter.State.REFUSED)
    state, verdict = judge(clerk, 2, store)
    assert (state, verdict.outcome) == ("refused", "no")
    assert "refused: it may be" in verdict.words
    assert verdict.details["own_items"]["missing"] == 0


def test_few_items_that_show_neither_harm_nor_safety_leave_it_to_a_person(clerk: Worker, store: Path) -> None:
    hold_out(clerk.project, LEAST_OWN)
    state, verdict = judge(clerk, 3, store)
    assert (state, verdict.outcome) == ("candidate", "inconclusive")
    missing = verdict.details["own_items"]["missing"]
    assert missing >= 20
    assert f"each tried 6 times; about {missing} more of them would tell a difference of 10 points" in verdict.words
    assert verdict.words.endswith("nothing is proved; a person may promote it")
    assert verdict.details["evidence"] == {"kind": "checks"}


def test_few_items_refuse_what_did_worse_on_them(clerk: Worker, store: Path) -> None:
    hold_out(clerk.project, LEAST_OWN)
    state, verdict = judge(clerk, 2, store)
    assert (state, verdict.outcome) == ("refused", "no")


def test_so_few_items_that_nothing_can_be_said_leave_it_to_a_person(clerk: Worker, store: Path) -> None:
    hold_out(clerk.project, LEAST_OWN - 1)
    assert not has_panel(clerk)
    state, verdict = judge(clerk, 1, store)
    assert (state, verdict.outcome) == ("candidate", "inconclusive")
    assert verdict.words.startswith("9 held-out items so far: wanted at least 10: nothing is proved; a person may")


def test_items_that_say_nothing_of_what_is_right_prove_nothing(clerk: Worker, store: Path) -> None:
    hold_out(clerk.project, 40, is_checked=False)
    assert not has_panel(clerk)
    state, verdict = judge(clerk, 1, store)
    assert (state, verdict.outcome) == ("candidate", "inconclusive")
    assert verdict.words.startswith("no check says what is right, and no model is configured as a judge: nothing is")


def test_an_agent_that_chooses_its_model_itself_tells_nothing_of_a_candidate(clerk: Worker) -> None:
    hold_out(clerk.project, 40)
    for kind in (Worker.Kind.OUTSIDE, Worker.Kind.OPENCLAW):
        other = make_worker(clerk.project, kind, kind=kind)
        assert choose_panel(other, version=1, policy=GatePolicy()) is None
        assert say_missing(other).startswith("its agent chooses the model itself")
    assert say_missing(make_worker(clerk.project)) == "a worker of kind echo asks no model"


@pytest.mark.parametrize("model", ["a model server's", "the installation's"])
def test_an_agent_elsewhere_whose_model_the_gateway_answers_with_is_measured(clerk: Worker, model: str) -> None:
    hold_out(clerk.project, 40)
    provider, base = (None, "apprentice") if model == "the installation's" else (clerk.provider, "")
    other = make_worker(clerk.project, "harness", Worker.Kind.OUTSIDE, provider=provider, base_model=base)
    assert (name_panel(other), has_panel(other)) == ("chat", True)
    Provider.objects.update(default_model="")
    other.refresh_from_db()
    assert has_panel(other) is (provider is None), "a server without a model's name answers nobody"


def test_own_items_are_measured_prompts_like_any(clerk: Worker) -> None:
    assert find_generator(clerk) is None
    assert choose_panel(clerk, version=1, policy=GatePolicy()) is None
    hold_out(clerk.project, LEAST_OWN)
    panel = choose_panel(clerk, version=1, policy=GatePolicy())
    assert panel is not None
    assert list_measured(panel, GatePolicy(), sha256="ab" * 32) == {
        f"Double the number {number}" for number in range(LEAST_OWN)
    }
    desk = make_worker(clerk.project, "desk", kind="desk")
    assert (find_generator(desk) or panel.world).name == "desk"


def add_desk(project: Project, *, count: int = 60) -> None:
    taskset = Taskset.objects.create(project=project, name="tickets", environment="desk")
    Item.objects.bulk_create(
        Item(taskset=taskset, split="held_out", prompt=f"{n}", reference="x", content_hash=f"{n:064x}", bands=[])
        for n in range(count)
    )


def name_panel(worker: Worker) -> str | None:
    panel = choose_panel(worker, version=1, policy=GatePolicy())
    return None if panel is None else panel.world.name


def test_a_worker_is_measured_where_it_works_however_many_items_stand_elsewhere(clerk: Worker) -> None:
    hold_out(clerk.project, LEAST_OWN + 2)
    add_desk(clerk.project)
    assert name_panel(clerk) == "chat", "its usual environment, before its first task"
    for environment in ("desk", "chat", "chat"):
        make_task(clerk.project, clerk, environment=environment)
    assert name_panel(clerk) == "chat", "where most of its tasks are"
    clerk.tasks.update(environment="desk")
    assert name_panel(clerk) == "desk"


def test_items_where_a_worker_never_works_say_nothing_of_it(clerk: Worker) -> None:
    hold_out(clerk.project, LEAST_OWN - 1)
    add_desk(clerk.project)
    make_task(clerk.project, make_worker(clerk.project, "desk", "desk"), environment="desk")
    assert name_panel(clerk) == "desk", "nobody knows where it will work"
    task = make_task(clerk.project, clerk, environment="chat")
    assert (name_panel(clerk), has_panel(clerk)) == (None, False)
    assert say_missing(clerk) == "9 held-out items so far: wanted at least 10"
    friend = make_worker(clerk.project, "friend", "chat", learns_with=clerk)
    make_task(clerk.project, friend, environment="desk")
    assert name_panel(clerk) == "desk", "what its line learns is measured"
    task.delete()
    assert name_panel(clerk) == "desk"


def test_a_benchmark_is_for_whom_it_was_chosen(clerk: Worker, alice: User) -> None:
    hold_out(clerk.project, LEAST_OWN)
    benchmark = install_benchmark(project=clerk.project, name="desk/order", by=alice)
    desk = benchmark.taskset.items.filter(split="held_out")
    assert desk.count() > LEAST_OWN
    assert name_panel(clerk) == "chat"
    Item.objects.filter(taskset__environment="chat").delete()
    assert (name_panel(clerk), has_panel(clerk)) == (None, False)
    make_task(clerk.project, clerk, environment="chat")
    ChosenPanel.objects.create(worker=clerk, taskset=benchmark.taskset)
    assert name_panel(clerk) == "desk", "it was asked for"


@pytest.mark.parametrize(("is_noise", "state"), [(True, "verified"), (False, "refused")])
def test_an_alarm_that_few_answers_raise_is_answered_by_further_tries_of_the_same_items(
    clerk: Worker, store: Path, server: Clerk, is_noise: bool, state: str
) -> None:
    """Every eighth answer is long: at the seeds of the panel alone, or at all of them."""
    hold_out(clerk.project, 40)
    spoken, seen = server._chat, set[str]()

    def chat(body: dict[str, Any]) -> dict[str, Any]:
        said = body["messages"][-1]["content"].split()[-1]
        if "@v1-" not in body["model"] or not said.isdecimal() or int(said) % 8 or (is_noise and said in seen):
            return spoken(body)
        seen.add(said)
        server.reply = lambda prompt, index: f"<step>{'so ' * 9}</step><answer>{2 * int(said)}</answer>"
        return super(Clerk, server)._chat(body)

    server._chat = chat  # type: ignore[method-assign]
    found, verdict = judge(clerk, 1, store)
    assert found == state, verdict.words
    assert [one["detector"] for one in verdict.details["doubted alarms"]] == ["length_drift"]
    further = Evaluation.objects.filter(purpose="more")
    assert [(one.tries, one.items, one.played) for one in further] == [(7, 40, 280)] * 2
