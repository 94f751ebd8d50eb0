"""Failed work is narrowed to one worker, whatever kind it is of."""

from typing import Any

import pytest
from django.db.models import Model
from django.utils import timezone

from apps.accounts.models import Project, User
from apps.adapters.models import Adapter
from apps.conversations.models import Turn
from apps.feedback.models import RowImport
from apps.finding.failed import OF_NO_WORKER, OF_WORKERS, FailedFilters
from apps.inference.models import Session
from apps.outbox.kinds import KINDS, SegmentKind
from apps.outbox.models import Segment
from apps.outbox.selectors import find_dead
from apps.regrading.models import Regrading
from apps.scoring.models import RewardModel
from apps.supervision.models import Proposal
from apps.training.models import TrainingRun
from apps.workers.models import Worker
from tests.factories import make_measured, make_task, make_worker


def make_subject(model: type[Model], worker: Worker, by: User) -> Model:
    """A row of that model which belongs to the worker."""
    project, name = worker.project, f"{worker.name}@v1"
    trained = {"project": project, "worker": worker, "name": name, "version": 1, "run_id": worker.pk, "manifest": {}}
    session = {"project": project, "key": name, "worker_name": worker.name}
    match model.__name__:
        case "Task":
            return make_task(project, worker)
        case "Worker":
            return worker
        case "Proposal":
            return Proposal.objects.create(
                project=project, task=make_task(project, worker), kind="answer", action={}, deadline_at=timezone.now()
            )
        case "TrainingRun":
            return TrainingRun.objects.create(project=project, worker=worker, purpose="scorer", recipe={})
        case "Adapter":
            return Adapter.objects.create(**trained, line_version=1)
        case "RewardModel":
            return RewardModel.objects.create(**trained)
        case "Evaluation":
            return make_measured(worker, None, [1.0])
        case "Regrading":
            return Regrading.objects.create(
                project=project,
                source="run",
                evaluation=make_measured(worker, None, [1.0]),
                rule={},
                last_id=1,
                planned=1,
            )
        case "Session":
            return Session.objects.create(**session)
        case "Turn":
            return Turn.objects.create(project=project, session=Session.objects.create(**session), number=0)
        case "RowImport":
            return RowImport.objects.create(
                project=project, worker=worker, by=by, environment="chat", kind="sft", total=1
            )
    raise AssertionError(f"wanted a model that work is on, found {model.__name__}")


def make_dead(kind: str, subject: Any) -> Segment:
    return Segment.objects.create(
        kind=kind,
        subject_id=subject.pk,
        project_id=subject.project_id,
        state=Segment.State.DEAD,
        links=list(KINDS[kind].names),
        queue="workers",
    )


def find_of(worker: str, project: Project, by: User) -> list[Segment]:
    return list(FailedFilters.bind({"worker": worker}, find_dead(project.pk), by).qs)


@pytest.mark.parametrize("kind", OF_WORKERS)
def test_failed_work_of_each_kind_is_found_by_its_worker(
    project: Project, worker: Worker, alice: User, kind: SegmentKind
) -> None:
    other = make_worker(project, "other")
    theirs = [make_dead(kind, make_subject(OF_WORKERS[kind][0], one, alice)) for one in (worker, other)]
    assert find_of(worker.name, project, alice) == theirs[:1]
    assert find_of(other.name, project, alice) == theirs[1:]


def test_new_grades_of_a_workers_history_are_its_work(project: Project, worker: Worker, alice: User) -> None:
    row = Regrading.objects.create(project=project, source="attempts", worker=worker, rule={}, last_id=1, planned=1)
    dead = make_dead(SegmentKind.REGRADE, row)
    assert find_of(worker.name, project, alice) == [dead]


def test_every_kind_of_work_says_whose_it_is() -> None:
    assert OF_WORKERS.keys() | OF_NO_WORKER == set(SegmentKind)
    assert not OF_WORKERS.keys() & OF_NO_WORKER
