"""Workers that learn with one, over REST and from the command line."""

from apps.accounts.models import Project
from apps.adapters.models import Adapter
from apps.rollouts.models import Batch, Rollout, TrainingUse
from apps.workers.models import Worker
from tests.apps.console.test_per_user import put
from tests.edges.caller import Caller
from tests.factories import make_attempt, make_task, make_worker


def make_two(project: Project, as_alice: Caller) -> tuple[Worker, int]:
    """A desk worker, and the number of one that learns with it."""
    first = make_worker(project, "first", "desk", base_model="desk")
    body = {"project": "shop", "name": "second", "kind": "desk", "learns_with": "first"}
    made = as_alice.post("workers", body)
    assert (made.status, made.body["learns_with"], made.body["learners"]) == (201, "first", [])
    return first, made.body["id"]


def test_rest_says_with_whom_a_worker_learns_and_what_serves_it(project: Project, as_alice: Caller) -> None:
    first, second = make_two(project, as_alice)
    adapter = put(first, 1)
    rows = {row["name"]: row for row in as_alice.get("workers").body["results"]}
    assert [rows[name]["adapter"] for name in ("first", "second")] == [adapter.name] * 2
    assert (rows["first"]["learns_with"], rows["first"]["learners"]) == (None, ["second"])
    assert as_alice.get(f"workers/{second}").body == rows["second"]
    alone = as_alice.patch(f"workers/{second}", {"learns_with": None})
    assert (alone.body["learns_with"], alone.body["adapter"]) == (None, None)
    again = as_alice.patch(f"workers/{second}", {"learns_with": "first"})
    assert (again.body["learns_with"], again.body["adapter"]) == ("first", adapter.name)


def test_rest_refuses_by_field_and_by_right(project: Project, as_alice: Caller, as_bob: Caller) -> None:
    first, second = make_two(project, as_alice)
    unknown = as_alice.patch(f"workers/{second}", {"learns_with": "nobody"})
    assert (unknown.status, list(unknown.body["errors"])) == (404, ["learns_with"])
    itself = as_alice.patch(f"workers/{first.pk}", {"learns_with": "second"})
    assert (itself.status, list(itself.body["errors"])) == (400, ["learns_with"])
    assert as_alice.patch(f"workers/{second}", {"learns_with": 7}).status == 400
    assert as_bob.patch(f"workers/{second}", {"learns_with": None}).status == 403
    assert as_alice.delete(f"workers/{first.pk}").status == 409
    back = as_alice.post(f"workers/{second}/rollback", {})
    assert (back.status, "roll back first" in back.body["detail"]) == (409, True)
    trained = as_alice.post("runs", {"project": "shop", "worker": "second"})
    assert (trained.status, "train first" in trained.body["detail"]) == (409, True)
    chosen = as_alice.post("runs", {"project": "shop"})
    assert "first has nothing to train on" in chosen.body["detail"], "the only line is chosen by itself"


def test_what_is_told_of_a_line_names_who_did_its_tasks(project: Project, as_alice: Caller) -> None:
    first, second = make_two(project, as_alice)
    batch = Batch.objects.create(
        project=project, worker=first, number=1, target_tasks=3, state="closed", closed_at="2026-01-01T00:00:00Z"
    )
    run = as_alice.get("metrics/learning?project=shop&worker=second")
    assert (run.status, run.body["worker"]) == (200, "first")
    for number in (first.pk, second, second):
        task = make_task(project, Worker.objects.get(pk=number))
        for attempt in (make_attempt(task, 0), make_attempt(task, 1)):
            rollout = Rollout.objects.create(
                project=project, worker=task.worker, task=task, attempt=attempt, is_usable=True, reward=1.0
            )
            TrainingUse.objects.create(rollout=rollout, batch=batch)
    adapter = put(first, 1)
    Adapter.objects.filter(pk=adapter.pk).update(run_id=batch_run(batch))
    (link,) = as_alice.get(f"adapters/{adapter.pk}/provenance").body["lineage"]
    assert link["workers"] == [{"worker": "second", "tasks": 2}, {"worker": "first", "tasks": 1}]


def batch_run(batch: Batch) -> int:
    run = batch.project.runs.create(
        worker=batch.worker, batch=batch, backend="standalone", recipe={}, recipe_hash="", seed=0
    )
    return int(run.pk)
