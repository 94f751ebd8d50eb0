"""What managers learnt from audits."""

from typing import ClassVar

from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.rights import Right
from apps.api.downloads import send_adapter
from apps.api.filters import filter_by
from apps.api.permissions import by_right, current_user
from apps.api.serializers.judgement import ReasonIn
from apps.api.serializers.managers import ManagerRunOut
from apps.api.views.base import ResourceViewSet, command
from apps.training import managers, verdict_managers
from apps.training.models import ManagerRun


class ManagerRunViewSet(ResourceViewSet):
    """Managers' own learning: each fit, used or refused, and why."""

    queryset = ManagerRun.objects.select_related("project")
    serializer_class = ManagerRunOut
    filterset_class = filter_by(ManagerRun, "state", "kind", "manager")
    rights: ClassVar = by_right(
        {Right.RUNS_READ: "list retrieve", Right.ADAPTERS_READ: "download", Right.RUNS_WRITE: "rollback"}
    )
    extra_problems: ClassVar = {"download": (409, 422)}

    @extend_schema(responses={(200, "application/zip"): OpenApiTypes.BINARY})
    @action(detail=True)
    def download(self, request: Request, pk: str) -> StreamingHttpResponse | Response:
        """A manager's own adapter as a zip, checked against its hashes. 409 where the fit has none."""
        found = verdict_managers.find_weights(self.get_object())
        return send_adapter(request, name=found.name, uri=found.uri, sha256=found.sha256)

    @command(request=ReasonIn)
    def rollback(self, request: Request, pk: str) -> Response:
        """Let the manager judge by what was before this fit again. 409 when the fit is not in use."""
        run = self.get_object()
        body = self.read_body(ReasonIn)
        return self.show(managers.roll_back_manager(run=run, by=current_user(request), reason=body["reason"]))
