"""Workers that learn with one: one batch, one run, one adapter, which serves all of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import Settings

from apps.accounts.models import Project, User
from apps.adapters.models import Adapter
from apps.adapters.selectors import choose_adapters, find_deployed
from apps.adapters.services import roll_back
from apps.base.errors import ConflictError
from apps.erasure.erase import forget_person
from apps.inference.models import Provider
from apps.pipeline import canary_trials, flow, shadow_trials
from apps.rollouts.models import Batch, Demonstration, PreferencePair, Rollout
from apps.rollouts.selectors import why_nothing_trains
from apps.rollouts.services import build_rollouts, close_open_batch
from apps.scoring.shadows import find_own_shadow
from apps.tasks.models import Attempt, Task
from apps.tasks.services import work_tasks
from apps.training.models import TrainingRun
from apps.training.services import dispatch_run
from apps.workers.models import Worker
from apps.workers.services import change_worker
from tests.apps.adapters.test_canary import TruthfulServer
from tests.apps.training.test_per_user import make_adapter, read_batch, talk_once, train
from tests.factories import make_attempt, make_judged_task, make_task, make_user, make_worker


@pytest.fixture(autouse=True)
def store(settings: Settings, tmp_path: Path) -> Path:
    """An artifact store of the test's own."""
    settings.ARTIFACTS = tmp_path
    return tmp_path


@pytest.fixture
def server() -> Iterator[TruthfulServer]:
    with TruthfulServer() as running:
        yield running


@pytest.fixture
def first(project: Project, server: TruthfulServer) -> Worker:
    """Two tasks fill a batch of its line."""
    project.session_policy = {"learn": True, "judge": False, "fastest_s": 0}
    project.batch_tasks = 2
    project.save()
    provider = Provider.objects.create(
        project=project, name="box", kind="vllm", base_url=server.url, allow_private=True
    )
    return make_worker(project, "first", Worker.Kind.CHAT, provider=provider, base_model="desk", base_directory="desk")


@pytest.fixture
def second(first: Worker) -> Worker:
    return make_worker(
        first.project,
        "second",
        Worker.Kind.CHAT,
        provider=first.provider,
        base_model="desk",
        base_directory="desk",
        system_prompt="You are the second.",
        learns_with=first,
    )


def learn(worker: Worker, adapter: Adapter | None = None) -> Task:
    """A judged task of one worker, made with an adapter, that becomes rollouts."""
    task = make_judged_task(worker.project, worker)
    Attempt.objects.filter(task=task).update(adapter=adapter)
    build_rollouts([task.pk], by="test")
    flow.train_when_full([task.pk])
    return task


def try_out(worker: Worker) -> Attempt:
    task = make_task(worker.project, worker, group_size=1)
    work_tasks([task.pk], by="test")
    return Attempt.objects.select_related("adapter", "exchange").get(task=task)


def test_both_fill_one_batch_whose_adapter_does_the_next_tasks_of_both(
    first: Worker, second: Worker, store: Path, server: TruthfulServer
) -> None:
    tasks = [learn(first), learn(second)]
    run = TrainingRun.objects.get()
    assert (run.worker, Batch.objects.get().worker) == (first, first)
    assert set(Rollout.objects.values_list("worker__name", flat=True)) == {"first", "second"}, "who did it stays known"
    adapter = train(run, store)
    run.refresh_from_db()
    assert {record.group_id for record in read_batch(run)} == {task.pk for task in tasks}
    assert (run.spec["worker"], adapter.worker, adapter.name.partition("@")[0]) == ("first", first, "shop.first")
    server.models.append(adapter.name)
    for worker in (first, second):
        attempt = try_out(worker)
        assert (attempt.worker, attempt.adapter) == (worker, adapter)
        assert attempt.exchange is not None
        assert (attempt.exchange.worker_name, attempt.exchange.adapter_name) == (worker.name, adapter.name)
    for worker in (second, second):
        learn(worker, adapter)
    later = TrainingRun.objects.latest("pk")
    dispatch_run(later.pk, by="test")
    later.refresh_from_db()
    assert (later.worker, later.parent) == (first, adapter), "the line goes on, whoever teaches it"
    assert {record.policy_version for record in read_batch(later)} == {adapter.line_version}


def test_a_worker_of_its_own_fills_a_batch_of_its_own(first: Worker, second: Worker) -> None:
    Worker.objects.filter(pk=second.pk).update(learns_with=None)
    learn(first)
    learn(Worker.objects.get(pk=second.pk))
    assert sorted(Batch.objects.values_list("worker__name", "task_count", "state")) == [
        ("first", 1, "open"),
        ("second", 1, "open"),
    ]


def test_when_it_ends_the_worker_begins_at_the_base_and_what_was_under_way_goes_where_it_was_made(
    first: Worker, second: Worker, store: Path, alice: User
) -> None:
    adapter = make_adapter(first, store)
    task = make_judged_task(second.project, second)
    Attempt.objects.filter(task=task).update(adapter=adapter)
    change_worker(worker=second, by=alice, learns_with=None)
    second.refresh_from_db()
    assert choose_adapters(second, {task.pk: True})[task.pk] is None
    assert choose_adapters(first, {task.pk: True})[task.pk] == adapter
    build_rollouts([task.pk], by="test")
    learn(second)
    assert sorted(Batch.objects.values_list("worker__name", "task_count")) == [("first", 1), ("second", 1)]


def test_what_a_batch_held_when_its_worker_joined_waits_and_says_so(first: Worker, second: Worker, alice: User) -> None:
    change_worker(worker=second, by=alice, learns_with=None)
    learn(Worker.objects.get(pk=second.pk))
    change_worker(worker=second, by=alice, learns_with=first)
    learn(Worker.objects.get(pk=second.pk))
    words = {one.words for one in why_nothing_trains(first.project) if one.kind == "batches"}
    assert words == {
        "batch 1 of second holds 1 of 2 tasks and waits: second learns with first.",
        "batch 1 of first holds 1 of 2 tasks: 1 more close it.",
    }


def test_what_is_asked_of_a_line_is_asked_of_whose_it_is(
    first: Worker, second: Worker, store: Path, alice: User
) -> None:
    make_adapter(first, store)
    learn(second)
    with pytest.raises(ConflictError, match="second learns with first, and its adapters are that one's: train first"):
        flow.close_batch(worker=second, by=alice)
    with pytest.raises(ConflictError, match="roll back first"):
        roll_back(worker=second, by=alice)
    assert flow.close_batch(worker=first, by=alice).worker == first
    assert find_deployed(roll_back(worker=first, by=alice).worker) is None
    assert choose_adapters(second, {1: True})[1] is None, "what is taken from one is taken from all"


def test_the_line_says_whether_each_person_has_their_own(first: Worker, second: Worker, store: Path) -> None:
    Worker.objects.filter(pk=first.pk).update(adapters_per=Worker.AdaptersPer.USER, user_batch_tasks=3)
    for worker in Worker.objects.order_by("name"):
        talk_once(worker, "grace")
    talk_once(Worker.objects.get(name="second"), "ada")
    assert sorted(Batch.objects.values_list("worker__name", "end_user", "task_count", "target_tasks")) == [
        ("first", "ada", 1, 3),
        ("first", "grace", 2, 3),
    ]
    talk_once(Worker.objects.get(name="second"), "grace")
    graces = train(TrainingRun.objects.get(), store)
    assert (graces.worker, graces.end_user) == (first, "grace")
    assert [find_deployed(second.line, end_user=name) for name in ("grace", "ada")] == [graces, None]


def test_whom_another_worker_heard_leaves_the_line_when_they_are_forgotten(
    first: Worker, second: Worker, store: Path
) -> None:
    olivia = make_user("olivia")
    first.project.members.create(user=olivia, role="owner")
    kept = talk_once(first, "ada")
    talk_once(second, "grace")
    taught = train(TrainingRun.objects.get(), store)
    forget_person(project=first.project, end_user="grace", by=olivia)
    taught.refresh_from_db()
    assert "forgotten" in taught.barred
    again = TrainingRun.objects.get(state="queued")
    assert (again.worker, again.rebuilds) == (first, TrainingRun.objects.get(pk=taught.run_id or 0))
    dispatch_run(again.pk, by="test")
    again.refresh_from_db()
    assert {record.group_id for record in read_batch(again)} == {kept.pk}


def test_pairs_and_demonstrations_of_both_teach_the_line(first: Worker, second: Worker) -> None:
    for worker in (first, second):
        task = make_judged_task(worker.project, worker, prompt=f"Say hello, {worker.name}.")
        for number, attempt in enumerate(task.attempts.all()):
            Attempt.objects.filter(pk=attempt.pk).update(text=f"{worker.name} {number}")
        build_rollouts([task.pk], by="test")
    for kind in (PreferencePair, Demonstration):
        assert sorted(kind.objects.values_list("worker__name", "task__worker__name")) == [
            ("first", "first"),
            ("first", "second"),
        ]
    batch = close_open_batch(first, by="user:alice", kind="demonstrations")
    assert (batch.worker, batch.task_count) == (first, 2)


def test_a_trial_is_made_on_the_tasks_of_both(
    first: Worker, second: Worker, store: Path, alice: User, server: TruthfulServer
) -> None:
    adapters = [make_adapter(first, store), make_adapter(first, store)]
    server.models += [one.name for one in adapters]
    roll_back(worker=first, by=alice)
    adapters[1].refresh_from_db()
    trial = canary_trials.start_canary(adapter=adapters[1], percent=50, by=alice)
    chosen: set[tuple[str, int]] = set()
    for number in range(80):
        worker = (first, second)[number % 2]
        task = make_task(worker.project, worker, group_size=1)
        adapter = choose_adapters(worker, {task.pk: True})[task.pk]
        assert adapter is not None
        chosen.add((worker.name, adapter.version))
        make_attempt(task, 0, adapter=adapter)
    assert chosen == {(worker, version) for worker in ("first", "second") for version in (1, 2)}
    trial.refresh_from_db()
    reading = canary_trials.read_canary(trial)
    assert reading.deployed.tasks + reading.canary.tasks == 80


def test_the_shadow_of_a_line_does_tasks_of_both(
    first: Worker, second: Worker, store: Path, alice: User, server: TruthfulServer
) -> None:
    adapters = [make_adapter(first, store), make_adapter(first, store)]
    server.models += [one.name for one in adapters]
    roll_back(worker=first, by=alice)
    adapters[1].refresh_from_db()
    shadow = shadow_trials.start_shadow(adapter=adapters[1], percent=50, by=alice)
    found = set()
    for number in range(60):
        worker = (first, second)[number % 2]
        if (mine := find_own_shadow(make_task(worker.project, worker))) is not None:
            found.add((worker.name, mine.pk))
    assert found == {("first", shadow.pk), ("second", shadow.pk)}
