"""A stranger's worker is measured on the project's own held-out items: no world of ours makes any up for it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apps.accounts.models import Project
from apps.adapters.models import Adapter, Verdict
from apps.evals.models import Item, Taskset
from apps.evals.panels import LEAST_OWN, choose_panel, find_generator, has_panel, say_missing
from apps.gate.gating import gate_adapter
from apps.gate.prompts import list_measured
from apps.inference.models import Provider
from apps.workers.models import Worker
from tentalis.core.learning.gate import GatePolicy
from tests.apps.adapters.desk_adapters import make_served
from tests.apps.adapters.vllm_stub import VllmStub
from tests.factories import make_worker

pytestmark = pytest.mark.django_db


class Clerk(VllmStub):
    """A model that adds: the base gets even sums right, one adapter all of them, another none."""

    def _chat(self, body: dict[str, Any]) -> dict[str, Any]:
        said = body["messages"][-1]["content"].split()[-1]
        number = int(said) if said.isdecimal() else 1
        knows = {"v1": True, "v2": False}
        is_right = next((right for name, right in knows.items() if f"@{name}-" in body["model"]), number % 2 == 0)
        self.reply = lambda prompt, index: str(2 * number if is_right else 2 * number + 1)
        return super()._chat(body)


@pytest.fixture
def server() -> Iterator[Clerk]:
    with Clerk() as stub:
        yield stub


@pytest.fixture
def store(tmp_path: Path, settings: Any) -> Path:
    settings.ARTIFACTS = tmp_path
    return tmp_path


@pytest.fixture
def clerk(project: Project, server: Clerk) -> Worker:
    project.gate_policy = {"panel_size": 60, "sweep_size": 0}
    project.save()
    provider = Provider.objects.create(
        project=project, name="box", kind="vllm", base_url=server.url, allow_private=True, default_model="desk"
    )
    return make_worker(project, "clerk", kind=Worker.Kind.CHAT, provider=provider, base_model="desk")


def hold_out(project: Project, count: int, *, is_checked: bool = True) -> None:
    taskset = Taskset.objects.create(project=project, name="own-work-chat", environment="chat")
    Item.objects.bulk_create(
        Item(
            taskset=taskset, split="held_out", prompt=f"Double the number {number}", content_hash=f"{number:064x}",
            bands=[number], reference=str(2 * number) if is_checked else None,
        )
        for number in range(count)
    )  # fmt: skip
    Project.objects.filter(pk=project.pk).update(has_held_out=True)
    project.refresh_from_db()


def judge(worker: Worker, version: int, store: Path) -> tuple[str, Verdict]:
    adapter = make_served(worker, version, store, state=Adapter.State.CANDIDATE)
    gate_adapter(adapter.pk, by="gate")
    adapter.refresh_from_db()
    return adapter.state, adapter.verdicts.get(question="safe")


def test_the_gate_decides_on_the_projects_own_items_without_a_person(clerk: Worker, store: Path) -> None:
    hold_out(clerk.project, 40)
    state, verdict = judge(clerk, 1, store)
    assert (state, verdict.outcome) == ("verified", "yes")
    assert "safe to serve (on 30 of 40 tasks); by the checks of 40 held-out items" in verdict.words
    assert verdict.details["own_items"] == {"items": 40, "tries": 1, "missing": 0, "effect": 0.1}
    proved = Verdict.objects.get(question="proved")
    assert "improved by +50.0" in proved.words
    assert Adapter.objects.get().is_anchor


def test_what_is_surely_worse_is_refused(clerk: Worker, store: Path) -> None:
    hold_out(clerk.project, 40)
    make_served(clerk, 1, store, state=Adapter.State.REFUSED)
    state, verdict = judge(clerk, 2, store)
    assert (state, verdict.outcome) == ("refused", "no")
    assert "refused: it may be" in verdict.words
    assert verdict.details["own_items"]["missing"] == 0


def test_few_items_say_how_many_are_missing(clerk: Worker, store: Path) -> None:
    hold_out(clerk.project, LEAST_OWN)
    state, verdict = judge(clerk, 3, store)
    assert state == "refused"
    missing = verdict.details["own_items"]["missing"]
    assert missing > 20
    assert f"each tried 6 times; about {missing} more of them would tell a difference of 10 points" in verdict.words


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
    assert verdict.words.startswith("no held-out item in this environment says what a right answer is")


def test_an_agent_that_chooses_its_model_itself_tells_nothing_of_a_candidate(clerk: Worker) -> None:
    hold_out(clerk.project, 40)
    for kind in (Worker.Kind.OUTSIDE, Worker.Kind.OPENCLAW):
        other = make_worker(clerk.project, kind, kind=kind)
        assert choose_panel(other, version=1, policy=GatePolicy()) is None
        assert say_missing(other).startswith("its agent chooses the model itself")


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
