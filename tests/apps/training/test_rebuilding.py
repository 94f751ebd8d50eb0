"""Who is forgotten leaves the weights too: what learnt from them may not serve, and is made again without them."""

import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest
from django.db import transaction
from pytest_django import Settings

from apps.accounts.models import Project, User
from apps.adapters import services
from apps.adapters.models import Adapter, Deployment
from apps.adapters.selectors import find_deployed
from apps.audit.kinds import Kind
from apps.audit.models import AuditEntry
from apps.audit.services import move
from apps.base.errors import IllegalMoveError
from apps.erasure.erase import Forgotten, find_person, forget_person
from apps.outbox.models import Segment
from apps.pipeline import canary_trials, flow
from apps.rollouts.models import Batch, Demonstration, PreferencePair, Rollout, TrainingUse
from apps.tasks.models import Task
from apps.training.models import TrainingRun
from apps.training.services import dispatch_run, fail_run
from apps.workers.models import Worker
from tentalis.core.contracts import TrainSpec
from tentalis.core.learning.batching import sort_rollouts
from tentalis.core.learning.recipes import Recipe
from tests.apps.training.test_per_user import read_batch, serve, talk_once
from tests.apps.training.test_runs import make_result
from tests.factories import make_user, make_worker


@pytest.fixture(autouse=True)
def store(settings: Settings, tmp_path: Path) -> Path:
    """An artifact store of the test's own."""
    settings.ARTIFACTS = tmp_path
    return tmp_path


@pytest.fixture
def helper(project: Project) -> Worker:
    """One line for everybody; two conversations fill a batch."""
    project.session_policy = {"learn": True, "judge": False, "fastest_s": 0}
    project.batch_tasks = 2
    project.save()
    return make_worker(project, "helper", Worker.Kind.CHAT)


@pytest.fixture
def olivia(project: Project) -> User:
    olivia = make_user("olivia")
    project.members.create(user=olivia, role="owner")
    return olivia


def train(run: TrainingRun, store: Path) -> Adapter:
    """Send a run and let it come home."""
    dispatch_run(run.pk, by="test")
    run.refresh_from_db()
    assert run.state == "running", run.waiting_reason
    Segment.objects.filter(kind="train", subject_id=run.pk).update(state="done")
    flow.handle_training_result(make_result(run, store / str(run.pk)), by="control")
    return Adapter.objects.get(run_id=run.pk)


def learn(helper: Worker, store: Path, *people: str) -> tuple[Adapter, list[Task]]:
    """Conversations that fill a batch, trained and put into service."""
    tasks = [talk_once(helper, name, find_deployed(helper)) for name in people]
    adapter = train(TrainingRun.objects.get(state="queued"), store)
    Segment.objects.filter(kind="adopt").update(state="done")
    serve(adapter)
    return adapter, tasks


def forget(helper: Worker, by: User, name: str = "grace") -> Forgotten:
    return forget_person(project=helper.project, end_user=name, by=by)


def finish(store: Path) -> list[Adapter]:
    """Train everything that waits, as the sweep sends it."""
    made: list[Adapter] = []
    for _ in range(10):
        flow.train_waiting()
        sent = Segment.objects.filter(kind="train", state="open").order_by("pk").first()
        if sent is None:
            return made
        made.append(train(TrainingRun.objects.get(pk=sent.subject_id), store))
    raise AssertionError("more runs than there were")


def prompts(runs: Sequence[TrainingRun]) -> list[set[int]]:
    return [{record.group_id for record in read_batch(run)} for run in runs]


def test_a_line_is_made_again_from_the_last_that_never_met_them(helper: Worker, store: Path, olivia: User) -> None:
    first, _ = learn(helper, store, "ada", "bob")
    second, told = learn(helper, store, "grace", "ada")
    third, later = learn(helper, store, "bob", "ada")
    looked = find_person(project=helper.project, end_user="grace", by=olivia)
    assert (looked.taught, looked.reruns) == ([second.name, third.name], 2)
    done = forget(helper, olivia)
    assert (done.adapters, done.taught, done.reruns) == ([second.name], [second.name, third.name], 2)
    assert [Adapter.objects.get(pk=one.pk).state for one in (first, second, third)] == [
        "retired",
        "quarantined",
        "deployed",
    ]
    made = finish(store)
    runs = list(TrainingRun.objects.filter(rebuilds__isnull=False).order_by("pk"))
    assert prompts(runs) == [{told[1].pk}, {task.pk for task in later}]
    assert [one.parent for one in made] == [first, made[0]]
    assert find_deployed(helper) == third, "it serves until the last of the new line was judged"
    assert list(Segment.objects.filter(kind="adopt", state="open").values_list("subject_id", flat=True)) == [made[1].pk]
    serve(made[1])
    third.refresh_from_db()
    assert (third.state, find_deployed(helper)) == ("quarantined", made[1])
    assert Deployment.objects.get().previous == first, "a roll back passes over what may not serve"


def test_nothing_of_the_person_is_in_any_batch_of_the_new_line(helper: Worker, store: Path, olivia: User) -> None:
    learn(helper, store, "grace", "ada")
    of_grace = set(Rollout.objects.filter(attempt__exchange__session__end_user="grace").values_list("pk", flat=True))
    kept = set(TrainingUse.objects.exclude(rollout__in=of_grace).values_list("pk", flat=True))
    assert of_grace
    forget(helper, olivia)
    finish(store)
    run = TrainingRun.objects.get(rebuilds__isnull=False)
    assert {record.rollout_id for record in read_batch(run)} == kept
    assert set(TrainingUse.objects.values_list("pk", flat=True)) == kept, "each of the others keeps its one place"


def test_its_rollouts_are_of_any_age(helper: Worker, store: Path, olivia: User) -> None:
    learn(helper, store, "grace", "ada")
    before = TrainingRun.objects.get()
    forget(helper, olivia)
    run = TrainingRun.objects.get(rebuilds=before)
    assert run.recipe == before.recipe | {"max_staleness": 1000}
    assert (run.seed, run.backend, run.recipe_hash != before.recipe_hash) == (before.seed, before.backend, True)


def test_what_they_taught_is_never_served_again(helper: Worker, store: Path, olivia: User) -> None:
    taught, _ = learn(helper, store, "grace", "ada")
    forget(helper, olivia)
    finish(store)
    flow.rollback_blocked()
    assert find_deployed(helper) == taught, "the project lets it serve until then"
    helper.project.training_policy = {"serves_until_rebuilt": False}
    helper.project.save()
    assert (flow.rollback_blocked(), flow.rollback_blocked()) == (1, 0)
    assert find_deployed(helper) is None
    taught.refresh_from_db()
    assert (taught.state, taught.suspicion) == ("quarantined", "it learnt from somebody who was forgotten")
    for attempt in (
        lambda: services.promote(adapter=taught, by=olivia),
        lambda: services.release(adapter=taught, by=olivia, reason="It looks harmless."),
        lambda: canary_trials.start_canary(adapter=taught, percent=10, by=olivia),
    ):
        with pytest.raises(IllegalMoveError, match="it learnt from somebody who was forgotten"):
            attempt()


def test_other_runs_wait_for_the_new_line(helper: Worker, store: Path, olivia: User) -> None:
    learn(helper, store, "grace", "ada")
    for name in ("ada", "bob"):
        talk_once(helper, name, find_deployed(helper))
    ordinary = TrainingRun.objects.get(state="queued")
    forget(helper, olivia)
    dispatch_run(ordinary.pk, by="test")
    ordinary.refresh_from_db()
    assert ordinary.state == "queued", "one that was being sent just then is not"
    again = TrainingRun.objects.get(rebuilds__isnull=False)
    made = train(again, store)
    Segment.objects.update(state="done")
    flow.train_waiting()
    ordinary.refresh_from_db()
    assert "serves, and it learnt from somebody who was forgotten" in ordinary.waiting_reason
    serve(made)
    assert train(ordinary, store).parent == made


def test_a_training_under_way_is_stopped_and_done_again(helper: Worker, store: Path, olivia: User) -> None:
    learn(helper, store, "ada", "bob")
    for name in ("grace", "ada"):
        talk_once(helper, name, find_deployed(helper))
    run = TrainingRun.objects.get(state="queued")
    dispatch_run(run.pk, by="test")
    run.refresh_from_db()
    late = make_result(run, store)
    assert forget(helper, olivia).reruns == 1
    flow.handle_training_result(late, by="control")
    run.refresh_from_db()
    assert (run.state, Adapter.objects.count()) == ("cancelled", 1)
    (made,) = finish(store)
    assert made.parent == find_deployed(helper)


def test_a_step_that_fails_is_left_out_and_the_rest_goes_on(helper: Worker, store: Path, olivia: User) -> None:
    first, _ = learn(helper, store, "ada", "bob")
    learn(helper, store, "grace", "ada")
    learn(helper, store, "grace", "bob")
    forget(helper, olivia)
    fails, lasts = TrainingRun.objects.filter(rebuilds__isnull=False).order_by("pk")
    Segment.objects.filter(kind="train").update(state="done")
    fail_run(fails.pk, link="training.dispatch", reason="the box burnt down", by="test")
    assert train(lasts, store).parent == first


def read_usable(run: TrainingRun) -> list[int]:
    """Tasks of the rollouts that its trainer would learn from, by age alone."""
    spec, recipe = TrainSpec.from_json(run.spec), Recipe.from_json(run.recipe)
    found = sort_rollouts(
        read_batch(run),
        policy_version=spec.policy_version,
        latest_version=spec.latest_version,
        max_staleness=recipe.max_staleness,
        hints_count=recipe.uses_teacher,
    )
    return [record.group_id for record in found.usable]


@pytest.mark.parametrize("fails", [False, True])
def test_what_a_missing_step_answered_is_learnt_from_all_the_same(
    helper: Worker, store: Path, olivia: User, *, fails: bool
) -> None:
    first, _ = learn(helper, store, "ada", "bob")
    learn(helper, store, "grace", "ada" if fails else "grace")
    _, third = learn(helper, store, "ada", "bob")
    _, fourth = learn(helper, store, "bob", "ada")
    assert forget(helper, olivia).reruns == 2 + fails
    runs = list(TrainingRun.objects.filter(rebuilds__isnull=False).order_by("pk"))
    if fails:
        Segment.objects.filter(kind="train").update(state="done")
        fail_run(runs.pop(0).pk, link="training.dispatch", reason="the box burnt down", by="test")
    made = [train(run, store) for run in runs]
    assert [one.parent for one in made] == [first, made[0]]
    for run, tasks in zip(runs, (third, fourth), strict=True):
        run.refresh_from_db()
        assert sorted(read_usable(run)) == sorted(task.pk for task in tasks)
    assert [run.spec["policy_version"] for run in runs] == [1, made[0].line_version], "the parent's own, as ever"
    assert [run.spec["latest_version"] for run in runs] == [2, 3], "what the run that is done again continued"
    assert all("latest_version" not in run.spec for run in TrainingRun.objects.filter(rebuilds=None)), "older boxes"


def test_what_the_first_training_refused_as_later_is_refused_again(helper: Worker, store: Path, olivia: User) -> None:
    first, _ = learn(helper, store, "ada", "bob")
    learn(helper, store, "ada", "bob")
    late = talk_once(helper, "ada", find_deployed(helper))
    with transaction.atomic():
        services.deploy(helper, first, by="test", kind=Kind.DEPLOYMENT_ROLLED_BACK)
    helper.project.batch_tasks = 3
    helper.project.save()
    learn(helper, store, "grace", "bob")
    forget(helper, olivia)
    finish(store)
    run = TrainingRun.objects.get(rebuilds__isnull=False)
    assert late.pk in {record.group_id for record in read_batch(run)}
    assert (len(read_usable(run)), late.pk in read_usable(run)) == (1, False)


def test_a_run_that_was_never_sent_goes_on_from_what_served(helper: Worker, store: Path, olivia: User) -> None:
    learn(helper, store, "ada", "bob")
    taught, _ = learn(helper, store, "grace", "ada")
    kept = [talk_once(helper, name, find_deployed(helper)) for name in ("grace", "bob")][1]
    forget(helper, olivia)
    helper.project.training_policy = {"serves_until_rebuilt": False}
    helper.project.save()
    assert flow.rollback_blocked() == 1
    again, last = TrainingRun.objects.filter(rebuilds__isnull=False).order_by("pk")
    made = [train(run, store) for run in (again, last)]
    last.refresh_from_db()
    assert (made[1].parent, read_usable(last)) == (made[0], [kept.pk])
    assert last.spec["latest_version"] == taught.line_version


def test_a_rebuilt_line_whose_last_step_fails_ends_at_the_one_before(helper: Worker, store: Path, olivia: User) -> None:
    learn(helper, store, "grace", "ada")
    learn(helper, store, "grace", "bob")
    forget(helper, olivia)
    made = train(TrainingRun.objects.filter(rebuilds__isnull=False).order_by("pk")[0], store)
    assert not Segment.objects.filter(kind="adopt", subject_id=made.pk).exists()
    fail_run(
        TrainingRun.objects.get(state="queued").pk, link="training.dispatch", reason="the box burnt down", by="test"
    )
    assert flow.adopt_rebuilt() == 1
    assert Segment.objects.filter(kind="adopt", subject_id=made.pk).exists()


def test_forgetting_twice_does_nothing_more(helper: Worker, store: Path, olivia: User) -> None:
    learn(helper, store, "grace", "ada")
    forget(helper, olivia)
    again = forget(helper, olivia)
    assert (again.taught, again.reruns, TrainingRun.objects.count()) == ([], 0, 2)


def test_a_second_person_leaves_a_line_that_is_being_made_again(helper: Worker, store: Path, olivia: User) -> None:
    for people in itertools.repeat(("grace", "ada", "bob"), 2):
        helper.project.batch_tasks = 3
        helper.project.save()
        learn(helper, store, *people)
    forget(helper, olivia)
    train(TrainingRun.objects.filter(state="queued").order_by("pk")[0], store)
    assert forget(helper, olivia, "ada").reruns == 2
    made = finish(store)
    runs = list(TrainingRun.objects.filter(state="succeeded").order_by("pk"))[-2:]
    bobs = Task.objects.filter(attempts__exchange__session__end_user="bob")
    assert [found for run in prompts(runs) for found in run] == sorted(bobs.values_list("pk", flat=True))
    assert [one.parent for one in made] == [None, made[0]]


def test_a_batch_of_theirs_alone_is_not_trained_again(helper: Worker, store: Path, olivia: User) -> None:
    learn(helper, store, "grace", "grace")
    assert forget(helper, olivia).reruns == 0
    assert Adapter.objects.get().barred


def test_it_is_in_the_audit(helper: Worker, store: Path, olivia: User) -> None:
    taught, _ = learn(helper, store, "grace", "ada")
    forget(helper, olivia)
    barred = AuditEntry.objects.get(kind=Kind.ADAPTER_BARRED)
    assert (barred.subject_id, barred.actor) == (taught.pk, olivia.handle)
    queued = AuditEntry.objects.filter(kind=Kind.RUN_QUEUED).latest("pk")
    assert queued.payload["rebuilds"] == taught.run_id
    assert "grace" not in str(list(AuditEntry.objects.values_list("payload", flat=True)))


def test_a_canary_of_theirs_is_ended(helper: Worker, store: Path, olivia: User) -> None:
    taught, _ = learn(helper, store, "grace", "ada")
    with transaction.atomic():
        services.deploy(helper, None, by="test", kind=Kind.DEPLOYMENT_ROLLED_BACK)
    taught.refresh_from_db()
    Deployment.objects.update(canary=taught, canary_percent=10)
    forget(helper, olivia)
    assert Deployment.objects.get().canary is None
    with pytest.raises(IllegalMoveError):
        move(taught, Adapter.State.DEPLOYED, by="test")


def test_pairs_go_on_to_the_new_line_like_rollouts(helper: Worker, store: Path, olivia: User) -> None:
    _, tasks = learn(helper, store, "grace", "ada")
    batch = Batch.objects.get(state="closed")
    Batch.objects.filter(pk=batch.pk).update(kind=Batch.Kind.PAIRS)
    for task in tasks:
        values = {"project": helper.project, "worker": helper, "source": "edit", "digest": str(task.pk)}
        PreferencePair.objects.create(task=task, batch=batch, text="better", rejected_text="worse", **values)
    assert forget(helper, olivia).reruns == 1
    again = TrainingRun.objects.get(rebuilds__isnull=False).batch
    assert again is not None
    assert (again.kind, again.task_count) == ("pairs", 1)
    assert list(PreferencePair.objects.values_list("task", "batch")) == [(tasks[1].pk, again.pk)]


def test_a_batch_that_held_a_pair_of_theirs_alone_is_found(helper: Worker, store: Path, olivia: User) -> None:
    _, (adas, _) = learn(helper, store, "ada", "bob")
    graces = talk_once(helper, "grace")
    batch = Batch.objects.get(state="closed")
    Batch.objects.filter(pk=batch.pk).update(kind=Batch.Kind.DEMONSTRATIONS)
    for task in (adas, graces):
        values = {"project": helper.project, "worker": helper, "source": "edit", "digest": str(task.pk)}
        Demonstration.objects.create(task=task, batch=batch, text="better", **values)
    assert forget(helper, olivia).reruns == 1
    assert Adapter.objects.get().barred
    assert TrainingUse.objects.filter(batch__run__rebuilds__isnull=False).count() == 2, "what it used up it keeps"
