"""What models cost, and what was paid."""

from datetime import timedelta
from typing import Any, ClassVar

from django.db.models import Q, QuerySet
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.rights import Right
from apps.api.filters import RowFilterSet, filter_by, filter_by_provider
from apps.api.lookup import find_project_for
from apps.api.permissions import by_right, current_user, visible_projects
from apps.api.serializers.prices import BillOut, PriceIn, PriceOut
from apps.api.views.base import ApiView, ResourceViewSet
from apps.base.errors import NotFoundError
from apps.inference.costs import cost_of_project
from apps.inference.grants import usable
from apps.inference.models import Price, Provider
from apps.inference.prices import remove_price, set_price

MAX_BILLED_DAYS = 3660


class PriceViewSet(ResourceViewSet):
    """Prices that people set; the product's own stand behind them."""

    queryset = Price.objects.select_related("provider__project")
    serializer_class = PriceOut
    filterset_class = filter_by(Price, "kind", "model", base=RowFilterSet, provider=filter_by_provider())
    rights: ClassVar = by_right({Right.WORKERS_READ: "list retrieve", Right.WORKERS_WRITE: "create destroy"})

    def get_queryset(self) -> QuerySet[Any]:
        if getattr(self, "swagger_fake_view", False):
            return Price.objects.none()
        return Price.objects.select_related("provider__project").filter(
            Q(provider__isnull=True) | Q(provider__in=_list_seen(self.request))
        )

    @extend_schema(request=PriceIn, responses={201: PriceOut})
    def create(self, request: Request) -> Response:
        """Say what a model costs from a moment on."""
        body = self.read_body(PriceIn)
        provider_id = body.pop("provider", None)
        provider = None
        if provider_id is not None:
            provider = _list_seen(request).select_related("project").filter(pk=provider_id).first()
            if provider is None:
                raise NotFoundError.at("provider", "no such model server here, or none that you may see")
        return self.show(set_price(by=current_user(request), provider=provider, **body), 201)

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, pk: str) -> Response:
        """Take a price back; what was counted by it stays."""
        remove_price(price=self.get_object(), by=current_user(request))
        return Response(status=204)


def _list_seen(request: Request) -> QuerySet[Provider]:
    """The model servers whose prices the caller may know."""
    if current_user(request).is_superuser:
        return Provider.objects.filter(Q(project__in=visible_projects(request)) | Q(project__isnull=True))
    return Provider.objects.filter(usable(visible_projects(request)))


class CostView(ApiView):
    """What a project paid for models."""

    rights: ClassVar = {"get": Right.METRICS_READ}

    @extend_schema(
        operation_id="metrics_cost_retrieve",
        responses=BillOut,
        parameters=[
            OpenApiParameter("project", OpenApiTypes.STR, required=True, description="Slug of a project."),
            OpenApiParameter(
                "days",
                {"type": "integer", "minimum": 1, "maximum": MAX_BILLED_DAYS, "default": 30},
                description="How far back.",
            ),
        ],
    )
    def get(self, request: Request) -> Response:
        """The last days' cost by purpose and model: the agents' work, judges, AI managers, hints."""
        self.check_no_parameters("project", "days")
        project = find_project_for(request, request.query_params.get("project", ""), Right.METRICS_READ)
        since = timezone.now() - timedelta(days=_read_days(request.query_params.get("days", "30")))
        return Response(BillOut(cost_of_project(project, since=since)).data)


def _read_days(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 4 and 1 <= int(text) <= MAX_BILLED_DAYS):
        raise ValidationError({"days": [f"wanted a whole number from 1 to {MAX_BILLED_DAYS}, found {text[:40]!r}"]})
    return int(text)
