"""Runs: what comes home is checked, what fails is kept with its reason, what goes silent is taken up."""

import hashlib
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db.models.functions import Now
from pytest_django import Settings

from apps.accounts.models import Project, User
from apps.adapters.models import Adapter
from apps.audit.kinds import Kind
from apps.audit.models import AuditEntry
from apps.base.errors import BadInputError, IllegalMoveError, NotAllowedError, NotFoundError
from apps.outbox.kinds import FATES, SegmentKind
from apps.outbox.models import Segment
from apps.pipeline import flow, sweep, trainings
from apps.rollouts import services as ledger
from apps.rollouts.models import Batch, Rollout, TrainingUse
from apps.rollouts.selectors import why_nothing_trains
from apps.training import monitoring, retrying, services
from apps.training.learners import TOLD_TWICE
from apps.training.models import TrainingRun
from apps.training.naming import describe_run
from apps.training.retrying import find_untaken
from apps.workers.models import Worker
from apps.workers.recipes import choose_recipe
from tentalis.core.canon import canonical_json
from tentalis.core.contracts import TRAIN_RESULT_SCHEMA, AdapterManifest, ContractError, Outcome, TrainResult
from tentalis.core.learning.recipes import Recipe
from tests.apps.training.boxes import leave_result, send_out
from tests.factories import make_judged_task, make_worker


@pytest.fixture(autouse=True)
def store(settings: Settings, tmp_path: Path) -> Path:
    """An artifact store of the test's own."""
    settings.ARTIFACTS = tmp_path
    return tmp_path


@pytest.fixture
def run(project: Project, worker: Worker, store: Path) -> TrainingRun:
    """A run at work, first attempt."""
    batch = Batch.objects.create(project=project, worker=worker, number=1, target_tasks=1, state="closed")
    queued = services.queue_run(batch=batch, by="ledger")
    output = store / "runs" / "1"
    output.mkdir(parents=True)
    TrainingRun.objects.filter(pk=queued.pk).update(
        state="running", attempt=1, heartbeat_at=Now(), spec={"output_uri": output.as_uri()}
    )
    queued.refresh_from_db()
    return queued


def write_adapter(directory: Path, weights: bytes = b"weights", **told: Any) -> str:
    """A directory with a manifest, which says so of its training; returns the manifest's hash."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "adapter_model.safetensors").write_bytes(weights)
    entry = {"sha256": hashlib.sha256(weights).hexdigest(), "size_bytes": len(weights)}
    manifest = AdapterManifest(
        worker="echo",
        base_model="desk",
        base_sha256="0" * 64,
        parent_sha256="",
        run_id=1,
        attempt=1,
        recipe_hash="1" * 64,
        rollouts_sha256="2" * 64,
        rank=8,
        alpha=16.0,
        target_modules=["q_proj"],
        files={"adapter_model.safetensors": entry},
        versions={},
    )
    content = canonical_json(manifest.to_json() | told)
    (directory / "manifest.json").write_bytes(content)
    return hashlib.sha256(content).hexdigest()


def make_result(run: TrainingRun, store: Path, **changes: Any) -> dict[str, Any]:
    told = {name: run.spec[name] for name in TOLD_TWICE if name in run.spec}
    sha256 = write_adapter(store / "adapter", **told)
    values: dict[str, Any] = {"run_id": run.pk, "attempt": run.attempt, "outcome": Outcome.DONE, "sha256": sha256}
    values |= {"adapter_uri": (store / "adapter").as_uri(), "metrics": [{"reward": 0.5}]}
    return TrainResult(**values | changes).to_json()


def test_a_result_brings_its_adapter_to_the_gate(run: TrainingRun, store: Path) -> None:
    flow.handle_training_result(make_result(run, store), by="control")
    adapter = Adapter.objects.get()
    assert adapter.name == f"shop.echo@v1-{adapter.sha256[:8]}"
    assert (adapter.state, adapter.run_id) == ("candidate", run.pk)
    assert TrainingRun.objects.get().state == "succeeded"
    assert Segment.objects.filter(kind="adopt", subject_id=adapter.pk).count() == 1


def test_a_result_that_comes_twice_counts_once(run: TrainingRun, store: Path) -> None:
    result = make_result(run, store)
    flow.handle_training_result(result, by="control")
    flow.handle_training_result(result, by="control")
    assert Adapter.objects.count() == Segment.objects.filter(kind="adopt").count() == 1


@pytest.mark.parametrize("changes", [{"attempt": 2}, {"run_id": 999_999}])
def test_a_result_nobody_waits_for_is_dropped(run: TrainingRun, store: Path, changes: dict[str, Any]) -> None:
    flow.handle_training_result(make_result(run, store, **changes), by="control")
    assert not Adapter.objects.exists()
    assert TrainingRun.objects.get().state == "running"


def test_a_failed_training_is_kept_with_its_reason(run: TrainingRun, store: Path) -> None:
    result = make_result(
        run, store, outcome=Outcome.FAILED, error_type="NonFiniteError", error_message="grad norm is nan"
    )
    flow.handle_training_result(result, by="control")
    found = TrainingRun.objects.get()
    assert (found.state, found.failure) == ("failed", "NonFiniteError: grad norm is nan")


@pytest.mark.parametrize(
    ("ok", "error", "outcome"),
    [
        (True, "", Outcome.DONE),
        (False, "UnfitAdapterError", Outcome.REFUSED),
        (False, "CancelledError", Outcome.CANCELLED),
        (False, "PausedError", Outcome.PAUSED),
        (False, "OSError", Outcome.FAILED),
    ],
)
def test_a_result_of_a_box_that_knew_no_outcomes_is_read(ok: bool, error: str, outcome: Outcome) -> None:
    told = TrainResult(run_id=1, attempt=1, outcome=outcome, error_type=error).to_json()
    old = {name: value for name, value in told.items() if name != "outcome"}
    assert (old["ok"], TrainResult.from_json(old).to_json()) == (ok, told)
    assert TrainResult.from_json(json.loads(json.dumps(told))).outcome is outcome


@pytest.mark.parametrize("said", [{"outcome": "done!"}, {"outcome": None, "ok": True}, {"ok": 1}, {}])
def test_a_result_must_say_what_became_of_it(said: dict[str, Any]) -> None:
    with pytest.raises(ContractError, match="outcome must be one of done, refused, cancelled, paused, failed, found"):
        TrainResult.from_json({"run_id": 1, "attempt": 1, "schema": TRAIN_RESULT_SCHEMA, **said})


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda path: path.write_bytes(b"weig"), "must hash to"),
        (lambda path: path.unlink(), "is not a plain file"),
    ],
    ids=["truncated", "missing"],
)
def test_an_adapter_that_is_not_what_its_hash_says_never_gets_a_row(
    run: TrainingRun, store: Path, damage: Any, words: str
) -> None:
    result = make_result(run, store)
    damage(store / "adapter" / "adapter_model.safetensors")
    flow.handle_training_result(result, by="control")
    assert not Adapter.objects.exists()
    found = TrainingRun.objects.get()
    assert found.state == "failed"
    assert words in found.failure


@pytest.mark.parametrize("field", TOLD_TWICE)
def test_an_adapter_of_another_training_is_not_taken_for_this_ones(run: TrainingRun, store: Path, field: str) -> None:
    """As a box would send that mixes two up, or one that still trains what was sent before a crash."""
    spec = run.spec | {"run_id": 1, "attempt": 1, "rollouts_sha256": "2" * 64} | {field: 7}
    TrainingRun.objects.update(spec=spec)
    flow.handle_training_result(make_result(run, store), by="control")
    assert not Adapter.objects.exists()
    assert f"of another training: {field} must be 7" in TrainingRun.objects.get().failure


def test_an_adapter_outside_the_artifact_store_is_refused(run: TrainingRun, store: Path) -> None:
    flow.handle_training_result(make_result(run, store, adapter_uri="file:///etc"), by="control")
    assert "must lie in the artifact store" in TrainingRun.objects.get().failure


def test_a_silent_run_whose_result_lies_in_the_store_is_recorded(run: TrainingRun, store: Path) -> None:
    output = store / "runs" / "1"
    spec = send_out(run, output)
    leave_result(spec, make_result(run, store), output)
    fall_silent()
    sweep.sweep_runs()
    assert Adapter.objects.count() == 1


def test_a_silent_run_that_breaks_in_an_unforeseen_way_keeps_no_other_from_its_turn(
    run: TrainingRun, project: Project, store: Path, caplog: pytest.LogCaptureFixture
) -> None:
    others = []
    for name in ("before", "behind"):
        batch = Batch.objects.create(project=project, worker=make_worker(project, name), number=1, target_tasks=1)
        others.append(services.queue_run(batch=batch, by="ledger").pk)
        spec = {"output_uri": (store / "runs" / name).as_uri()}
        TrainingRun.objects.filter(pk=others[-1]).update(spec=spec, state="running", attempt=1)
    TrainingRun.objects.filter(pk=run.pk).update(spec={"output_uri": 5})
    fall_silent()
    sweep.sweep_runs()
    assert set(TrainingRun.objects.filter(pk__in=others).values_list("state", flat=True)) == {"queued"}
    assert TrainingRun.objects.get(pk=run.pk).state == "running"
    assert f"run {run.pk} was silent, and stays so" in caplog.text


def test_a_silent_run_is_sent_again_and_its_late_result_dropped(run: TrainingRun, store: Path) -> None:
    late = make_result(run, store)
    fall_silent()
    sweep.sweep_runs()
    assert TrainingRun.objects.get().state == "queued"
    assert Segment.objects.filter(kind="train", subject_id=run.pk, state="open").count() == 1
    flow.handle_training_result(late, by="control")
    assert not Adapter.objects.exists()


def test_a_run_that_is_begun_and_silent_too_often_fails_with_that_reason(run: TrainingRun) -> None:
    TrainingRun.objects.update(silences=retrying.MAX_SILENCES - 1)
    monitoring.note_heartbeat(run.pk, run.attempt, {}, 1)
    fall_silent()
    sweep.sweep_runs()
    assert "went silent 3 times" in TrainingRun.objects.get().failure


def test_a_run_that_no_box_takes_up_waits_for_one_however_long(run: TrainingRun) -> None:
    TrainingRun.objects.update(attempt=40, silences=retrying.MAX_SILENCES - 1)
    fall_silent()
    sweep.sweep_runs()
    found = TrainingRun.objects.get()
    assert (found.state, found.silences) == ("queued", retrying.MAX_SILENCES - 1)


def test_a_run_that_no_box_takes_up_is_sent_again_ever_less_often(run: TrainingRun) -> None:
    """It waits as long again as it has waited already, half an hour at most."""
    for waited, silent_for, is_due in (
        (timedelta(0), timedelta(seconds=61), True),
        (timedelta(minutes=5), timedelta(minutes=4), False),
        (timedelta(minutes=5), timedelta(minutes=6), True),
        (timedelta(days=30), timedelta(minutes=29), False),
        (timedelta(days=30), timedelta(minutes=31), True),
    ):
        sent_at = Now() - silent_for
        TrainingRun.objects.update(heartbeat_at=sent_at, untaken_since=sent_at - waited)
        assert bool(retrying.find_silent_runs()) is is_due, (waited, silent_for)


def test_what_is_asked_of_a_run_that_no_box_takes_up_is_done_after_one_silence(run: TrainingRun, alice: User) -> None:
    TrainingRun.objects.update(heartbeat_at=Now() - timedelta(minutes=2), untaken_since=Now() - timedelta(days=1))
    sweep.sweep_runs()
    assert TrainingRun.objects.get().state == "running", "it is not its time yet"
    trainings.cancel_run(run=run, by=alice)
    sweep.sweep_runs()
    assert TrainingRun.objects.get().state == "cancelled"


def test_a_run_tells_since_when_no_box_takes_it_up_until_one_does(run: TrainingRun, store: Path) -> None:
    assert find_untaken(run) is None, "it was sent a moment ago"
    TrainingRun.objects.update(heartbeat_at=Now() - timedelta(hours=1))
    first = TrainingRun.objects.get().heartbeat_at
    sweep.sweep_runs()
    spec = {"output_uri": (store / "runs" / "2").as_uri()}
    TrainingRun.objects.update(state="running", attempt=2, spec=spec, heartbeat_at=Now() - timedelta(hours=1))
    sweep.sweep_runs()
    waits = find_untaken(TrainingRun.objects.get())
    assert waits is not None
    assert (waits.since, waits.sent) == (first, 2)
    assert waits.command == "celery -A gpu_workers.celery worker -P solo -Q gpu"
    TrainingRun.objects.update(state="running", attempt=3, heartbeat_at=Now())
    monitoring.note_heartbeat(run.pk, 3, {}, 1)
    found = TrainingRun.objects.get()
    assert (found.untaken_since, find_untaken(found)) == (None, None)


def test_a_run_that_a_person_tries_again_has_waited_for_no_box_yet(run: TrainingRun, alice: User) -> None:
    TrainingRun.objects.update(state="failed", untaken_since=Now() - timedelta(days=1))
    trainings.retry_run(run=TrainingRun.objects.get(), by=alice)
    assert TrainingRun.objects.get().untaken_since is None


def test_a_run_that_shows_life_is_left_alone(run: TrainingRun) -> None:
    monitoring.note_heartbeat(run.pk, 1, {"reward": 0.25}, 1)
    sweep.sweep_runs()
    found = TrainingRun.objects.get()
    assert (found.state, found.metrics) == ("running", [{"reward": 0.25}])


def test_heartbeats_gather_the_updates_and_the_same_one_counts_once(run: TrainingRun) -> None:
    for number, metrics in enumerate(({}, {"update": 1.0}, {"update": 1.0}, {"update": 2.0}), start=1):
        monitoring.note_heartbeat(run.pk, 1, metrics, number)
    assert TrainingRun.objects.get().metrics == [{"update": 1.0}, {"update": 2.0}]


def test_a_heartbeat_of_an_old_attempt_changes_nothing(run: TrainingRun) -> None:
    TrainingRun.objects.update(attempt=2)
    monitoring.note_heartbeat(run.pk, 1, {"reward": 0.25}, 1)
    assert TrainingRun.objects.get().metrics == []


def test_cancelling_a_run_at_work_tells_the_box(run: TrainingRun, store: Path, alice: User) -> None:
    trainings.cancel_run(run=run, by=alice)
    assert (store / "runs" / "1" / "cancel").exists()
    flow.handle_training_result(
        make_result(run, store, outcome=Outcome.CANCELLED, error_type="CancelledError", error_message="asked to"),
        by="c",
    )
    assert TrainingRun.objects.get().state == "cancelled"


def test_a_run_that_stopped_keeps_its_whole_curve_also_behind_a_checkpoint(
    run: TrainingRun, store: Path, alice: User
) -> None:
    monitoring.note_heartbeat(run.pk, 1, {"update": 2.0}, 1)  # heartbeats tell the latest alone
    stopped: dict[str, Any] = {"outcome": Outcome.PAUSED, "error_type": "PausedError", "error_message": "by alice"}
    flow.handle_training_result(make_result(run, store, **stopped, metrics=[{"update": 1.0}, {"update": 2.0}]), by="c")
    assert TrainingRun.objects.get().metrics == [{"update": 1.0}, {"update": 2.0}]
    TrainingRun.objects.update(state="running")  # it goes on from its checkpoint
    monitoring.note_heartbeat(run.pk, 1, {"update": 3.0}, 2)
    stopped["error_type"] = "CancelledError"
    flow.handle_training_result(make_result(run, store, **stopped, metrics=[{"update": 3.0}, {"update": 4.0}]), by="c")
    assert [row["update"] for row in TrainingRun.objects.get().metrics] == [1.0, 2.0, 3.0, 4.0]


def test_a_run_that_ended_cannot_be_cancelled(run: TrainingRun, alice: User) -> None:
    TrainingRun.objects.update(state="failed")
    run.refresh_from_db()
    with pytest.raises(IllegalMoveError, match="found failed"):
        trainings.cancel_run(run=run, by=alice)


def queue_another(run: TrainingRun) -> TrainingRun:
    batch = Batch.objects.create(project=run.project, worker=run.worker, number=2, target_tasks=1, state="closed")
    return flow.start_training(batch, by="ledger")


def is_sent(run: TrainingRun) -> bool:
    return Segment.objects.filter(kind="train", subject_id=run.pk, state="open").exists()


def test_a_workers_next_run_waits_until_the_last_adapter_is_judged(run: TrainingRun, store: Path) -> None:
    second = queue_another(run)
    assert not is_sent(second)
    flow.handle_training_result(make_result(run, store), by="control")
    flow.train_waiting()
    assert not is_sent(second), "the adapter of the first is not judged yet"
    adapter = Adapter.objects.get()
    Segment.objects.filter(kind="adopt").update(state="done")
    flow.train_after_adoption([adapter.pk])
    assert is_sent(second)


def test_a_workers_next_run_is_sent_by_the_sweep_when_the_last_one_failed(run: TrainingRun, store: Path) -> None:
    second = queue_another(run)
    flow.handle_training_result(
        make_result(run, store, outcome=Outcome.FAILED, error_type="OSError", error_message="full"), by="control"
    )
    sweep.sweep_runs()
    assert is_sent(second)


def test_an_adapter_whose_gate_died_is_refused_with_the_reason(run: TrainingRun, store: Path) -> None:
    flow.handle_training_result(make_result(run, store), by="control")
    adapter = Adapter.objects.get()
    on_dead = FATES[SegmentKind.ADOPT].on_dead
    assert on_dead is not None
    on_dead(adapter.pk, link="adapters.gate", reason="the server is gone", by="outbox")
    adapter.refresh_from_db()
    assert adapter.state == "refused"
    assert "the server is gone" in adapter.verdicts.get().words


def test_a_reviewer_and_a_stranger_cannot_train(worker: Worker, bob: User, charlie: User) -> None:
    with pytest.raises(NotAllowedError):
        flow.close_batch(worker=worker, by=bob)
    with pytest.raises(NotFoundError):
        flow.close_batch(worker=worker, by=charlie)


def test_the_projects_recipe_wins_over_the_settings_and_is_stored_whole(project: Project, worker: Worker) -> None:
    project.recipe = {"w_opd": 0.0}
    recipe = choose_recipe(project, worker)
    assert (recipe.w_opd, recipe.w_rl, recipe.clip_high) == (0.0, 0.7, 0.28)


def fall_silent() -> None:
    TrainingRun.objects.update(heartbeat_at=Now() - timedelta(hours=1))


@pytest.mark.parametrize(
    ("values", "words"),
    [({"backend": "abacus"}, "found 'abacus'"), ({"changes": {"clip_low": 7}}, "recipe.clip_low: wanted")],
)
def test_a_run_with_a_wish_that_makes_no_sense_is_refused(
    project: Project, worker: Worker, values: dict[str, Any], words: str
) -> None:
    batch = Batch.objects.create(project=project, worker=worker, number=1, target_tasks=1, state="closed")
    with pytest.raises(BadInputError, match=words):
        services.queue_run(batch=batch, by="user:alice", **values)
    assert not TrainingRun.objects.exists()


def fill(run: TrainingRun, alice: User) -> None:
    """One judged attempt into the run's batch."""
    assert run.batch is not None
    task = make_judged_task(run.project, run.worker)
    ledger.build_rollouts([task.pk], by="test")
    TrainingUse.objects.update(batch=run.batch)


def test_a_cancelled_run_is_trained_on_its_batch_again_with_another_recipe(run: TrainingRun, alice: User) -> None:
    fill(run, alice)
    uses = set(TrainingUse.objects.values_list("rollout", "batch"))
    TrainingRun.objects.update(state="cancelled", metrics=[{"update": 1}])
    run.refresh_from_db()
    assert any("its run was cancelled" in finding.words for finding in why_nothing_trains(run.project))
    trainings.retry_run(run=run, by=alice, recipe={"learning_rate": 0.001})
    run = TrainingRun.objects.get()
    assert (run.state, run.recipe["learning_rate"]) == ("queued", 0.001)
    assert run.recipe_hash == Recipe.from_json(run.recipe).hash
    assert set(TrainingUse.objects.values_list("rollout", "batch")) == uses, "each still in its one batch"


def test_a_run_is_tried_again_with_the_recipe_that_the_settings_say_now(run: TrainingRun, alice: User) -> None:
    TrainingRun.objects.update(state="failed")
    Project.objects.update(recipe={"learning_rate": 0.002})
    run = TrainingRun.objects.get()
    trainings.retry_run(run=run, by=alice, recipe_from="worker")
    assert TrainingRun.objects.get().recipe["learning_rate"] == 0.002


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        ({"learning_rate": "much"}, "learning_rate"),
        ({"speed": 1}, "speed"),
        ({"algorithm": "dpo", "importance_cap": None}, "learns from pairs"),
    ],
)
def test_a_recipe_that_does_not_fit_changes_nothing(
    run: TrainingRun, alice: User, recipe: dict[str, Any], words: str
) -> None:
    TrainingRun.objects.update(state="failed")
    run = TrainingRun.objects.get()
    with pytest.raises(BadInputError, match=words):
        trainings.retry_run(run=run, by=alice, recipe=recipe)
    assert TrainingRun.objects.get().state == "failed"


def test_a_cancelled_run_whose_data_was_forgotten_is_not_tried_again(run: TrainingRun, alice: User) -> None:
    TrainingRun.objects.update(state="cancelled")
    run = TrainingRun.objects.get()
    with pytest.raises(IllegalMoveError, match="holds nothing any more"):
        trainings.retry_run(run=run, by=alice)


def test_a_run_is_told_how_much_its_rewards_had_to_say(
    run: TrainingRun, project: Project, worker: Worker, store: Path
) -> None:
    """Two attempts at each of two tasks: the rewards of one differ, those of the other do not."""
    assert run.batch is not None
    for rewards in ((1.0, 0.0), (0.5, 0.5)):
        task = make_judged_task(project, worker, group_size=2)
        for attempt, reward in zip(task.attempts.order_by("index"), rewards, strict=True):
            rollout = Rollout.objects.create(
                project=project, worker=worker, task=task, attempt=attempt, is_usable=True, reward=reward
            )
            TrainingUse.objects.create(rollout=rollout, batch=run.batch)
    flow.handle_training_result(make_result(run, store, summary={"updates": 1.0}), by="control")
    summary = TrainingRun.objects.get().summary
    assert summary.pop("reward_std") == pytest.approx(0.125**0.5)
    assert summary == {
        "updates": 1.0, "groups": 2.0, "groups_without_signal": 1.0, "staleness": 0.0, "staleness_max": 0.0,
    }  # fmt: skip


def test_a_run_is_named_and_the_audit_says_who_changed_what(run: TrainingRun, alice: User) -> None:
    describe_run(run=run, by=alice, name=" Half the rate ", tags=["rate", "rate", " small "])
    describe_run(run=run, by=alice, comment="The loss jumped at 3.", name="Half the rate")
    run = TrainingRun.objects.get()
    assert (run.name, run.tags, run.comment) == ("Half the rate", ["rate", "small"], "The loss jumped at 3.")
    said = AuditEntry.objects.filter(kind=Kind.RUN_DESCRIBED).order_by("id")
    assert [(one.actor, one.payload) for one in said] == [
        (alice.handle, {"changed": ["name", "tags"]}),
        (alice.handle, {"changed": ["comment"]}),
    ]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"name": "a\nb"}, "one line"),
        ({"name": "x" * 101}, "at most 100"),
        ({"tags": ["a,b"]}, "no comma"),
        ({"tags": [str(number) for number in range(11)]}, "at most 10"),
        ({"comment": "a\0b"}, "NUL"),
    ],
)
def test_what_a_run_cannot_be_called_is_refused(run: TrainingRun, alice: User, said: Any, words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        describe_run(run=run, by=alice, **said)
