"""Trained step scorers."""

from typing import ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.rights import Right
from apps.api.filters import filter_by
from apps.api.lookup import find_project_for, find_worker
from apps.api.permissions import by_right, current_user
from apps.api.serializers.learning import RunOut
from apps.api.serializers.scorers import RewardModelIn, RewardModelOut
from apps.api.views.base import ResourceViewSet, command
from apps.pipeline import trainings
from apps.scoring.models import RewardModel


class RewardModelViewSet(ResourceViewSet):
    """Trained step scorers: each version, what its gate measured, and why it scores or not."""

    queryset = RewardModel.objects.select_related("project", "worker")
    serializer_class = RewardModelOut
    filterset_class = filter_by(RewardModel, "state")
    rights: ClassVar = by_right({Right.RUNS_READ: "list retrieve", Right.RUNS_WRITE: "create retire"})

    @extend_schema(request=RewardModelIn, responses={201: RunOut})
    def create(self, request: Request) -> Response:
        """Train one now; the answer is the run. 409 while another is trained, or nothing is labelled."""
        body = self.read_body(RewardModelIn)
        project = find_project_for(request, body["project"], Right.RUNS_WRITE)
        run = trainings.train_scorer(
            worker=find_worker(project, body["worker"]), by=current_user(request), backend=body.get("backend")
        )
        return Response(RunOut(run, context=self.get_serializer_context()).data, status=201)

    @command()
    def retire(self, request: Request, pk: str) -> Response:
        """Take it out of use; steps are then judged as before there was one. 409 when it is not in use."""
        return self.show(trainings.retire_scorer(model=self.take_row(), by=current_user(request)))
