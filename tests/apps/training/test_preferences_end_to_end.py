"""What people prefer, and how they would have answered, becomes adapters: real engine, real trainer, real gate."""

import random
from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

from apps.accounts.models import Project, User
from apps.adapters.models import Adapter
from apps.adapters.selectors import find_deployed
from apps.adapters.services import promote_verified
from apps.feedback.submit import give_task_feedback
from apps.gate.gating import gate_adapter
from apps.inference.services import open_client, record_exchanges
from apps.outbox.models import Segment
from apps.pipeline import flow
from apps.rollouts.models import Demonstration, PreferencePair
from apps.rollouts.services import build_rollouts
from apps.tasks.models import Attempt, Task
from apps.tasks.services import save_steps
from apps.training import preflight, results, services
from apps.training.models import TrainingRun
from apps.training.provenance import trace_attempts, trace_feedback
from apps.workers.models import Worker
from apps.worlds.desk.agent import DeskAgent
from apps.worlds.desk.world import DeskWorld
from tentalis.core.contracts import TrainSpec
from tentalis.core.desk import make_tickets, parse_ticket, solve
from tests.factories import make_task, make_worker

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.django_db]

TICKETS, GROUP = 120, 6
SMALL_GATE = {"panel_size": 150, "fresh_size": 60, "sweep_size": 20, "skills_size": 30}
OF_FEW_ANSWERS = {"G4", "G5", "G9"}
"""Gates that go by what is held out here, some twenty answers: either of their words is right."""
RECIPES = {
    "dpo": {"minibatches": 8, "epochs": 2, "learning_rate": 2e-3, "held_out_share": 0.25, "nll_coef": 1.0},
    "kto": {"minibatches": 8, "learning_rate": 1e-3, "beta": 0.5, "held_out_share": 0.25},
    "sft": {"minibatches": 8, "epochs": 2, "learning_rate": 2e-3, "held_out_share": 0.2},
}


@pytest.fixture(autouse=True)
def here(settings: Settings, tmp_path: Path, desk_engine: str, project: Project) -> None:
    """An artifact store of the test's own and an engine; the gate asks fewer tasks than it would."""
    settings.ARTIFACTS = tmp_path
    settings.TENTALIS = settings.TENTALIS | {"INFERENCE_BASE_URL": desk_engine, "LLM_MODEL": ""}
    project.gate_policy = SMALL_GATE
    project.batch_tasks = 1_000
    project.save()


@pytest.fixture
def ada(project: Project) -> Worker:
    return make_worker(project, "ada", kind="desk", base_model="desk")


def work_tickets(worker: Worker) -> list[Task]:
    """Tickets as the real model worked them, several tries each, that nobody has judged."""
    prompts = [ticket.text for ticket in make_tickets(random.Random(5), TICKETS, held_out=False)]
    groups = DeskAgent(open_client(None)).work(
        prompts=prompts, world=DeskWorld(), group_size=GROUP, seeds=[9] * TICKETS, model="desk"
    )
    values = {"environment": "desk", "state": Task.State.LEARNING, "group_size": GROUP}
    tasks = [make_task(worker.project, worker, prompt=prompt, **values) for prompt in prompts]
    drafts = [draft for group in groups for draft in group]
    exchanges = record_exchanges(project=worker.project, drafts=drafts, worker_name=worker.name, model="desk")
    attempts = Attempt.objects.bulk_create(
        Attempt(
            task=tasks[place // GROUP],
            index=place % GROUP,
            worker=worker,
            exchange=exchange,
            text=draft.text,
            answer=draft.answer,
        )
        for place, (draft, exchange) in enumerate(zip(drafts, exchanges, strict=True))
    )
    save_steps(attempts, drafts)
    return tasks


def review(task: Task, by: User) -> None:
    """What somebody says who knows the house rules: which try is right, else how the answer should have read where
    everything before it is right; of the others nothing.
    """
    ticket = parse_ticket(task.prompt)
    gold = [part for part in solve(ticket, ticket.house_option) if part[0] != "result"]
    tries = list(task.attempts.prefetch_related("steps"))
    done = {one.index: [(step.kind, step.text) for step in one.steps.all()] for one in tries}
    for index, steps in done.items():
        if steps == gold:
            give_task_feedback(task=task, by=by, preferred_attempt=index)
            return
    for index, steps in done.items():
        if steps[:-1] == gold[:-1] and len(steps) == len(gold) and steps[-1][0] == "answer":
            give_task_feedback(task=task, by=by, preferred_attempt=index, edited_answer=gold[-1][1])
            return


def train(worker: Worker, by: User, algorithm: str) -> TrainingRun:
    """What a person asks for, the gates before it, and what the queue and the box do."""
    import torch

    from gpu_workers.runner import run as train_spec

    torch.set_num_threads(1)
    run = flow.close_batch(worker=worker, by=by, recipe={"algorithm": algorithm, **RECIPES[algorithm]})
    preflight.ask_run(run.pk, by="gate")
    services.dispatch_run(run.pk, by="control")
    run.refresh_from_db()
    assert run.state == TrainingRun.State.RUNNING, run.failure or run.waiting_reason
    result = train_spec(TrainSpec.from_json(run.spec), lambda _: None)
    flow.handle_training_result(result.to_json(), by="control")
    run.refresh_from_db()
    return run


def adopt(run: TrainingRun) -> Adapter:
    """What the queue does with an adapter that came home."""
    adapter = Adapter.objects.get(run_id=run.pk)
    gate_adapter(adapter.pk, by="gate")
    promote_verified(adapter.pk, by="gate")
    results.note_measured(adapter)
    Segment.objects.update(state=Segment.State.DONE)
    adapter.refresh_from_db()
    run.refresh_from_db()
    return adapter


def learn(worker: Worker, by: User, algorithm: str) -> TrainingRun:
    """One run to its end: what it made serves, and is better, or it is held back in words and its numbers are kept."""
    before = find_deployed(worker)
    run = train(worker, by, algorithm)
    assert run.parent == before
    assert run.metrics, "whatever came of it, its numbers stay"
    answers = {one["gate"]: one["passed"] for one in run.gates}
    assert [gate for gate, passed in answers.items() if gate not in OF_FEW_ANSWERS and not passed] == []
    if run.state == TrainingRun.State.REFUSED:
        assert run.failure.startswith("not published: "), run.failure
        assert run.summary["val_loss"] > 0
        return run
    assert run.state == TrainingRun.State.SUCCEEDED, run.failure
    adapter = adopt(run)
    if False in (answers["G4"], answers["G5"]):  # by what its trainer told: the gate had nothing to measure
        assert adapter.state == Adapter.State.REFUSED
        assert "refused: " in adapter.verdicts.get(question="safe").words
        return run
    assert {one["gate"] for one in run.gates} == {f"G{number}" for number in range(1, 14)}
    assert run.summary["length_after_tokens"] > 1
    assert "sampled by the installation's own" in adapter.verdicts.get(question="safe").words
    if adapter.state == Adapter.State.DEPLOYED:
        assert "safe to serve" in adapter.verdicts.get(question="safe").words
    elif adapter.state == Adapter.State.QUARANTINED:
        assert adapter.suspicion
    else:
        assert adapter.state == Adapter.State.REFUSED
        assert "refused: " in adapter.verdicts.get(question="safe").words
    return run


def test_choices_and_edited_answers_become_adapters_by_pairs_by_good_and_bad_and_by_imitation(
    ada: Worker, alice: User, client: Client
) -> None:
    tasks = work_tickets(ada)
    for task in tasks:
        review(task, alice)
        build_rollouts([task.pk], by="ledger")
    assert set(PreferencePair.objects.values_list("source", flat=True)) == {"choice", "edit"}, "her words alone order"
    assert set(Demonstration.objects.values_list("source", flat=True)) == {"edit", "attempt"}
    dpo, kto, sft = (learn(ada, alice, algorithm) for algorithm in ("dpo", "kto", "sft"))
    assert [run.batch.kind for run in (dpo, kto, sft) if run.batch] == ["pairs", "rollouts", "demonstrations"]
    ordered = [run.summary["held_out_pair_accuracy"] for run in (dpo, kto)]
    assert max(ordered) > 0.6, "people's words alone taught it: it orders answers to tickets that were held out"
    if serving := find_deployed(ada):
        assert serving.run_id in {run.pk for run in (dpo, kto, sft)}

    edit = PreferencePair.objects.filter(source="edit").select_related("feedback", "rejected").earliest("pk")
    assert edit.feedback is not None
    assert edit.rejected is not None
    by_pair = Adapter.objects.get(run_id=dpo.pk)
    said, tried = trace_feedback([edit.feedback])[edit.feedback.pk], trace_attempts([edit.rejected])[edit.rejected.pk]
    for uses in (said, tried):
        learnt = {(use.learnt, use.source, use.run) for use in uses}
        assert learnt >= {("pairs", "edit", dpo), ("rollouts", "", kto), ("demonstrations", "edit", sft)}
    client.force_login(alice)
    assert_pages_tell(client, edit, by_pair)


def assert_pages_tell(client: Client, edit: PreferencePair, by_pair: Adapter) -> None:
    """The run says what it learnt from, and the judgement where it went, on the page and over REST."""
    run = TrainingRun.objects.get(pk=by_pair.run_id or 0)
    pairs = PreferencePair.objects.filter(batch=run.batch_id)
    held = pairs.count(), pairs.values("task").distinct().count()
    page = client.get(f"/p/shop/runs/{run.pk}/").content.decode()
    assert f"{held[0]} pairs from {held[1]} tasks" in page
    assert "An edited answer" in page
    assert f"{held[0]} pairs" in client.get("/p/shop/runs/").content.decode()
    said = client.get(f"/api/v1/runs/{run.pk}").json()["learns_from"]
    assert (said["kind"], said["count"], said["tasks"]) == ("pairs", *held)
    assert [one["source"] for one in said["shares"]] == ["choice", "edit"]
    trace = client.get(f"/p/shop/feedback/{edit.feedback_id}/").content.decode()
    assert f'href="/p/shop/adapters/{by_pair.pk}/"' in trace
    for address in (f"/api/v1/feedback/{edit.feedback_id}", f"/api/v1/attempts/{edit.rejected_id}"):
        uses = client.get(address).json()["uses"]
        [use] = [one for one in uses if one["source"] == "edit" and one["learnt"] == "pairs"]
        assert (use["run"], use["adapter"]) == (run.pk, by_pair.name)
