"""New grades of what was answered before."""

from collections.abc import Collection
from typing import Any, ClassVar

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.rights import Right
from apps.api.filters import filter_by
from apps.api.lookup import find_row, find_worker
from apps.api.permissions import by_right, current_user
from apps.api.serializers.regradings import RegradeOut, RegradingIn, RegradingOut
from apps.api.views.base import ResourceViewSet
from apps.evals.models import Evaluation
from apps.pipeline import flow
from apps.regrading.models import Regrading
from apps.regrading.rules import GradingRule
from apps.regrading.services import list_changed

RULE = ("grader", "options", "scorer", "checks", "rubric", "constitution")


def take_rule(body: dict[str, Any]) -> GradingRule:
    """What grades, taken out of a body."""
    return GradingRule(**{name: body.pop(name) for name in RULE if name in body})


class RegradingViewSet(ResourceViewSet):
    """Sets of new grades, beside those that are there."""

    queryset = Regrading.objects.select_related("project", "worker")
    serializer_class = RegradingOut
    filterset_class = filter_by(Regrading, "source", "evaluation", "state")
    extra_parameters: Collection[str] = ()
    rights: ClassVar = by_right({Right.EVALS_READ: "list retrieve grades", Right.EVALS_WRITE: "create"})

    @extend_schema(request=RegradingIn, responses={201: RegradingOut})
    def create(self, request: Request) -> Response:
        """Grade anew what was answered before. The old grades, and what was trained with them, stay as they are."""
        project, body = self.read_placed(RegradingIn)
        rule = take_rule(body)
        if name := body.pop("worker", ""):
            body["worker"] = find_worker(project, name)
        body["source"] = body.pop("history")
        if (pk := body.pop("evaluation", None)) is not None:
            body["source"] = Regrading.Source.RUN
            rows = Evaluation.objects.filter(project=project).select_related("worker__project", "taskset")
            body["evaluation"] = find_row(request, rows, pk, field="evaluation", right=Right.EVALS_READ)
        return self.show(flow.ask_regrading(project=project, rule=rule, by=current_user(request), **body), 201)

    @extend_schema(
        responses=RegradeOut(many=True),
        filters=False,
        parameters=[OpenApiParameter("changed", str, enum=["side", "grade"], description="Only who changed it.")],
    )
    @action(detail=True, filterset_class=None, serializer_class=RegradeOut)
    def grades(self, request: Request, pk: str) -> Response:
        """Each new grade beside the old one."""
        self.extra_parameters = {"changed"}
        row = self.get_object()
        changed = request.query_params.get("changed", "")
        if changed not in ("", "side", "grade"):
            raise ValidationError({"changed": [f"wanted side or grade, found {changed[:40]!r}"]})
        return self.show_page(list_changed(row, changed).select_related("regrading"), RegradeOut)
