"""Checks: what a right answer is, as data."""

from typing import ClassVar

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.rights import Right
from apps.api.filters import filter_by
from apps.api.permissions import by_right, current_user
from apps.api.serializers.checks import SHOWN_CHARS, CheckChange, CheckIn, CheckOut, CheckTriedOut, CheckTryIn
from apps.api.views.base import ResourceViewSet
from apps.checks.models import NamedCheck
from apps.checks.services import set_default, write_check
from apps.tasks.checking import remove_check, try_check

WRITING = [
    OpenApiExample(
        "A short answer without promises",
        {
            "project": "shop",
            "name": "short-and-honest",
            "spec": {
                "all": [
                    {"check": "length", "unit": "words", "max": 80},
                    {"check": "forbidden", "words": ["guarantee", "free of charge"]},
                ]
            },
        },
        request_only=True,
    )
]


class CheckViewSet(ResourceViewSet):
    """What a right answer is, named and versioned. A text never changes: another one is the next version."""

    queryset = NamedCheck.objects.select_related("project")
    serializer_class = CheckOut
    filterset_class = filter_by(NamedCheck, "name", "version", "default_for")
    rights: ClassVar = by_right(
        {Right.EVALS_READ: "list retrieve", Right.EVALS_WRITE: "create partial_update try_spec destroy"}
    )

    @extend_schema(request=CheckIn, responses={201: CheckOut}, examples=WRITING)
    def create(self, request: Request) -> Response:
        """Add a check, or the next version of the one of this name."""
        project, body = self.read_placed(CheckIn)
        return self.show(write_check(project=project, by=current_user(request), **body), 201)

    @extend_schema(request=CheckChange)
    def partial_update(self, request: Request, pk: str) -> Response:
        """Have a version check the tasks of an environment by default, or no more."""
        check = self.get_object()
        body = self.read_body(CheckChange)
        return self.show(set_default(check=check, environment=body["default_for"], by=current_user(request)))

    @extend_schema(request=None, responses={204: None})
    def destroy(self, request: Request, pk: str) -> Response:
        """Delete a version that nothing uses; 409 names what does."""
        remove_check(check=self.get_object(), by=current_user(request))
        return Response(status=204)

    @extend_schema(request=CheckTryIn, responses={200: CheckTriedOut})
    @action(detail=False, methods=["post"], url_path="try", serializer_class=CheckTriedOut)
    def try_spec(self, request: Request) -> Response:
        """What a check says of stored answers, or of given ones. Nothing is kept."""
        project, body = self.read_placed(CheckTryIn)
        tried = try_check(project=project, by=current_user(request), **body)
        examples = [
            {
                "attempt": one.attempt.pk if one.attempt else None,
                "task": one.attempt.task_id if one.attempt else None,
                "answer": one.answer[:SHOWN_CHARS],
                **one.result.to_json(),
            }
            for one in tried.examples
        ]
        return Response({"counts": dict(tried.counts), "examples": examples})
