"""What every REST view shares: strict bodies, rights by action, problems, and acting once under a key."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpResponse, HttpResponseBase
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.authentication import SessionAuthentication
from rest_framework.decorators import action
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView
from rest_framework.viewsets import GenericViewSet

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.api.authentication import TokenAuthentication
from apps.api.etags import ChangedMeanwhileError, is_among, make_etag
from apps.api.filters import StrictFilterBackend, check_parameters
from apps.api.idempotency import answer_once, read_key
from apps.api.lookup import find_project_for
from apps.api.negotiation import OneRepresentation
from apps.api.pagination import CursorPagination
from apps.api.parsers import StrictJSONParser
from apps.api.permissions import HasScope, projects_with, right_of, visible_projects
from apps.api.schema import ApiSchema
from apps.api.serializers.strict import NoFields
from apps.api.throttles import CallerThrottle

METHODS = ["get", "head", "post", "put", "patch", "delete"]
CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class ApiView(APIView):
    """One path.

    Attributes:
        rights: action (or method, in lower case) -> the right it takes, PUBLIC or SIGNED_IN; none: refused.
        takes_proof: actions (or methods) that take a fresh proof of a person; see `require_proof`.
        secret_fields: names in an answer that are shown once: a replay says null.
        extra_problems: action (or method) -> statuses it may answer with beyond what all of its kind do.
    """

    rights: ClassVar[Mapping[str, Right | str]] = {}
    takes_proof: ClassVar[frozenset[str]] = frozenset()
    secret_fields: ClassVar[frozenset[str]] = frozenset()
    extra_problems: ClassVar[Mapping[str, Sequence[int]]] = {}
    authentication_classes = [TokenAuthentication, SessionAuthentication]
    permission_classes: Any = [HasScope]
    parser_classes = [StrictJSONParser]
    throttle_classes: Any = [CallerThrottle]
    renderer_classes = [JSONRenderer]
    content_negotiation_class = OneRepresentation
    http_method_names = METHODS
    schema = ApiSchema()

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        name = (request.method or "").lower()
        key = read_key(request) if request.method in CHANGING else None
        if key is not None and hasattr(self, name) and isinstance(request.user, User):
            setattr(self, name, self._once(request.user, key, getattr(self, name)))

    def _once(self, user: User, key: str, handler: Callable[..., HttpResponse]) -> Callable[..., HttpResponseBase]:
        def handle(request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
            return answer_once(request, user, key, lambda: handler(request, *args, **kwargs), self.secret_fields)

        return handle

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        """As usual; where the caller has this very answer already, 304 says so."""
        etag = response.headers.get("ETag") if request.method == "GET" and response.status_code == 200 else None
        if etag and is_among(etag, request.headers.get("If-None-Match")):
            response = Response(status=304, headers={"ETag": etag})
        return super().finalize_response(request, response, *args, **kwargs)

    def read_body(self, serializer_class: type[serializers.Serializer[Any]]) -> dict[str, Any]:
        """The checked body. Raises ValidationError naming each wrong field."""
        serializer = serializer_class(data=self.request.data, context={"request": self.request})
        serializer.is_valid(raise_exception=True)
        return dict(serializer.validated_data)

    def check_no_parameters(self, *known: str) -> None:
        check_parameters(self.request, set(known))


def command(request: type[serializers.Serializer[Any]] = NoFields, **schema: Any) -> Callable[[Any], Any]:
    """A POST about one row; `schema` is what the OpenAPI schema says of it."""

    def decorate(method: Any) -> Any:
        return extend_schema(request=request, **schema)(action(detail=True, methods=["post"])(method))

    return decorate


class ListViewSet(ApiView, GenericViewSet[Any]):
    """Rows that belong to projects, listed: `queryset` is narrowed to what the caller may see.

    A list leaves out projects where the role lacks the right; one row of a visible project is refused by name instead.
    """

    filter_backends = [StrictFilterBackend]
    pagination_class = CursorPagination
    lookup_value_regex = r"[0-9]{1,18}"
    project_path: ClassVar[str] = "project"
    oldest_first = False

    def get_queryset(self) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset()
        if getattr(self, "swagger_fake_view", False):
            return rows.none()
        right = right_of(self, self.request.method or "")
        projects = visible_projects(self.request) if self.detail else projects_with(self.request, Right(right or ""))
        return rows.filter(**{f"{self.project_path}__in": projects})

    def show(self, row: Any, status: int = 200) -> Response:
        """One row as this resource shows it, with its tag."""
        serializer: Any = self.get_serializer(row)
        return Response(serializer.data, status=status, headers={"ETag": make_etag(serializer.data)})

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        if request.method == "PATCH" and "If-Match" in request.headers and self.action == "partial_update":
            handler: Callable[..., HttpResponse] = getattr(self, "patch")  # noqa: B009 - the router made it
            setattr(self, "patch", self._if_unchanged(handler))  # noqa: B010
        super().initial(request, *args, **kwargs)

    def _if_unchanged(self, handler: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
        """Let the handler change the row only while it is what the caller saw; nobody else changes it meanwhile."""

        def handle(request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
            with transaction.atomic():
                row = self.get_object()
                type(row)._default_manager.select_for_update(no_key=True).get(pk=row.pk)
                row = self.get_object()
                found = make_etag(self.get_serializer(row).data)
                if not is_among(found, request.headers["If-Match"]):
                    raise ChangedMeanwhileError(f"this was changed since you saw it: its tag is {found} now")
                return handler(request, *args, **kwargs)

        return handle

    def take_row(self) -> Any:
        """The row a request without fields is about."""
        row = self.get_object()
        self.read_body(NoFields)
        return row

    def read_placed(self, serializer_class: type[serializers.Serializer[Any]]) -> tuple[Project, dict[str, Any]]:
        """The project that the body names, where the caller holds the right that this takes, and what else it says."""
        body = self.read_body(serializer_class)
        right = Right(right_of(self, self.request.method or "") or "")
        return find_project_for(self.request, body.pop("project"), right), body

    def list(self, request: Request) -> Response:
        return self.show_page(self.filter_queryset(self.get_queryset()))

    def show_page(self, rows: QuerySet[Any], serializer_class: Any = None) -> Response:
        page = self.paginate_queryset(rows)
        make: Any = serializer_class or self.get_serializer_class()
        return self.get_paginated_response(make(page, many=True, context=self.get_serializer_context()).data)


class ResourceViewSet(ListViewSet):
    """A resource whose rows are listed, and shown one by one."""

    def retrieve(self, request: Request, *args: Any, **lookup: Any) -> Response:
        return self.show(self.get_object())
