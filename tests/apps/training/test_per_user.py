"""What one person says trains that person's own line of adapters, and nobody else's."""

import itertools
import json
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.db import transaction
from django.utils import timezone
from pytest_django import Settings

from apps.accounts.models import Project, User
from apps.adapters.errors import WrongLineError
from apps.adapters.models import Adapter, Deployment, Verdict
from apps.adapters.selectors import find_anchor, find_deployed
from apps.adapters.services import deploy, record_adapter, roll_back
from apps.audit.kinds import Kind
from apps.audit.services import move
from apps.base.errors import ConflictError, IllegalMoveError
from apps.conversations.segmentation import cut_session
from apps.conversations.signal_extraction import hear_turn
from apps.conversations.task_building import settle_turn
from apps.erasure.erase import forget_person
from apps.feedback.hints import extract_hints
from apps.pipeline import canary_trials, flow
from apps.rollouts.models import Batch, Rollout
from apps.rollouts.services import build_rollouts
from apps.tasks.models import Task
from apps.training import schedule
from apps.training.models import TrainingRun
from apps.training.services import dispatch_run
from apps.workers.models import Worker
from tentalis.core.contracts import RolloutRecord
from tentalis.core.learning.batching import sort_rollouts
from tests.apps.conversations.talk import Talk, user
from tests.apps.training.test_runs import make_result, write_adapter
from tests.factories import make_user, make_worker

NUMBERS = itertools.count()


@pytest.fixture(autouse=True)
def store(settings: Settings, tmp_path: Path) -> Path:
    """An artifact store of the test's own."""
    settings.ARTIFACTS = tmp_path
    return tmp_path


@pytest.fixture
def helper(project: Project) -> Worker:
    """Keeps an adapter for each person; two tasks of one, or three of everybody, fill a batch."""
    project.session_policy = {"learn": True, "judge": False, "fastest_s": 0}
    project.batch_tasks = 3
    project.save()
    return make_worker(project, "helper", Worker.Kind.CHAT, adapters_per=Worker.AdaptersPer.USER, user_batch_tasks=2)


def talk_once(worker: Worker, end_user: str, adapter: Adapter | None = None) -> Task:
    """A conversation of one person that ends in thanks, learnt from; its task."""
    number = next(NUMBERS)
    talk = Talk(worker.project, f"s-{number}", worker=worker.name, end_user=end_user)
    served: dict[str, Any] = {"adapter_name": adapter.name, "policy_version": adapter.version} if adapter else {}
    talk.ask(user(f"What is {number} and two?"), answer="Let me see: it is done.", **served)
    talk.ask(user("Thanks!"), answer="You are welcome.", **served)
    cut_session(talk.session.pk, by="test")
    turn = talk.session.turns.get(number=0)
    hear_turn(turn.pk)
    settle_turn(turn.pk)
    turn.refresh_from_db()
    assert turn.task is not None
    extract_hints([turn.task.pk])
    build_rollouts([turn.task.pk], by="test")
    flow.train_when_full([turn.task.pk])
    return turn.task


def train(run: TrainingRun, store: Path) -> Adapter:
    """Send a run, let it come home, and find its adapter safe and put it into service, as the gate does."""
    dispatch_run(run.pk, by="test")
    run.refresh_from_db()
    flow.handle_training_result(make_result(run, store), by="control")
    adapter = Adapter.objects.get(run_id=run.pk)
    serve(adapter)
    return adapter


def serve(adapter: Adapter) -> None:
    move(adapter, Adapter.State.VERIFIED, by="test")
    with transaction.atomic():
        deploy(adapter.worker, adapter, by="test", kind=Kind.DEPLOYMENT_MOVED, end_user=adapter.end_user)


def make_adapter(worker: Worker, store: Path, end_user: str = "", parent: Adapter | None = None) -> Adapter:
    number = Adapter.objects.count() + 1
    directory = store / "made" / str(number)
    sha256 = write_adapter(directory, str(number).encode())
    adapter = record_adapter(
        worker=worker,
        parent=parent,
        run_id=1000 + number,
        uri=directory.as_uri(),
        sha256=sha256,
        by="test",
        end_user=end_user,
    )
    serve(adapter)
    return adapter


def read_batch(run: TrainingRun) -> list[RolloutRecord]:
    content = Path(urlsplit(run.spec["rollouts_uri"]).path).read_text(encoding="utf-8")
    return [RolloutRecord.from_json(json.loads(line)) for line in content.splitlines()]


def test_a_persons_conversations_train_their_line_and_nobody_elses(helper: Worker, store: Path) -> None:
    of_grace = {talk_once(helper, "grace").pk}
    talk_once(helper, "ada")
    talk_once(helper, "")
    assert not TrainingRun.objects.exists(), "the rollouts of each wait for more of the same"
    of_grace.add(talk_once(helper, "grace").pk)
    run = TrainingRun.objects.get()
    assert (run.end_user, run.batch.end_user if run.batch else None) == ("grace", "grace")
    graces = train(run, store)
    run.refresh_from_db()
    assert {record.group_id for record in read_batch(run)} == of_grace
    assert (graces.end_user, graces.parent, graces.line_version) == ("grace", None, 1)
    assert [find_deployed(helper, end_user=name) for name in ("grace", "ada", "")] == [graces, None, None]
    open_batches = Batch.objects.filter(state="open").values_list("end_user", "task_count", "target_tasks")
    assert sorted(open_batches) == [("", 1, 3), ("ada", 1, 2)]


def test_a_line_goes_on_from_its_own_adapter_and_begins_with_the_workers(helper: Worker, store: Path) -> None:
    for _ in range(3):
        everybodys = make_adapter(helper, store, parent=find_deployed(helper))
    runs = []
    for name in ("grace", "grace", "ada", "ada", "grace", "grace"):
        talk_once(helper, name, find_deployed(helper, end_user=name))
        for run in TrainingRun.objects.filter(state="queued"):
            runs.append(run)
            train(run, store)
    graces, adas, second = (Adapter.objects.get(run_id=run.pk) for run in runs)
    assert (graces.parent, adas.parent, second.parent) == (everybodys, everybodys, graces)
    assert [one.version for one in (graces, adas, second)] == [4, 5, 6]
    assert [one.line_version for one in (graces, adas, second)] == [4, 4, 5]


def test_staleness_is_counted_along_the_line_however_many_others_were_trained_meanwhile(
    helper: Worker, store: Path
) -> None:
    everybodys = make_adapter(helper, store)
    graces = make_adapter(helper, store, "grace", everybodys)
    for name in "abcdefgh":
        make_adapter(helper, store, name, everybodys)
    talk_once(helper, "grace", everybodys)
    latest = make_adapter(helper, store, "grace", graces)
    assert (latest.version, latest.line_version) == (11, 3)
    talk_once(helper, "grace", graces)
    run = TrainingRun.objects.get()
    dispatch_run(run.pk, by="test")
    run.refresh_from_db()
    records = read_batch(run)
    assert run.spec["policy_version"] == 3
    assert [record.policy_version for record in records] == [1, 2]
    sort = {"policy_version": run.spec["policy_version"], "hints_count": True}
    assert len(sort_rollouts(records, max_staleness=2, **sort).usable) == 2
    assert sort_rollouts(records, max_staleness=1, **sort).refused == {"stale": 1}


def test_a_worker_that_keeps_one_line_learns_from_everybody(helper: Worker) -> None:
    Worker.objects.filter(pk=helper.pk).update(adapters_per=Worker.AdaptersPer.WORKER)
    for name in ("grace", "ada", ""):
        talk_once(helper, name)
    run = TrainingRun.objects.get()
    assert run.end_user == ""
    assert Rollout.objects.filter(training_use__batch=run.batch_id).count() == 3


def test_an_adapter_of_one_person_cannot_be_deployed_for_another(helper: Worker, store: Path) -> None:
    graces = make_adapter(helper, store, "grace")
    for end_user in ("ada", ""):
        with pytest.raises(WrongLineError), transaction.atomic():
            deploy(helper, graces, by="test", kind=Kind.DEPLOYMENT_MOVED, end_user=end_user)
    assert Deployment.objects.get().end_user == "grace"


def test_no_trial_is_made_of_a_persons_adapter(helper: Worker, store: Path, alice: User) -> None:
    with pytest.raises(IllegalMoveError, match="one person has too few tasks"):
        canary_trials.start_canary(adapter=make_adapter(helper, store, "grace"), percent=10, by=alice)


def test_the_anchor_is_the_lines_own_or_the_workers_from_before_they_parted(helper: Worker, store: Path) -> None:
    def prove(adapter: Adapter) -> None:
        Verdict.objects.create(adapter=adapter, question="proved", outcome="yes", words="better")
        Adapter.objects.filter(worker=helper, end_user=adapter.end_user).update(is_anchor=False)
        Adapter.objects.filter(pk=adapter.pk).update(is_anchor=True)

    first = make_adapter(helper, store)
    prove(first)
    graces = make_adapter(helper, store, "grace", first)
    later = make_adapter(helper, store, parent=first)
    prove(later)
    assert (find_anchor(later), find_anchor(graces)) == (later, first)
    prove(graces)
    assert find_anchor(make_adapter(helper, store, "grace", graces)) == graces
    assert find_anchor(make_adapter(helper, store, "ada", None)) is None


def test_a_person_is_rolled_back_to_what_serves_everybody(helper: Worker, store: Path, alice: User) -> None:
    everybodys = make_adapter(helper, store)
    graces = make_adapter(helper, store, "grace", everybodys)
    assert find_deployed(helper, end_user="grace") == graces
    roll_back(worker=helper, end_user="grace", by=alice)
    assert [find_deployed(helper, end_user=name) for name in ("grace", "")] == [everybodys, everybodys]
    with pytest.raises(ConflictError, match="served by what serves everybody"):
        roll_back(worker=helper, end_user="grace", by=alice)


def test_who_is_forgotten_leaves_no_line_and_no_name(helper: Worker, store: Path) -> None:
    olivia = make_user("olivia")
    helper.project.members.create(user=olivia, role="owner")
    for name in ("grace", "grace", "ada", "ada"):
        talk_once(helper, name)
    first = train(TrainingRun.objects.get(end_user="grace"), store)
    adas = train(TrainingRun.objects.get(end_user="ada"), store)
    for _ in range(3):
        talk_once(helper, "grace", first)
    at_work = TrainingRun.objects.get(end_user="grace", state="queued")
    dispatch_run(at_work.pk, by="test")
    at_work.refresh_from_db()
    began = timezone.now() - timedelta(hours=1)
    TrainingRun.objects.filter(pk=at_work.pk).update(started_at=began)
    late = make_result(at_work, store)
    forget_person(project=helper.project, end_user="grace", by=olivia)
    first.refresh_from_db()
    at_work.refresh_from_db()
    assert (first.state, at_work.state) == ("refused", "cancelled")
    assert at_work.finished_at is not None
    assert at_work.cost["gpu_s"] >= 3600
    assert schedule.measure_use([helper.project_id])[helper.project_id] >= 3600
    assert (Path(urlsplit(at_work.spec["output_uri"]).path) / "cancel").exists()
    flow.handle_training_result(late, by="control")
    assert Adapter.objects.count() == 2, "what comes home late is dropped"
    for model in (Adapter, Batch, TrainingRun):
        names = set(model.objects.values_list("end_user", flat=True))
        assert not {name for name in names if "grace" in name}, model
        assert "ada" in names
    assert list(Deployment.objects.values_list("end_user", "adapter")) == [("ada", adas.pk)]
    assert find_deployed(helper, end_user="grace") is None
    assert not Batch.objects.filter(state="open").exists(), "her third conversation waits in no batch"
    for _ in range(2):
        talk_once(helper, "grace")
    again = train(TrainingRun.objects.get(end_user="grace"), store)
    assert (again.parent, again.line_version) == (None, 1)
