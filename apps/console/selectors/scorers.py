"""Trained step scorers, as the quality page shows them."""

from collections.abc import Sequence

from apps.accounts.models import Project
from apps.scoring.models import RewardModel

LATEST = 20


def find_scorers(project: Project) -> Sequence[RewardModel]:
    """The project's newest trained step scorers, with their workers."""
    return list(RewardModel.objects.filter(project=project).select_related("worker")[:LATEST])
