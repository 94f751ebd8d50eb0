"""Benchmarks: the catalogue, and what a project has of it."""

from typing import Any, ClassVar

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.api.filters import filter_by
from apps.api.lookup import find_worker
from apps.api.permissions import SIGNED_IN, by_right, current_user
from apps.api.serializers.benchmarks import (
    BenchmarkIn,
    BenchmarkOut,
    CatalogueOut,
    LeaderboardOut,
    PieceIn,
    PieceOut,
)
from apps.api.serializers.tasksets import DatasetOut
from apps.api.serializers.work import PACKED
from apps.api.views.base import ApiView, ResourceViewSet
from apps.base.errors import BadInputError
from apps.base.packed_rows import read_base64, unpack_rows
from apps.base.unpacking import is_packed
from apps.evals.benchmarks import install_benchmark, remove_taskset
from apps.evals.catalogue import list_entries
from apps.evals.leaderboards import find_leaderboard
from apps.evals.models import Benchmark, Taskset
from apps.evals.pieces import drop_pieces, keep_piece, read_pieces
from apps.evals.row_files import read_rows


class CatalogueView(ApiView):
    """The benchmarks that come along."""

    rights: ClassVar = {"get": SIGNED_IN}

    @extend_schema(responses=CatalogueOut, operation_id="catalogue_list")
    def get(self, request: Request) -> Response:
        """Every benchmark of the catalogue, with what it wants."""
        self.check_no_parameters()
        return Response(CatalogueOut({"results": list_entries()}).data)


def _install(project: Project, body: dict[str, Any], *, by: User) -> Benchmark:
    """What a `BenchmarkIn` asks for."""
    text, form = body.pop("text", None), body.pop("form", "jsonl")
    if text is not None:
        if form == PACKED:
            _, text = unpack_rows(read_base64(text, field="text"), field="text")
            form = "jsonl"
        body |= {"source": body.pop("origin", ""), "rows": read_rows(text, form=form)}
    pieces = body.pop("pieces", None)
    if pieces is not None:
        if text is not None:
            raise BadInputError.at("pieces", "wanted a text or pieces, found both")
        body |= {"source": body.get("origin", ""), "rows": read_pieces(project, pieces)}
    body.pop("origin", None)
    made = install_benchmark(project=project, by=by, **body)
    drop_pieces(project, pieces or ())
    return made


class BenchmarkViewSet(ResourceViewSet):
    """Benchmarks of projects; the run of one is an evaluation."""

    queryset = Benchmark.objects.select_related("project", "taskset")
    serializer_class = BenchmarkOut
    filterset_class = filter_by(Benchmark, "name", "entry")
    rights: ClassVar = by_right({Right.EVALS_READ: "list retrieve leaderboard", Right.EVALS_WRITE: "create pieces"})

    @extend_schema(request=BenchmarkIn, responses={201: BenchmarkOut})
    def create(self, request: Request) -> Response:
        """Install one of the catalogue: its items become a frozen taskset. The very same is there once."""
        project, body = self.read_placed(BenchmarkIn)
        return self.show(_install(project, body, by=current_user(request)), 201)

    @extend_schema(
        parameters=[OpenApiParameter("worker", str, description="Only of its line, by name.")],
        responses=LeaderboardOut,
        filters=False,
    )
    @action(detail=True, pagination_class=None, filterset_class=None, serializer_class=LeaderboardOut)
    def leaderboard(self, request: Request, pk: str) -> Response:
        """Its models by their newest runs, ranked as far as paired tests tell them apart: who is not told apart shares
        places, and who was not measured alike is not ranked."""
        self.extra_parameters = {"worker"}
        benchmark = self.get_object()
        name = request.query_params.get("worker", "")
        line = find_worker(benchmark.project, name) if name else None
        return Response(LeaderboardOut(find_leaderboard(benchmark, line=line)).data)

    @extend_schema(request=PieceIn, responses={201: PieceOut}, filters=False)
    @action(detail=False, methods=["post"], filterset_class=None, serializer_class=PieceOut)
    def pieces(self, request: Request) -> Response:
        """Send a piece of rows that are too many for one request: it waits until a benchmark asks for it."""
        project, body = self.read_placed(PieceIn)
        data = read_base64(body["packed"], field="packed")
        if not is_packed(data):
            raise BadInputError.at("packed", "wanted a Parquet file or a zip, found neither")
        return Response({"sha256": keep_piece(project=project, data=data, by=current_user(request))}, status=201)


class DatasetViewSet(ResourceViewSet):
    """Data sets of projects: tasksets, every version, each with the benchmark that asks its items."""

    queryset = Taskset.objects.select_related("project").prefetch_related("benchmarks")
    serializer_class = DatasetOut
    filterset_class = filter_by(Taskset, "name", "environment", "origin")
    rights: ClassVar = by_right({Right.EVALS_READ: "list retrieve", Right.EVALS_WRITE: "create destroy"})

    @extend_schema(request=BenchmarkIn, responses={201: DatasetOut})
    def create(self, request: Request) -> Response:
        """Register rows by a benchmark of the catalogue, as `POST benchmarks` does: the taskset that holds them. Items
        that no benchmark asks are put into one by `POST tasksets`."""
        project, body = self.read_placed(BenchmarkIn)
        made = _install(project, body, by=current_user(request))
        return self.show(self.get_queryset().get(pk=made.taskset_id), 201)

    @extend_schema(request=None, responses={204: None})
    def destroy(self, request: Request, pk: str) -> Response:
        """Delete a version with its items and the benchmarks on it; one that something was measured on is kept."""
        remove_taskset(taskset=self.get_object(), by=current_user(request))
        return Response(status=204)
