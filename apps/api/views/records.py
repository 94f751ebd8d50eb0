"""The audit, metrics, dead letters."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, ClassVar, cast

from django.db.models import Q, QuerySet
from django.http import StreamingHttpResponse
from django_filters import rest_framework as filters
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.api.filters import ProjectFilterSet
from apps.api.lookup import find_project, find_project_for, find_worker
from apps.api.pagination import CursorPagination, read_cursor, read_limit, write_cursor
from apps.api.permissions import by_right, current_token, current_user, projects_with, visible_projects
from apps.api.serializers.records import (
    AuditEntryOut,
    ChainOut,
    CurveOut,
    DeadLetterOut,
    QueuesOut,
    ReplayedOut,
    ReplayIn,
)
from apps.api.serializers.returns import ReturnsOut
from apps.api.views.base import ApiView, ListViewSet, ResourceViewSet, command
from apps.audit.chain import entry_content
from apps.audit.kinds import Kind
from apps.audit.last_report import LAST_REPORT
from apps.audit.models import AuditEntry, AuditEntryQuerySet, AuditSeal, ChainPlace
from apps.base.streaming import stream
from apps.finding.failed import FailedFilters
from apps.outbox.models import Segment
from apps.pipeline import dead_letters
from apps.reports.learning_curve import list_measurements
from apps.reports.queues import find_queue_depths
from apps.training.cost_benefit import find_returns
from apps.workers.models import Worker
from tentalis.core.canon import canonical_json

PAGE = 1000
ASK_AN_ADMIN = "entries were changed or are missing: an admin of the installation is told which"
NAMED_WORKER = [OpenApiParameter("project", str, required=True), OpenApiParameter("worker", str, required=True)]


class CommitOrderPagination(CursorPagination):
    """Entries in the order of their transactions, oldest first: a later page never lacks what committed late."""

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any]:
        self.limit = read_limit(request.query_params.get("limit"))
        page = list(after_entry(queryset, _read_start(request))[: self.limit + 1])
        if len(page) > self.limit:
            page.pop()
            self.next_cursor = write_cursor(page[-1].pk)
        return page

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        schema = {"type": "integer", "minimum": 0}
        after = {
            "name": "after",
            "in": "query",
            "required": False,
            "schema": schema,
            "description": "Entries after this id.",
        }
        return [*super().get_schema_operation_parameters(view), after]


def _read_start(request: Request) -> int | None:
    if cursor := request.query_params.get("cursor"):
        return read_cursor(cursor)
    text = request.query_params.get("after")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise ValidationError({"after": [f"wanted the id of an entry, found {text[:40]!r}"]})
    return int(text)


def after_entry(entries: AuditEntryQuerySet, last: int | None) -> AuditEntryQuerySet:
    """Committed entries behind one, in the order of their transactions."""
    rows = entries.settled().in_commit_order()
    if not last:
        return rows
    place = AuditEntry.objects.filter(pk=last).values_list("epoch", "xid", "pk").first()
    if place is None:
        raise ValidationError({"after": [f"no entry {last}"]})
    return rows.behind(ChainPlace(*place))


class AuditFilterSet(filters.FilterSet):  # type: ignore[misc]
    project = filters.CharFilter(method="in_project", label="Slug of a project.")
    kind = filters.ChoiceFilter(choices=Kind.choices)
    subject_type = filters.CharFilter()
    subject_id = filters.NumberFilter()
    actor = filters.CharFilter()

    class Meta:
        model = AuditEntry
        fields: ClassVar[list[str]] = []

    def in_project(self, queryset: QuerySet[Any], name: str, value: str) -> QuerySet[Any]:
        return queryset.filter(project_id=find_project(self.request, value).pk)


class AuditViewSet(ListViewSet):
    """What happened, oldest first."""

    queryset = AuditEntry.objects.all()
    serializer_class = AuditEntryOut
    filterset_class = AuditFilterSet
    pagination_class = CommitOrderPagination
    extra_parameters: ClassVar = {"after"}
    rights: ClassVar = by_right({Right.AUDIT_READ: "list verify export"})

    def get_queryset(self) -> QuerySet[Any]:
        rows = AuditEntry.objects.all()
        if getattr(self, "swagger_fake_view", False):
            return rows.none()
        readable = Q(project_id__in=projects_with(self.request, Right.AUDIT_READ).values("pk"))
        token = self.request.auth
        if current_user(self.request).is_superuser and getattr(token, "project_id", None) is None:
            readable |= Q(project_id__isnull=True)
        return rows.filter(readable)

    @extend_schema(responses=ChainOut, filters=False)
    @action(detail=False, pagination_class=None, filterset_class=None)
    def verify(self, request: Request) -> Response:
        """Whether the hash chain over every entry of the installation holds: recomputed when it was asked for last long
        enough ago. How many entries there are, and which are at fault, is told to admins of the installation."""
        self.check_no_parameters()
        report = asdict(found := LAST_REPORT.find()) | {"is_clean": found.is_clean}
        token = current_token(request)
        if not current_user(request).is_superuser or (token is not None and token.project_id):
            report |= {"sealed": None, "unsealed": None, "faults": [] if report["is_clean"] else [ASK_AN_ADMIN]}
        return Response(ChainOut(report).data)

    @extend_schema(responses={(200, "application/x-ndjson"): OpenApiResponse(OpenApiTypes.BINARY, "One entry a line.")})
    @action(detail=False, pagination_class=None)
    def export(self, request: Request) -> StreamingHttpResponse:
        """The entries that the filters leave, one JSON line each, with their place in the chain and its hashes."""
        rows = cast(AuditEntryQuerySet, self.filter_queryset(self.get_queryset()))
        start = _read_start(request)
        after_entry(rows, start)
        return stream(
            request._request, _audit_lines(rows, start), media_type="application/x-ndjson", filename="audit.jsonl"
        )


def _audit_lines(rows: AuditEntryQuerySet, last: int | None) -> Iterator[bytes]:
    while page := list(after_entry(rows, last)[:PAGE]):
        seals = {seal.entry_id: seal for seal in AuditSeal.objects.filter(entry_id__in=[entry.pk for entry in page])}
        for entry in page:
            seal = seals.get(entry.pk)
            place = {"seq": seal.seq, "previous_hash": seal.previous_hash, "hash": seal.hash} if seal else None
            yield canonical_json({**entry_content(entry), "seal": place}) + b"\n"
        last = page[-1].pk


class LearningView(ApiView):
    """How workers learn."""

    rights: ClassVar = {"get": Right.METRICS_READ}

    @extend_schema(
        parameters=NAMED_WORKER,
        responses=CurveOut,
        operation_id="metrics_learning",
    )
    def get(self, request: Request) -> Response:
        """A worker's learning curve: each of its models on held-out tasks."""
        worker = find_named_worker(self, request)
        return Response(
            CurveOut({"project": worker.project.slug, "worker": worker.name, "points": list_measurements(worker)}).data
        )


class GainView(ApiView):
    """What learning cost, and what it brought."""

    rights: ClassVar = {"get": Right.METRICS_READ}

    @extend_schema(parameters=NAMED_WORKER, responses=ReturnsOut, operation_id="metrics_gain")
    def get(self, request: Request) -> Response:
        """Each training of a worker: what was spent beside what the gate measured; and the whole line."""
        return Response(ReturnsOut(find_returns(find_named_worker(self, request))).data)


def find_named_worker(view: ApiView, request: Request) -> Worker:
    """The worker that `?project=&worker=` names; where it learns with another, that one, whose line it is.

    Raises:
        ValidationError: one of them is missing.
    """
    view.check_no_parameters("project", "worker")
    names = {name: request.query_params.get(name, "") for name in ("project", "worker")}
    if missing := [name for name, value in names.items() if not value]:
        raise ValidationError({name: ["wanted a name, found none"] for name in missing})
    return find_worker(find_project_for(request, names["project"], Right.METRICS_READ), names["worker"]).line


class QueuesView(ApiView):
    """What waits."""

    rights: ClassVar = {"get": Right.METRICS_READ}

    @extend_schema(parameters=[OpenApiParameter("project", str)], responses=QueuesOut, operation_id="metrics_queues")
    def get(self, request: Request) -> Response:
        """Work waiting, in flight and dead, by queue."""
        self.check_no_parameters("project")
        slug = request.query_params.get("project")
        if slug is not None:
            projects = [find_project_for(request, slug, Right.METRICS_READ)]
        else:
            projects = list(projects_with(request, Right.METRICS_READ))
        return Response(QueuesOut({"queues": find_queue_depths(projects)}).data)


class DeadLetterFilterSet(FailedFilters, ProjectFilterSet):
    class Meta:
        model = Segment
        fields: ClassVar = ["subject_id"]

    def in_project(self, queryset: QuerySet[Any], name: str, value: str) -> QuerySet[Any]:
        return queryset.filter(project_id=find_project(self.request, value).pk)


class DeadLetterViewSet(ResourceViewSet):
    """Work that was given up, with its reasons."""

    queryset = Segment.objects.filter(state=Segment.State.DEAD)
    serializer_class = DeadLetterOut
    filterset_class = DeadLetterFilterSet
    project_path = "project_id"
    rights: ClassVar = by_right({Right.METRICS_READ: "list retrieve", Right.PIPELINE_WRITE: "replay replay_all"})

    def get_serializer_context(self) -> dict[str, Any]:
        slugs = {} if getattr(self, "swagger_fake_view", False) else self._slugs()
        return {**super().get_serializer_context(), "slugs": slugs}

    def _slugs(self) -> dict[int, str]:
        return dict(visible_projects(self.request).values_list("pk", "slug"))

    def check_object_permissions(self, request: Request, obj: Any) -> None:
        project = visible_projects(request).get(pk=obj.project_id)
        require_right(current_user(request), project, Right(self.rights[self.action]))

    @command()
    def replay(self, request: Request, pk: str) -> Response:
        """Take up a dead letter at the link it died at."""
        return self.show(dead_letters.replay(segment=self.take_row(), by=current_user(request)))

    @extend_schema(request=ReplayIn, responses=ReplayedOut, operation_id="dead_letters_replay_all")
    @action(detail=False, methods=["post"], url_path="replay")
    def replay_all(self, request: Request) -> Response:
        """Take up a project's dead letters, the oldest first, a thousand at most."""
        project, body = self.read_placed(ReplayIn)
        found = dead_letters.replay_all(project=project, by=current_user(request), filters=body)
        return Response(ReplayedOut(found._asdict()).data)
