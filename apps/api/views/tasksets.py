"""Tasksets: what workers are measured on."""

from typing import ClassVar

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.rights import Right
from apps.api.filters import filter_by
from apps.api.permissions import by_right
from apps.api.serializers.tasksets import ItemOut, TasksetOut
from apps.api.views.base import ResourceViewSet
from apps.evals.models import Item, Taskset
from apps.evals.services import read_split

SPLIT = OpenApiParameter("split", str, enum=Item.Split.values, description="Items of this split alone.")


class TasksetViewSet(ResourceViewSet):
    """Named, versioned sets of tasks. A frozen version never changes: a change of it makes the next."""

    queryset = Taskset.objects.select_related("project")
    serializer_class = TasksetOut
    filterset_class = filter_by(Taskset, "name", "environment", "origin")
    rights: ClassVar = by_right({Right.EVALS_READ: "list retrieve items"})

    @extend_schema(responses=ItemOut(many=True), filters=False, parameters=[SPLIT])
    @action(detail=True, filterset_class=None, serializer_class=ItemOut)
    def items(self, request: Request, pk: str) -> Response:
        """Its items, newest first; the words of what is held out are for measuring and for nothing that learns."""
        taskset = self.get_object()
        self.check_no_parameters("split")
        rows = taskset.items.all()
        if (split := request.query_params.get("split")) is not None:
            rows = rows.filter(split=read_split(split))
        return self.show_page(rows, ItemOut)
