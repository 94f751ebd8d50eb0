"""Judges are probed again every month, where they are used; where a project demands probes, the first one too."""

from collections.abc import Iterable
from datetime import timedelta

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from apps.accounts.models import Project
from apps.base.errors import ConflictError
from apps.feedback.judges import find_named_judges
from apps.inference.models import Exchange
from apps.judges.models import JudgeProbe
from apps.judges.selectors import DEMANDS_PROBES, SAID, find_newest
from apps.judges.services import open_probe
from apps.outbox import services as outbox
from apps.outbox.kinds import SegmentKind

BY = "timetable"
EVERY = timedelta(days=30)
"""A judge is probed again when its newest probe is older and it was asked meanwhile."""
AGAIN = timedelta(days=1)
"""A judge that must be probed to be used, and could not be, is probed again after that."""
ASKED_AS = ("judge", "manager")


def probe_judges() -> int:
    """Begin the probes that are due. Returns how many."""
    due = [*_find_old(), *_find_demanded()]
    return sum(_begin(row) for row in due)


def _find_old() -> Iterable[JudgeProbe]:
    since = timezone.now() - EVERY
    for row in find_newest(JudgeProbe.objects.filter(project__archived_at=None)):
        asked = Exchange.objects.filter(
            project=row.project_id, created_at__gt=since, turn__in=ASKED_AS, provider=row.provider_id, model=row.model
        )
        if row.created_at <= since and asked.exists():
            yield JudgeProbe(project_id=row.project_id, provider_id=row.provider_id, model=row.model)


def _find_demanded() -> Iterable[JudgeProbe]:
    since = timezone.now() - AGAIN
    demanding = {f"review_policy__{DEMANDS_PROBES}": True}
    for project in Project.objects.filter(archived_at=None, learning_enabled=True, **demanding):
        for provider, model in find_named_judges(project):
            known = JudgeProbe.objects.filter(project=project, provider=provider, model=model)
            if not known.filter(Q(verdict__in=SAID) | Q(created_at__gt=since)).exists():
                yield JudgeProbe(project=project, provider=provider, model=model)


def _begin(row: JudgeProbe) -> bool:
    try:
        with transaction.atomic():
            made = open_probe(row, by=BY)
            outbox.start(SegmentKind.PROBE, subject_id=made.pk, project_id=made.project_id)
    except ConflictError:  # it is being probed
        return False
    return True
