"""The environments of this installation."""

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.permissions import SIGNED_IN
from apps.api.serializers.worlds import WorldsOut
from apps.api.views.base import ApiView
from apps.worlds.certificates import WorldStanding, find_standings
from apps.worlds.identity import hash_world
from apps.worlds.registry import WORLDS
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


def _show(world: World, standing: WorldStanding) -> dict[str, Any]:
    told = {name: getattr(world, name) for name in ("name", "label", "noun", "has_turns", "version")}
    return {**told, **standing._asdict(), "sha256": hash_world(world)}
