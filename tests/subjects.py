"""A row that a segment works for, of each model that there is one of."""

from django.db.models import Model
from django.utils import timezone

from apps.accounts.models import User
from apps.adapters.models import Adapter
from apps.conversations.models import Turn
from apps.feedback.models import BulkJudgement, RowImport
from apps.inference.models import Session
from apps.judges.models import JudgeProbe
from apps.regrading.models import Regrading
from apps.scoring.models import RewardModel
from apps.supervision.models import Proposal
from apps.training.models import ManagerRun, TrainingRun
from apps.workers.models import Worker
from apps.worlds.models import RepoTaskAdmission
from tests.factories import make_measured, make_task


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
        case "BulkJudgement":
            return BulkJudgement.objects.create(project=project, by=by, total=3, done=1)
        case "JudgeProbe":
            return JudgeProbe.objects.create(project=project, model="judge", version="0", asked_by=by.handle)
        case "ManagerRun":
            return ManagerRun.objects.create(project=project, manager=name, kind="adapter", state="fitted")
        case "RepoTaskAdmission":
            return RepoTaskAdmission.objects.create(name=name, split="train", task={}, asked_by=by.handle)
    raise AssertionError(f"wanted a model that work is on, found {model.__name__}")
