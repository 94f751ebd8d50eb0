"""The environments of this installation, and the tasks that were added to one or handed in for it."""

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.rights import Right
from apps.accounts.services import require_admin
from apps.api.permissions import SIGNED_IN, current_token, current_user
from apps.api.serializers.worlds import (
    RepoTaskAdmissionOut,
    RepoTaskAdmissionsOut,
    RepoTasksIn,
    RepoTasksOut,
    UploadOut,
    UploadPartIn,
    WorldsOut,
)
from apps.api.views.base import ApiView
from apps.base.errors import NotAllowedError, NotFoundError
from apps.base.packed_rows import read_base64
from apps.evals.row_files import read_rows
from apps.pipeline import admitting
from apps.worlds.certificates import WorldStanding, find_standings
from apps.worlds.identity import hash_world
from apps.worlds.models import RepoTaskAdmission
from apps.worlds.registry import WORLDS
from apps.worlds.repos.removing import remove_task
from apps.worlds.repos.testing import open_store
from apps.worlds.repos.uploads import add_part, find_upload
from tentalis.core.worlds import World

SHOWN_ADMISSIONS = 200


class WorldsView(ApiView):
    """The environments of this installation."""

    rights: ClassVar = {"get": SIGNED_IN}

    @extend_schema(responses=WorldsOut, operation_id="worlds_list")
    def get(self, request: Request) -> Response:
        """Every environment that tasks can be in, and whether anything may be trained there.

        `tentalis world doctor NAME`, where the platform is installed, examines one."""
        self.check_no_parameters()
        standings = find_standings(WORLDS.values())
        return Response(WorldsOut({"results": [_show(world, standings[world.name]) for world in WORLDS.values()]}).data)


class RepoTasksView(ApiView):
    """The tasks of own repositories that were added to this installation."""

    rights: ClassVar = {"get": Right.EVALS_READ, "post": Right.PROJECTS_WRITE}

    @extend_schema(request=RepoTasksIn, responses={201: RepoTaskAdmissionsOut}, operation_id="repo_tasks_create")
    def post(self, request: Request) -> Response:
        """Hand in tasks of one repository. Each is looked at in sandboxes, three times: where its tests fail on the
        base and pass on the gold patch it is added for all projects, else it is quarantined with the reason. All rows
        are taken, or none. Takes an admin of the installation."""
        refuse_bound(request)
        body = self.read_body(RepoTasksIn)
        rows = read_rows(body.pop("text"), form="jsonl")
        made = admitting.hand_in(rows=rows, by=current_user(request), **body)
        return Response(RepoTaskAdmissionsOut({"results": made}).data, status=201)

    @extend_schema(responses=RepoTasksOut, operation_id="repo_tasks_list")
    def get(self, request: Request) -> Response:
        """Every task of the environment `repos`, by name. A POST hands some in, and `tentalis repo-task add`, where the
        platform is installed, adds one."""
        self.check_no_parameters()
        return Response(RepoTasksOut({"results": [one.summary for one in open_store().list_tasks()]}).data)


class RepoTaskView(ApiView):
    """One task of own repositories."""

    rights: ClassVar = {"delete": Right.PROJECTS_WRITE}

    @extend_schema(responses={204: None}, operation_id="repo_tasks_destroy")
    def delete(self, request: Request, name: str) -> Response:
        """Remove a task for all projects: what was learnt from it stays, and it cannot be played or verified again.
        Takes an admin of the installation."""
        refuse_bound(request)
        remove_task(name=name, by=current_user(request))
        return Response(status=204)


class RepoTaskAdmissionsView(ApiView):
    """Tasks that were handed in."""

    rights: ClassVar = {"get": Right.EVALS_READ}

    @extend_schema(responses=RepoTaskAdmissionsOut, operation_id="repo_task_admissions_list")
    def get(self, request: Request) -> Response:
        """The newest 200, and what was found of each so far."""
        self.check_no_parameters()
        rows = RepoTaskAdmission.objects.defer("task")[:SHOWN_ADMISSIONS]
        return Response(RepoTaskAdmissionsOut({"results": rows}).data)


class RepoTaskAdmissionView(ApiView):
    """One task that was handed in."""

    rights: ClassVar = {"get": Right.PROJECTS_WRITE}

    @extend_schema(responses=RepoTaskAdmissionOut, operation_id="repo_task_admissions_retrieve")
    def get(self, request: Request, pk: str) -> Response:
        """What was found of it so far. Takes an admin of the installation, as handing it in."""
        self.check_no_parameters()
        refuse_bound(request)
        require_admin(current_user(request))
        row = RepoTaskAdmission.objects.filter(pk=int(pk)).defer("task").first()
        if row is None:
            raise NotFoundError(f"no admission {pk}")
        return Response(RepoTaskAdmissionOut(row).data)


class UploadView(ApiView):
    """A file that comes in parts, by the sha256 of its bytes, for tasks to be made of it."""

    rights: ClassVar = {"get": Right.PROJECTS_WRITE, "post": Right.PROJECTS_WRITE}

    @extend_schema(responses=UploadOut, operation_id="uploads_retrieve")
    def get(self, request: Request, sha256: str) -> Response:
        """How far it has come. Takes an admin of the installation."""
        self.check_no_parameters()
        refuse_bound(request)
        return Response(UploadOut(find_upload(sha256=sha256, by=current_user(request))).data)

    @extend_schema(request=UploadPartIn, responses=UploadOut, operation_id="uploads_create")
    def post(self, request: Request, sha256: str) -> Response:
        """Put a part behind what has come. The last one ends the file: what is not what its hash says is refused, and
        begins anew. Of a file that is there nothing more is wanted. Takes an admin of the installation."""
        refuse_bound(request)
        body = self.read_body(UploadPartIn)
        body["part"] = read_base64(body["part"], field="part")
        return Response(UploadOut(add_part(sha256=sha256, by=current_user(request), **body)).data)


def refuse_bound(request: Request) -> None:
    """Raises NotAllowedError for a token that is bound to a project: all projects have these tasks."""
    if (token := current_token(request)) is not None and token.project_id:
        raise NotAllowedError("a token bound to a project changes nothing beyond it")


def _show(world: World, standing: WorldStanding) -> dict[str, Any]:
    told = {name: getattr(world, name) for name in ("name", "label", "noun", "has_turns", "version")}
    return {**told, **standing._asdict(), "sha256": hash_world(world)}
