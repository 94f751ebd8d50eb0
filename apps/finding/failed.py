"""The list of work that failed after its last try."""

from collections.abc import Mapping
from datetime import datetime
from functools import reduce
from operator import or_
from typing import Any, ClassVar

import django_filters as filters
from django.db.models import Exists, Model, OuterRef, Q, QuerySet
from django.utils.translation import gettext_lazy as _

from apps.adapters.models import Adapter
from apps.base.word_index import MOST_TYPED
from apps.conversations.models import Turn
from apps.evals.models import Evaluation
from apps.feedback.models import RowImport
from apps.finding.lists import ListFilters, since_filter, until_filter
from apps.inference.models import Session
from apps.outbox.kinds import KINDS, SegmentKind
from apps.outbox.models import Segment
from apps.outbox.selectors import with_last_error, with_last_message
from apps.regrading.models import Regrading
from apps.scoring.models import RewardModel
from apps.supervision.models import Proposal
from apps.tasks.models import Task
from apps.training.models import TrainingRun
from apps.workers.models import Worker

OF_WORKERS: Mapping[SegmentKind, tuple[type[Model], *tuple[str, ...]]] = {
    SegmentKind.WORK: (Task, "worker__name"),
    SegmentKind.EPISODE: (Task, "worker__name"),
    SegmentKind.DECIDE: (Proposal, "task__worker__name"),
    SegmentKind.TRY: (Task, "worker__name"),
    SegmentKind.LEARN: (Task, "worker__name"),
    SegmentKind.TRAIN: (TrainingRun, "worker__name"),
    SegmentKind.ADOPT: (Adapter, "worker__name"),
    SegmentKind.MIRROR: (Task, "worker__name"),
    SegmentKind.LABEL: (Worker, "name"),
    SegmentKind.EVALUATE: (Evaluation, "worker__name"),
    SegmentKind.REGRADE: (Regrading, "worker__name", "evaluation__worker__name"),
    SegmentKind.ADOPT_SCORER: (RewardModel, "worker__name"),
    SegmentKind.META: (TrainingRun, "worker__name"),
    SegmentKind.CUT: (Session, "worker_name"),
    SegmentKind.HEAR: (Turn, "session__worker_name"),
    SegmentKind.IMPORT: (RowImport, "worker__name"),
}
"""Kind of work -> what it works on, and where that has its worker's name."""
OF_NO_WORKER = frozenset(
    {SegmentKind.PROBE, SegmentKind.ADOPT_MANAGER, SegmentKind.BULK, SegmentKind.UNBULK, SegmentKind.ADMIT}
)


class FailedFilters(ListFilters):
    """Which failed work."""

    FIRST = ("text", "worker")
    SORTS: ClassVar[Mapping[str, str]] = {"made": "pk", "failed": "finished_at", "tries": "attempts"}

    text = filters.CharFilter(method="that_say", label=_("In the reason"), max_length=MOST_TYPED)
    worker = filters.CharFilter(method="of_worker", label=_("Worker"), max_length=64)
    kind = filters.ChoiceFilter(choices=lambda: [(name, name) for name in sorted(KINDS)], label=_("Kind of work"))
    error = filters.CharFilter(method="that_ended_with", label=_("Type of its last error"), max_length=200)
    since = since_filter(label=_("Failed from"))
    until = until_filter(label=_("Failed until"))

    class Meta:
        model = Segment
        fields: ClassVar[list[str]] = []

    def that_say(self, queryset: QuerySet[Any], name: str, value: str) -> QuerySet[Any]:
        return with_last_message(queryset, value)

    def of_worker(self, queryset: QuerySet[Any], name: str, value: str) -> QuerySet[Any]:
        found = Q()
        for kind, (model, *names) in OF_WORKERS.items():
            subject = model._default_manager.filter(pk=OuterRef("subject_id"))
            of_worker = reduce(or_, (Q((path, value)) for path in names))
            found |= Q(Exists(subject.filter(of_worker)), kind=kind)
        return queryset.filter(found)

    def that_ended_with(self, queryset: QuerySet[Any], name: str, value: str) -> QuerySet[Any]:
        return with_last_error(queryset, value)

    def begin_at(self, queryset: QuerySet[Any], name: str, value: datetime) -> QuerySet[Any]:
        return queryset.filter(finished_at__gte=value)

    def end_before(self, queryset: QuerySet[Any], name: str, value: datetime) -> QuerySet[Any]:
        return queryset.filter(finished_at__lt=value)
