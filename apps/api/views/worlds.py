"""The environments of this installation, and the tasks that were added to one."""

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.rights import Right
from apps.api.permissions import SIGNED_IN, current_token, current_user
from apps.api.serializers.worlds import RepoTasksOut, WorldsOut
from apps.api.views.base import ApiView
from apps.base.errors import NotAllowedError
from apps.worlds.certificates import WorldStanding, find_standings
from apps.worlds.identity import hash_world
from apps.worlds.registry import WORLDS
from apps.worlds.repos.removing import remove_task
from apps.worlds.repos.testing import open_store
from tentalis.core.worlds import World


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

    rights: ClassVar = {"get": Right.EVALS_READ}

    @extend_schema(responses=RepoTasksOut, operation_id="repo_tasks_list")
    def get(self, request: Request) -> Response:
        """Every task of the environment `repos`, by name. `tentalis repo-task add`, where the platform is installed,
        adds one."""
        self.check_no_parameters()
        return Response(RepoTasksOut({"results": [one.summary for one in open_store().list_tasks()]}).data)


class RepoTaskView(ApiView):
    """One task of own repositories."""

    rights: ClassVar = {"delete": Right.PROJECTS_WRITE}

    @extend_schema(responses={204: None}, operation_id="repo_tasks_destroy")
    def delete(self, request: Request, name: str) -> Response:
        """Remove a task for all projects: what was learnt from it stays, and it cannot be played or verified again.
        Takes an admin of the installation."""
        if (token := current_token(request)) is not None and token.project_id:
            raise NotAllowedError("a token bound to a project removes nothing beyond it")
        remove_task(name=name, by=current_user(request))
        return Response(status=204)


def _show(world: World, standing: WorldStanding) -> dict[str, Any]:
    told = {name: getattr(world, name) for name in ("name", "label", "noun", "has_turns", "version")}
    return {**told, **standing._asdict(), "sha256": hash_world(world)}
