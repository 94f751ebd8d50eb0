"""Workers, tasks and attempts."""

from collections.abc import Collection
from typing import Any, ClassVar

from django.db.models import Exists, OuterRef, Prefetch, Q
from django_filters import rest_framework as filters
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import Project
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.adapters import services as adapters
from apps.adapters.models import Deployment
from apps.api.filters import ProjectFilterSet, RowFilterSet, filter_by
from apps.api.lookup import find_project_for, find_row, find_worker, refuse
from apps.api.permissions import by_right, current_user, require_scope
from apps.api.serializers.learning import DeploymentOut
from apps.api.serializers.work import (
    PACKED,
    AttemptDetailOut,
    AttemptIn,
    AttemptOut,
    EpisodeTurnOut,
    ManyTasksOut,
    SessionTasksIn,
    StepOut,
    TaskFileIn,
    TaskFileOut,
    TaskIn,
    TaskOut,
    WorkerChange,
    WorkerIn,
    WorkerOut,
)
from apps.api.views.base import ResourceViewSet, command
from apps.api.waiting import MAX_WAIT_S, answer_in_time, hold_back, read_wait
from apps.base.packed_rows import read_base64, unpack_rows
from apps.evals.models import Taskset
from apps.feedback.models import RowImport
from apps.finding.tasks import TaskFilters
from apps.inference.models import Provider
from apps.pipeline import flow
from apps.tasks.models import Attempt, EpisodeTurn, Step, Task
from apps.tasks.waiting import current_board, current_turn_board, find_played_on
from apps.workers.bases import compare_base
from apps.workers.kinds import kind_choices
from apps.workers.models import Worker
from apps.workers.services import change_worker, create_worker, delete_worker
from tentalis.core.task_files import guess_form


def _describe_wait(until: str) -> OpenApiParameter:
    words = f"Seconds to wait, 0 to {MAX_WAIT_S}; the answer comes as soon as {until}."
    return OpenApiParameter("wait", int, description=words)


WAITING = [
    _describe_wait("the task's state changes"),
    OpenApiParameter(
        "seen",
        str,
        enum=list(Task.State.values),
        description="With wait: the state you know, so that no change is missed between two requests. Default: the "
        "one it has when you ask.",
    ),
]
DEPLOYED = Deployment.objects.filter(end_user="").select_related("adapter")


class WorkerViewSet(ResourceViewSet):
    """Agents that do tasks."""

    queryset = Worker.objects.select_related("project", "provider", "agent_server", "learns_with").prefetch_related(
        "learners",
        Prefetch("deployments", DEPLOYED),
        Prefetch("learns_with__deployments", DEPLOYED),
    )
    serializer_class = WorkerOut
    filterset_class = filter_by(Worker, "name", "is_active", kind=filters.ChoiceFilter(choices=kind_choices))
    rights: ClassVar = by_right(
        {
            Right.WORKERS_READ: "list retrieve",
            Right.WORKERS_WRITE: "create partial_update destroy compare",
            Right.ADAPTERS_WRITE: "rollback",
        }
    )

    @extend_schema(request=WorkerIn, responses={201: WorkerOut})
    def create(self, request: Request) -> Response:
        """Give a project a worker."""
        project, body = self.read_placed(WorkerIn)
        _resolve_names(body, project)
        return self.show(create_worker(project=project, by=current_user(request), **body), 201)

    @extend_schema(request=WorkerChange)
    def partial_update(self, request: Request, pk: str) -> Response:
        worker = self.get_object()
        body = self.read_body(WorkerChange)
        _resolve_names(body, worker.project)
        return self.show(change_worker(worker=worker, by=current_user(request), **body))

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, pk: str) -> Response:
        """Remove a worker that never worked, was measured or learnt; any other is switched off instead."""
        delete_worker(worker=self.get_object(), by=current_user(request))
        return Response(status=204)

    @command(responses=DeploymentOut)
    def rollback(self, request: Request, pk: str) -> Response:
        """Return the worker to what served it before."""
        return Response(DeploymentOut(adapters.roll_back(worker=self.take_row(), by=current_user(request))).data)

    @command()
    def compare(self, request: Request, pk: str) -> Response:
        """Compare its base weights with what its model server serves; `base_compared` is what was found."""
        worker = self.take_row()
        compare_base(worker.line)
        return self.show(self.get_object())


def _resolve_names(body: dict[str, Any], project: Project) -> None:
    """Put the project's (else the installation's) servers, and its worker, in place of their names."""
    if body.get("learns_with") is not None:
        body["learns_with"] = find_worker(project, body["learns_with"], field="learns_with")
    for field, thing in (("provider", "model server"), ("agent_server", "agent server")):
        if body.get(field) is not None:
            found = Provider.objects.filter(name=body[field], project__in=[project]).first()
            found = found or Provider.objects.filter(name=body[field], project=None).first()
            if found is None:
                raise refuse(field, thing, body[field])
            body[field] = found


class TaskFilterSet(TaskFilters, ProjectFilterSet):
    parent = filters.NumberFilter(field_name="parent_id")


class TaskViewSet(ResourceViewSet):
    """Work given to agents."""

    queryset = Task.objects.select_related("project", "worker", "submitted_by")
    serializer_class = TaskOut
    filterset_class = TaskFilterSet
    rights: ClassVar = by_right(
        {
            Right.TASKS_READ: "list retrieve",
            Right.ATTEMPTS_READ: "attempts",
            Right.TASKS_WRITE: "create import_file take_from_sessions cancel",
        }
    )

    @classmethod
    def as_view(cls, actions: Any = None, **initkwargs: Any) -> Any:
        view = super().as_view(actions, **initkwargs)
        return answer_in_time(view, current_board) if (actions or {}).get("get") == "retrieve" else view

    @property
    def extra_parameters(self) -> tuple[str, ...]:
        """Of one task, not of a list."""
        return ("wait", "seen") if self.action == "retrieve" else ()

    @extend_schema(parameters=WAITING)
    def retrieve(self, request: Request, pk: str) -> Response:
        """A task; `wait` holds the answer back until its state changes, which that of an ended one does not."""
        wait_s, seen = read_wait(request.query_params.get("wait")), request.query_params.get("seen")
        if seen is not None and seen not in Task.State.values:
            wanted = ", ".join(Task.State.values)
            raise ValidationError({"seen": [f"wanted one of {wanted}; found {seen[:40]!r}"]})
        task = self.get_object()
        response = self.show(task)
        is_settled = not Task.MOVES[Task.State(task.state)] or (seen is None and task.state == Task.State.FAILED)
        if is_settled or seen not in (None, task.state):
            return response
        return hold_back(response, (task.pk, task.state), wait_s)

    @extend_schema(request=TaskIn, responses={201: TaskOut})
    def create(self, request: Request) -> Response:
        """Submit a task. It is accepted while the queue is away, and done when that is back."""
        project, body = self.read_placed(TaskIn)
        if "worker" in body:
            body["worker"] = find_worker(project, body["worker"])
        if body.get("parent") is not None:
            parents = Task.objects.select_related("project")
            body["parent"] = find_row(request, parents, body["parent"], field="parent", right=Right.TASKS_READ)
        if body.get("taskset") is not None:
            require_scope(request, Right.EVALS_READ)
            tasksets = Taskset.objects.filter(project=project)
            body["taskset"] = find_row(request, tasksets, body["taskset"], field="taskset", right=Right.EVALS_READ)
        task = flow.submit(project=project, by=current_user(request), **body)
        response = self.show(task, 201)
        response["Location"] = f"/api/v1/tasks/{task.pk}"
        return response

    @extend_schema(request=TaskFileIn, responses={201: TaskFileOut})
    @action(detail=False, methods=["post"], url_path="import", filterset_class=None)
    def import_file(self, request: Request) -> Response:
        """Submit the tasks of a file, all of them or none; a fault names its line. Of finished work with its judgement
        tasks are made in the background."""
        project, body = self.read_placed(TaskFileIn)
        if "worker" in body:
            body["worker"] = find_worker(project, body["worker"])
        if body["form"] == PACKED:
            name, body["text"] = unpack_rows(read_base64(body["text"], field="text"), field="text")
            body["form"] = guess_form(name, body["text"])
        made = flow.import_file(project=project, by=current_user(request), **body)
        if isinstance(made, RowImport):
            return Response({"count": made.total, "tasks": [], "import_id": made.pk}, status=201)
        return Response({"count": len(made), "tasks": [task.pk for task in made], "import_id": None}, status=201)

    @extend_schema(request=SessionTasksIn, responses={201: ManyTasksOut})
    @action(detail=False, methods=["post"], url_path="from-sessions", filterset_class=None)
    def take_from_sessions(self, request: Request) -> Response:
        """Submit what was asked first in recorded sessions, all of them or none; `GET sessions/asked` lists them. Takes
        the scope `sessions:read` as well."""
        body = self.read_body(SessionTasksIn)
        require_scope(request, Right.SESSIONS_READ)
        project = find_project_for(request, body.pop("project"), Right.TASKS_WRITE)
        require_right(current_user(request), project, Right.SESSIONS_READ)
        if "worker" in body:
            body["worker"] = find_worker(project, body["worker"])
        made = flow.submit_asked(project=project, by=current_user(request), **body)
        return Response({"count": len(made), "tasks": [task.pk for task in made]}, status=201)

    @command()
    def cancel(self, request: Request, pk: str) -> Response:
        """Give a task up. What was done of it stays readable and trains nothing."""
        return self.show(flow.cancel(task=self.take_row(), by=current_user(request)))

    @extend_schema(responses=AttemptOut(many=True), filters=False)
    @action(detail=True, filterset_class=None, serializer_class=AttemptOut)
    def attempts(self, request: Request, pk: str) -> Response:
        """The tries at a task."""
        task = self.get_object()
        self.check_no_parameters()
        return self.show_page(ATTEMPTS.filter(task=task), AttemptOut)


ATTEMPTS = Attempt.objects.select_related("task__project", "worker", "adapter").prefetch_related("step_scores")
EPISODES = Attempt.every.select_related("task__project", "worker", "adapter").prefetch_related("step_scores")


class TriesViewSet(ResourceViewSet):
    """What attempts and episodes share: a try belongs to the project of its task."""

    serializer_class = AttemptOut
    filterset_class = filter_by(Attempt, "task", "state", "worker", "adapter", base=RowFilterSet)
    project_path = "task__project"

    def check_object_permissions(self, request: Request, obj: Any) -> None:
        super().check_object_permissions(request, obj.task)


class AttemptViewSet(TriesViewSet):
    """Tries at tasks."""

    queryset = ATTEMPTS
    rights: ClassVar = by_right({Right.ATTEMPTS_READ: "list retrieve steps", Right.ATTEMPTS_WRITE: "create"})

    def get_serializer_class(self) -> Any:
        return AttemptDetailOut if self.action == "retrieve" else super().get_serializer_class()

    @extend_schema(request=AttemptIn, responses={201: AttemptOut})
    def create(self, request: Request) -> Response:
        """Hand in an outside agent's own try at a task; the last one's task is scored and reviewed like any."""
        body = self.read_body(AttemptIn)
        tasks = Task.objects.select_related("project", "worker")
        task = find_row(request, tasks, body["task"], field="task", right=Right.ATTEMPTS_WRITE)
        attempt = flow.submit_own_attempt(
            task=task,
            steps=body["steps"],
            answer=body["answer"],
            by=current_user(request),
            index=body["index"],
            is_last=body["last"],
        )
        return self.show(ATTEMPTS.get(pk=attempt.pk), 201)

    @extend_schema(responses=StepOut(many=True), filters=False)
    @action(detail=True, filterset_class=None, serializer_class=StepOut)
    def steps(self, request: Request, pk: str) -> Response:
        """The steps of a try in order, each with its scores by scorer, and why where it has none."""
        attempt = self.get_object()
        self.check_no_parameters()
        self.oldest_first = True
        return self.show_page(Step.objects.filter(attempt=attempt).prefetch_related("scores"), StepOut)


class EpisodeViewSet(TriesViewSet):
    """Attempts that are played in turns, by the attempt's id: those that are under way, and those that were lost and
    are played anew, as well as the ended ones."""

    queryset = EPISODES.filter(
        Exists(EpisodeTurn.objects.filter(attempt=OuterRef("pk"))) | Q(state__in=Attempt.NOT_YET)
    )
    rights: ClassVar = by_right({Right.ATTEMPTS_READ: "list retrieve turns"})
    extra_parameters: Collection[str] = ()

    @classmethod
    def as_view(cls, actions: Any = None, **initkwargs: Any) -> Any:
        view = super().as_view(actions, **initkwargs)
        return answer_in_time(view, current_turn_board) if (actions or {}).get("get") == "turns" else view

    @extend_schema(
        responses=EpisodeTurnOut(many=True),
        filters=False,
        parameters=[
            OpenApiParameter("after", {"type": "integer", "minimum": 0}, description="Turns behind this `index`."),
            _describe_wait("a turn behind `after` has ended, or the episode has"),
        ],
    )
    @action(detail=True, filterset_class=None, serializer_class=EpisodeTurnOut)
    def turns(self, request: Request, pk: str) -> Response:
        """Its turns in order, as they happen: `observations` and `ended_at` are null until the world has answered the
        calls. `after` the last one seen finds what came since; `wait` holds the answer back until there is more."""
        self.extra_parameters = {"after", "wait"}
        wait_s, after = read_wait(request.query_params.get("wait")), request.query_params.get("after")
        attempt = self.get_object()
        rows = EpisodeTurn.objects.filter(attempt=attempt)
        if after is not None:
            if not (after.isascii() and after.isdigit() and len(after) < 10):
                raise ValidationError({"after": [f"wanted the index of a turn, found {after[:40]!r}"]})
            rows = rows.filter(index__gt=int(after))
        self.oldest_first = True
        response, known = self.show_page(rows.defer("snapshot"), EpisodeTurnOut), (attempt.pk, int(after or -1))
        return hold_back(response, known, wait_s) if wait_s and not find_played_on([known]) else response
