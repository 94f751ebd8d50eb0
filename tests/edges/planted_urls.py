"""Paths of an API with two faults planted behind its checks, which a draw that is worth its time must find."""

from typing import Any

from django.urls import include, path
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.routers import SimpleRouter

from apps.api.serializers.knowledge import SkillIn, SkillOut
from apps.api.serializers.tasksets import TasksetOut
from apps.api.views.knowledge import SkillViewSet
from apps.api.views.tasksets import TasksetViewSet


class BreakingSkillViewSet(SkillViewSet):
    """Breaks on a body that passed every check."""

    @extend_schema(request=SkillIn, responses={201: SkillOut})
    def create(self, request: Request) -> Response:
        body = self.read_body(SkillIn)
        raise ZeroDivisionError(body["name"])


class LyingTasksetViewSet(TasksetViewSet):
    """Answers with another type than it says."""

    @extend_schema(responses=TasksetOut)
    def retrieve(self, request: Request, pk: str) -> Response:
        shown: Any = dict(self.show(self.get_object()).data)
        return Response(shown | {"version": "many"})


router = SimpleRouter(trailing_slash=False)
router.register("skills", BreakingSkillViewSet)
router.register("tasksets", LyingTasksetViewSet)
urlpatterns = [path("api/v1/", include(router.urls)), path("", include("tentalis.urls"))]
