"""The older routes under /bridge, for agents that speak them: with tokens, checked, and acting once."""

from typing import Any, ClassVar

from django.db.models import Count, Q, Sum
from django.http import Http404, HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import Project
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.api.idempotency import answer_once, note_concerned_project
from apps.api.lookup import find_project_for, find_row
from apps.api.permissions import PUBLIC, current_user, projects_with, visible_projects
from apps.api.serializers.bridge import (
    AssignedOut,
    AssignTaskIn,
    BridgeHealthOut,
    JudgedOut,
    JudgementIn,
    LoggedOut,
    ResultIn,
    SessionLogIn,
    StatusOut,
    TrainingStatusOut,
)
from apps.api.views.base import ApiView
from apps.api.waiting import MAX_WAIT_S, answer_in_time, hold_back, read_wait
from apps.base.errors import BadInputError
from apps.pipeline import bridge, flow
from apps.rollouts.models import Batch
from apps.tasks.models import Task
from apps.training.models import TrainingRun

WAIT_HELP = f"Seconds to wait for the result, 0 to {MAX_WAIT_S}; the answer comes as soon as there is one."


def find_chosen_project(request: Request, metadata: dict[str, Any], right: Right) -> Project:
    """The project that `metadata` names, else the only one where the caller may.

    Raises:
        NotFoundError, NotAllowedError: it is none of theirs.
        BadInputError: there is a choice.
    """
    name = metadata.get("project")
    if name is not None:
        if not isinstance(name, str):
            raise ValidationError({"metadata": ["project: wanted text"]})
        return find_project_for(request, name, right)
    found = list(projects_with(request, right)[:2])
    if len(found) != 1:
        raise BadInputError.at("metadata", "name a project in metadata.project: you may in none or several")
    project: Project = found[0]
    note_concerned_project(request, project)
    return project


def check_manager(request: Request, name: str) -> None:
    """Raises ValidationError for who speaks in another's name."""
    mine = current_user(request).username
    if name not in ("", mine):
        raise ValidationError({"manager_id": [f"wanted {mine}, whose token this is, found {name[:64]!r}"]})


class BridgeView(ApiView):
    """Routes that act once for each task and worker, whatever headers an older agent sends."""

    def act_once(self, request: Request, name: str, handle: Any) -> HttpResponse:
        if request.headers.get("Idempotency-Key") is not None:
            done: HttpResponse = handle()
            return done
        return answer_once(request, current_user(request), f"bridge {request.path} {name}", handle, frozenset())

    def find_task(self, request: Request, pk: int, right: Right) -> Task:
        return find_row(request, Task.objects.select_related("project", "worker"), pk, field="task_id", right=right)


class AssignView(BridgeView):
    """Work for an agent."""

    rights: ClassVar = {"post": Right.TASKS_WRITE}

    @extend_schema(request=AssignTaskIn, responses={201: AssignedOut}, operation_id="bridge_assign", tags=["bridge"])
    def post(self, request: Request) -> Response:
        """Give an agent work. `metadata` may name `project` and `worker`."""
        body = self.read_body(AssignTaskIn)
        check_manager(request, body.get("manager_id", ""))
        metadata = body.get("metadata", {})
        project = find_chosen_project(request, metadata, Right.TASKS_WRITE)
        name = metadata.get("worker", "")
        if not isinstance(name, str):
            raise ValidationError({"metadata": ["worker: wanted text"]})
        task = flow.submit(
            project=project,
            prompt=body["prompt"],
            environment=body["task_type"],
            by=current_user(request),
            worker=bridge.choose_worker(project, name),
            metadata=metadata,
        )
        return Response(AssignedOut({"task_id": task.pk, "status": task.state}).data, status=201)


class ResultView(BridgeView):
    """What became of the work."""

    rights: ClassVar = {"post": Right.ATTEMPTS_WRITE}

    @extend_schema(request=ResultIn, responses=AssignedOut, operation_id="bridge_result", tags=["bridge"])
    def post(self, request: Request) -> HttpResponse:
        """Hand in the result of a task. Sent again for the same task and worker it is answered the same."""
        body = self.read_body(ResultIn)
        task = self.find_task(request, body["task_id"], Right.ATTEMPTS_WRITE)

        def handle() -> Response:
            row = bridge.hand_in_result(
                task=task,
                worker_id=body["worker_id"],
                steps=body.get("steps", ()),
                result=body["result"],
                is_done=body["status"] == "success",
                elapsed_s=body.get("elapsed_seconds"),
                by=current_user(request),
            )
            return Response(AssignedOut({"task_id": row.pk, "status": row.state}).data)

        return self.act_once(request, f"{task.pk} {body['worker_id']}", handle)


class JudgementView(BridgeView):
    """What a manager says of the work."""

    rights: ClassVar = {"post": Right.FEEDBACK_WRITE}

    @extend_schema(request=JudgementIn, responses={201: JudgedOut}, operation_id="bridge_feedback", tags=["bridge"])
    def post(self, request: Request) -> HttpResponse:
        """Judge a task. It closes the task's open review where you may; sent again it is answered the same."""
        body = self.read_body(JudgementIn)
        check_manager(request, body.get("manager_id", ""))
        task = self.find_task(request, body["task_id"], Right.FEEDBACK_WRITE)
        if body.get("score") is None and not body.get("textual_feedback") and not any_score(body.get("step_scores")):
            raise ValidationError({"score": ["wanted at least one of score, step_scores, textual_feedback"]})

        def handle() -> Response:
            given = bridge.judge(
                task=task,
                worker_id=body["worker_id"],
                score=body.get("score"),
                step_scores=body.get("step_scores", ()),
                text=body.get("textual_feedback", ""),
                by=current_user(request),
            )
            task.refresh_from_db()
            shown = {"feedback_id": given.pk, "task_id": task.pk, "status": task.state}
            return Response(JudgedOut(shown).data, status=201)

        return self.act_once(request, f"{task.pk} {body['worker_id']}", handle)


def any_score(scores: list[float | None] | None) -> bool:
    return any(score is not None for score in scores or ())


class StatusView(BridgeView):
    """How a task stands."""

    rights: ClassVar = {"get": Right.TASKS_READ}

    @classmethod
    def as_view(cls, **initkwargs: Any) -> Any:
        return answer_in_time(super().as_view(**initkwargs), bridge.current_board)

    @extend_schema(
        parameters=[
            OpenApiParameter("task_id", OpenApiTypes.INT64, OpenApiParameter.PATH),
            OpenApiParameter("wait", int, description=WAIT_HELP, default=MAX_WAIT_S),
        ],
        responses=StatusOut,
        operation_id="bridge_status",
        tags=["bridge"],
    )
    def get(self, request: Request, task_id: str) -> Response:
        """A task's state and result; waits up to 30 s for the result."""
        self.check_no_parameters("wait")
        wait_s = read_wait(request.query_params.get("wait"), default=MAX_WAIT_S)
        tasks = Task.objects.select_related("project").filter(project__in=visible_projects(request))
        task = tasks.filter(pk=int(task_id)).first() if len(task_id) <= 18 else None
        if task is None:
            raise Http404
        require_right(current_user(request), task.project, Right.TASKS_READ)
        shown = {
            "task_id": task.pk,
            "status": task.state,
            "result": task.answer,
            "score": task.score,
            "failure": task.failure,
        }
        response = Response(StatusOut(shown).data)
        return response if task.state in bridge.ANSWERED else hold_back(response, task.pk, wait_s)


class SessionLogView(BridgeView):
    """Talks that went past the gateway."""

    rights: ClassVar = {"post": Right.ATTEMPTS_WRITE}

    @extend_schema(request=SessionLogIn, responses={201: LoggedOut}, operation_id="bridge_log", tags=["bridge"])
    def post(self, request: Request) -> HttpResponse:
        """Keep a talk up to its last answer. It has no tokens, so it trains nothing."""
        body = self.read_body(SessionLogIn)
        project = find_chosen_project(request, body.get("metadata", {}), Right.ATTEMPTS_WRITE)

        def handle() -> Response:
            exchange = bridge.log_session(
                project=project,
                key=body["session_id"],
                worker_id=body["worker_id"],
                messages=body["messages"],
                model=body.get("model_version") or "unknown",
                by=current_user(request),
            )
            shown = {"session_id": body["session_id"], "exchange_id": exchange.public_id}
            return Response(LoggedOut(shown).data, status=201)

        return self.act_once(request, f"{body['session_id']} {body['worker_id']} {len(body['messages'])}", handle)


class TrainingStatusView(BridgeView):
    """What trains."""

    rights: ClassVar = {"get": Right.WORKERS_READ}

    @extend_schema(responses=TrainingStatusOut, operation_id="bridge_training", tags=["bridge"])
    def get(self, request: Request) -> Response:
        """What trains now in your projects, what waits, and how the last run ended."""
        self.check_no_parameters()
        projects = projects_with(request, Right.WORKERS_READ)
        runs = TrainingRun.objects.filter(project__in=projects)
        states = runs.aggregate(
            running=Count("pk", filter=Q(state=TrainingRun.State.RUNNING)),
            queued=Count("pk", filter=Q(state=TrainingRun.State.QUEUED)),
        )
        batches = Batch.objects.filter(project__in=projects, state=Batch.State.OPEN)
        counts = batches.aggregate(collected=Sum("task_count"), wanted=Sum("target_tasks"))
        last = runs.select_related("worker").order_by("-pk").first()
        shown: dict[str, Any] = {
            "is_training": states["running"] > 0,
            "queued": states["queued"],
            "tasks_collected": counts["collected"] or 0,
            "tasks_wanted": counts["wanted"] or 0,
            "last_run": None if last is None else show_run(last),
        }
        return Response(TrainingStatusOut(shown).data)


def show_run(run: TrainingRun) -> dict[str, Any]:
    return {
        "id": run.pk,
        "worker": run.worker.name,
        "state": run.state,
        "updates": len(run.metrics),
        "failure": run.failure,
        "finished_at": run.finished_at,
    }


class BridgeHealthView(ApiView):
    """Whether the bridge answers."""

    rights: ClassVar = {"get": PUBLIC}
    authentication_classes = []

    @extend_schema(responses=BridgeHealthOut, operation_id="bridge_health", tags=["bridge"], auth=[])
    def get(self, request: Request) -> Response:
        """Alive."""
        return Response({"status": "ok"})
