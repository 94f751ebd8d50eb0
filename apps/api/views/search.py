"""One search over everything of a project."""

from typing import Any, ClassVar

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.rights import Right
from apps.accounts.services import find_rights
from apps.api.lookup import find_project_for
from apps.api.permissions import current_token, current_user
from apps.api.views.base import ApiView
from apps.base.word_index import MOST_TYPED
from apps.finding.search import search


class HitOut(serializers.Serializer[Any]):
    """Something that was found."""

    kind = serializers.CharField(help_text="task, review, feedback, session, exchange, worker, adapter, run, person…")
    id = serializers.IntegerField(source="pk")
    name = serializers.CharField(help_text="As lists call it.")
    text = serializers.CharField(help_text="Where the words stand in it, or what it is about.")
    at = serializers.DateTimeField(allow_null=True)


class GroupOut(serializers.Serializer[Any]):
    """What was found of one kind, the newest first."""

    kind = serializers.CharField(help_text="As of a hit; `number`: what has the number that was asked for.")
    hits = HitOut(many=True)
    is_more = serializers.BooleanField(help_text="There is more than is told; ask that kind's own list.")
    trouble = serializers.CharField(help_text="Why it could not be looked for; empty: it was.")


class FoundOut(serializers.Serializer[Any]):
    """What a search came to."""

    jump = HitOut(allow_null=True, help_text="The one thing that was meant, by its number, id or hash.")
    results = GroupOut(source="groups", many=True)


class SearchView(ApiView):
    """One search over everything of a project."""

    rights: ClassVar = {"get": Right.TASKS_READ}

    @extend_schema(
        parameters=[
            OpenApiParameter("project", str, required=True),
            OpenApiParameter(
                "q", str, required=True, description=f"Words, a number, a hash or an id, 1 to {MOST_TYPED} characters."
            ),
        ],
        responses=FoundOut,
        operation_id="search",
    )
    def get(self, request: Request) -> Response:
        """What of a project holds all words of a text, or has its number: of each kind that you may read the newest."""
        self.check_no_parameters("project", "q")
        asked = {name: request.query_params.get(name, "") for name in ("project", "q")}
        if missing := [name for name, value in asked.items() if not value]:
            raise ValidationError({name: ["wanted a text, found none"] for name in missing})
        project, user = find_project_for(request, asked["project"], Right.TASKS_READ), current_user(request)
        rights, token = find_rights(user, project), current_token(request)
        if token is not None:
            rights = frozenset(right for right in rights if right.value in token.scopes)
        return Response(FoundOut(search(project=project, user=user, text=asked["q"], rights=rights)).data)
