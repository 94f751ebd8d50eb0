"""Benchmarks: the catalogue, and what a project has of it."""

from typing import ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.rights import Right
from apps.api.filters import filter_by
from apps.api.permissions import SIGNED_IN, by_right, current_user
from apps.api.serializers.benchmarks import BenchmarkIn, BenchmarkOut, CatalogueOut
from apps.api.serializers.work import PACKED
from apps.api.views.base import ApiView, ResourceViewSet
from apps.base.packed_rows import read_base64, unpack_rows
from apps.evals.benchmarks import install_benchmark
from apps.evals.catalogue import list_entries
from apps.evals.models import Benchmark
from apps.evals.row_files import read_rows


class CatalogueView(ApiView):
    """The benchmarks that come along."""

    rights: ClassVar = {"get": SIGNED_IN}

    @extend_schema(responses=CatalogueOut, operation_id="catalogue_list")
    def get(self, request: Request) -> Response:
        """Every benchmark of the catalogue, with what it wants."""
        self.check_no_parameters()
        return Response(CatalogueOut({"results": list_entries()}).data)


class BenchmarkViewSet(ResourceViewSet):
    """Benchmarks of projects; the run of one is an evaluation."""

    queryset = Benchmark.objects.select_related("project", "taskset")
    serializer_class = BenchmarkOut
    filterset_class = filter_by(Benchmark, "name", "entry")
    rights: ClassVar = by_right({Right.EVALS_READ: "list retrieve", Right.EVALS_WRITE: "create"})

    @extend_schema(request=BenchmarkIn, responses={201: BenchmarkOut})
    def create(self, request: Request) -> Response:
        """Install one of the catalogue: its items become a frozen taskset. The very same is there once."""
        project, body = self.read_placed(BenchmarkIn)
        text, form = body.pop("text", None), body.pop("form", "jsonl")
        if text is not None:
            if form == PACKED:
                _, text = unpack_rows(read_base64(text, field="text"), field="text")
                form = "jsonl"
            body |= {"source": body.pop("origin", ""), "rows": read_rows(text, form=form)}
        body.pop("origin", None)
        return self.show(install_benchmark(project=project, by=current_user(request), **body), 201)
