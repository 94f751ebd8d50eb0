"""Probes of judges."""

from typing import ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.rights import Right
from apps.api.filters import filter_by
from apps.api.permissions import by_right, current_user
from apps.api.serializers.judges import JudgeProbeIn, JudgeProbeOut
from apps.api.views.base import ResourceViewSet
from apps.judges.models import JudgeProbe
from apps.pipeline import flow


class JudgeProbeViewSet(ResourceViewSet):
    """Whether models that judge are fair, and as they were: one below its bar trains nothing."""

    queryset = JudgeProbe.objects.select_related("project", "provider").defer("answers")
    serializer_class = JudgeProbeOut
    filterset_class = filter_by(JudgeProbe, "model", "state", "verdict")
    rights: ClassVar = by_right({Right.EVALS_READ: "list retrieve", Right.EVALS_WRITE: "create"})

    @extend_schema(request=JudgeProbeIn, responses={201: JudgeProbeOut})
    def create(self, request: Request) -> Response:
        """Probe a judge: some 480 questions with known answers, which cost as any judge's do."""
        project, body = self.read_placed(JudgeProbeIn)
        return self.show(flow.ask_probe(project=project, by=current_user(request), model=body.get("model", "")), 201)
