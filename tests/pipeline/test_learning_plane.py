"""What is trained beside the base loop, by real processes: a step scorer, managers, a shadow, a line made again."""

from collections.abc import Iterator

import pytest

from tentalis.core.meta import judge_items
from tentalis.core.scoring.ranking import measure_auc
from tests.pipeline.plane import Plane, only, running_plane

pytestmark = [pytest.mark.broker, pytest.mark.torch, pytest.mark.slow]

GRACE = "Grace Hopper of Arlington"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """Two versions of a worker, the second taught by Grace too; the first in the shadow of the work that follows."""
    with running_plane(tmp_path_factory.mktemp("plane") / "home") as running:
        running.submit(8, group_size=4)
        running.wait_for_deployed(1)
        running.submit(6, group_size=4)
        running.submit(2, group_size=4, metadata={"customer": GRACE})
        running.wait_for_deployed(2)
        first = only(running.ask("SELECT id FROM adapters_adapter WHERE version = 1"))
        running.call("POST", f"adapters/{first['id']}/shadow", {"percent": 50})
        running.call("PATCH", "projects/plane", {"batch_tasks": 280})
        running.submit(280, group_size=1)
        yield running


def test_labelled_steps_train_a_scorer_that_is_gated_and_scores_new_work(plane: Plane) -> None:
    model = plane.wait_for_scorer()
    assert "step AUC" in model["words"]
    [task] = plane.submit(1, group_size=1)
    said = plane.wait_for(
        "the new work is scored by it",
        "SELECT score.score, score.details FROM scoring_stepscore score JOIN tasks_attempt one "
        "ON one.id = score.attempt_id WHERE one.task_id = %s AND score.scorer = 'prm' AND score.step_id IS NULL",
        task,
    )
    assert only(said)["score"] is not None
    known = plane.ask("SELECT name FROM scoring_rewardmodel")
    assert only(said)["details"]["model"] in {one["name"] for one in known}


def test_a_rubrics_manager_is_refitted_after_trainings(plane: Plane) -> None:
    """Its rubric has every rule wrong: what was verified turns its word."""
    fit = only(
        plane.wait_for(
            "a fit to all that was audited is in use",
            "SELECT weights, metrics FROM training_managerrun WHERE state = 'applied' AND audits >= 60",
        )
    )
    audited = plane.ask(
        "SELECT word.items, one.truth FROM calibration_comparison one JOIN feedback_stepfeedback word "
        "ON word.attempt_id = one.attempt_id AND word.step_id IS NULL AND word.items <> '{}' "
        "WHERE one.step_id IS NULL"
    )
    scores = [judge_items(fit["weights"], one["items"]) for one in audited]
    refitted = measure_auc(scores, [one["truth"] for one in audited]).value
    assert refitted is not None
    assert refitted > fit["metrics"]["control"] + 0.3
    assert plane.ask("SELECT id FROM outbox_segment WHERE kind = 'meta' AND state = 'done'")


def test_a_shadow_does_its_share_of_the_work_and_gets_its_verdict(plane: Plane) -> None:
    shadow = only(plane.wait_for("the shadow ends", "SELECT * FROM adapters_shadow WHERE state = 'ended'"))
    assert shadow["outcome"] == "safe", shadow["words"]
    tried = plane.ask(
        "SELECT count(*) AS all, count(one.score) AS scored, count(exchange.id) AS kept FROM tasks_shadowattempt one "
        "LEFT JOIN inference_exchange exchange ON exchange.id = one.exchange_id AND exchange.turn = 'shadow' "
        "AND exchange.adapter_name LIKE '%%@v1-%%' WHERE one.shadow_id = %s",
        shadow["id"],
    )
    assert only(tried)["all"] >= 20
    assert only(tried)["scored"] == only(tried)["kept"] == only(tried)["all"]
    assert not plane.ask(
        "SELECT one.id FROM tasks_attempt one JOIN tasks_task task ON task.id = one.task_id "
        "WHERE one.adapter_id = %s AND task.id > %s",
        shadow["adapter_id"],
        shadow["after_task"],
    )


def find_uses(plane: Plane) -> tuple[set[int], set[int]]:
    """Rollouts that are in a batch: hers, and everybody else's, of whom some may still be coming in."""
    rows = plane.ask(
        "SELECT use.rollout_id, task.metadata->>'customer' = %s AS is_hers FROM rollouts_traininguse use "
        "JOIN rollouts_rollout made ON made.id = use.rollout_id JOIN tasks_task task ON task.id = made.task_id",
        GRACE,
    )
    return {row["rollout_id"] for row in rows if row["is_hers"]}, {
        row["rollout_id"] for row in rows if not row["is_hers"]
    }


def test_a_forgotten_person_leaves_adapters_scorer_and_fits_though_the_box_is_killed_meanwhile(plane: Plane) -> None:
    plane.wait_for_deployed(3)
    model = plane.wait_for_scorer()
    plane.wait_for(
        "a manager was fitted to her work",
        "SELECT fit.id FROM training_managerrun fit JOIN tasks_task task ON fit.learnt_from @> to_jsonb(task.id) "
        "WHERE task.metadata->>'customer' = %s",
        GRACE,
    )
    fits = plane.ask("SELECT id FROM training_managerrun")
    hers, others = find_uses(plane)
    assert len(hers) == 8
    plane.freeze_box()
    forgotten = plane.call("POST", "projects/plane/forget", {"text": GRACE, "dry_run": False})
    assert (forgotten["reruns"], forgotten["judges"]) == (3, [model["name"], "agent:rubric:desk"])
    policies = [
        run["id"]
        for run in plane.ask("SELECT id, purpose FROM training_trainingrun WHERE rebuilds_id IS NOT NULL ORDER BY id")
        if run["purpose"] == "policy"
    ]
    plane.kill_box_while_it_trains(policies[0])
    served = only(
        plane.wait_for(
            "the line made again serves", "SELECT run_id FROM adapters_adapter WHERE is_rebuilt AND state = 'deployed'"
        )
    )
    assert served["run_id"] == policies[-1]
    plane.wait_for(
        "every training is done again",
        "SELECT count(*) FROM training_trainingrun WHERE rebuilds_id IS NOT NULL AND state = 'succeeded' "
        "HAVING count(*) = 3",
    )
    killed, last = plane.ask(
        "SELECT run.attempt, adapter.id AS adapter FROM training_trainingrun run JOIN adapters_adapter adapter "
        "ON adapter.run_id = run.id WHERE run.id = ANY(%s) ORDER BY run.id",
        policies,
    )
    assert killed["attempt"] >= 2, "the attempt that was killed was not waited for"
    assert last["attempt"] == 1
    assert plane.ask("SELECT id FROM adapters_verdict WHERE adapter_id = %s AND question = 'safe'", last["adapter"])
    assert not plane.ask("SELECT id FROM adapters_verdict WHERE adapter_id = %s", killed["adapter"])
    left_of_hers, left = find_uses(plane)
    assert not left_of_hers
    assert hers.isdisjoint(left), "not one of hers came in again"
    assert others <= left, "everybody else's are where they were"
    again = plane.wait_for_scorer()
    assert again["version"] == model["version"] + 1
    before = only(plane.ask("SELECT state, barred FROM scoring_rewardmodel WHERE id = %s", model["id"]))
    assert (before["state"], bool(before["barred"])) == ("retired", True)
    last_fit = max(fit["id"] for fit in fits)
    assert plane.wait_for("a manager is fitted anew", "SELECT id FROM training_managerrun WHERE id > %s", last_fit)
