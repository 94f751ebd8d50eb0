"""Control items: tasks whose right judgement is known, handed out to learn how well people judge."""

from typing import Any, ClassVar

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.rights import Right
from apps.api.filters import filter_by
from apps.api.lookup import find_row
from apps.api.permissions import by_right, current_user
from apps.api.serializers.judgement import GoldIn, GoldOut
from apps.api.views.base import ResourceViewSet
from apps.feedback import gold
from apps.feedback.models import Feedback, GoldItem
from apps.tasks.models import Task

ADDING = [
    OpenApiExample("A judgement is the truth", {"task": 7, "feedback": 12}, request_only=True),
    OpenApiExample("It is known", {"task": 7, "expected": {"attempts": {"0": 1, "1": 0}}}, request_only=True),
    OpenApiExample("What was verified is the truth", {"task": 7}, request_only=True),
]


class GoldViewSet(ResourceViewSet):
    """Control items that are handed out. The share of reviews that are one is `gold_rate` of the review policy."""

    queryset = GoldItem.objects.filter(removed_at__isnull=True).select_related("project", "added_by")
    serializer_class = GoldOut
    filterset_class = filter_by(GoldItem, "task", "truth")
    rights: ClassVar = by_right({Right.AUDIT_READ: "list retrieve", Right.PIPELINE_WRITE: "create destroy"})

    def get_queryset(self) -> QuerySet[Any]:
        return gold.with_gold_counts(super().get_queryset())

    @extend_schema(request=GoldIn, responses={201: GoldOut}, examples=ADDING)
    def create(self, request: Request) -> Response:
        """Hand a task out as a control item from now on. Reviewers are not told; what they say of it trains nothing."""
        body = self.read_body(GoldIn)
        tasks = Task.objects.select_related("project")
        task = find_row(request, tasks, body["task"], field="task", right=Right.PIPELINE_WRITE)
        reference = None
        if "feedback" in body:
            said = Feedback.objects.select_related("preferred_attempt")
            reference = find_row(request, said, body["feedback"], field="feedback", right=Right.PIPELINE_WRITE)
        item = gold.add_gold(task=task, by=current_user(request), expected=body.get("expected"), reference=reference)
        return self.show(self.get_queryset().get(pk=item.pk), 201)

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, pk: str) -> Response:
        """Hand it out no more. What was said of it stays."""
        gold.remove_gold(item=self.get_object(), by=current_user(request))
        return Response(status=204)
