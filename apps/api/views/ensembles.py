"""Ensembles."""

from typing import ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.rights import Right
from apps.api.filters import filter_by
from apps.api.permissions import by_right, current_user
from apps.api.serializers.ensembles import EnsembleChange, EnsembleIn, EnsembleOut
from apps.api.views.base import ResourceViewSet
from apps.workers.ensembles import change_ensemble, create_ensemble, delete_ensemble
from apps.workers.models import Ensemble


class EnsembleViewSet(ResourceViewSet):
    """Workers that the gateway asks together, at `ensemble/NAME`."""

    queryset = Ensemble.objects.select_related("project")
    serializer_class = EnsembleOut
    filterset_class = filter_by(Ensemble, "name")
    rights: ClassVar = by_right(
        {Right.WORKERS_READ: "list retrieve", Right.WORKERS_WRITE: "create partial_update destroy"}
    )

    @extend_schema(request=EnsembleIn, responses={201: EnsembleOut})
    def create(self, request: Request) -> Response:
        """Have workers of a project asked together."""
        project, body = self.read_placed(EnsembleIn)
        return self.show(create_ensemble(project=project, by=current_user(request), **body), 201)

    @extend_schema(request=EnsembleChange)
    def partial_update(self, request: Request, pk: str) -> Response:
        body = self.read_body(EnsembleChange)
        return self.show(change_ensemble(ensemble=self.get_object(), by=current_user(request), **body))

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, pk: str) -> Response:
        """Have them asked together no more; its members and what they answered stay."""
        delete_ensemble(ensemble=self.get_object(), by=current_user(request))
        return Response(status=204)
