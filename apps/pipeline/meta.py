"""The outer loop's part of the data's way: after an adapter was judged, the managers learn too (`meta`).

A chain of its own: whatever becomes of it, the worker's next training does not wait.
"""

from django.conf import settings

from apps.accounts.models import Project
from apps.adapters.models import Adapter
from apps.outbox import services as outbox
from apps.outbox.kinds import SegmentKind
from apps.training.models import TrainingRun


def learn_managers(adapter: Adapter) -> None:
    """Start the managers' learning after a training, in the running transaction, where that is switched on."""
    if settings.TENTALIS["META_RL_ENABLED"] and adapter.run_id:
        outbox.start(SegmentKind.META, subject_id=adapter.run_id, project_id=adapter.project_id)


def learn_again(project: Project) -> None:
    """Start the managers' learning where a fit of theirs was barred, in the running transaction."""
    run = TrainingRun.objects.filter(project=project).order_by("-pk").first()
    if settings.TENTALIS["META_RL_ENABLED"] and run is not None:
        outbox.start(SegmentKind.META, subject_id=run.pk, project_id=project.pk)
