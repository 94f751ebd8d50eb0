"""The list of work that failed after its last try."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

import django_filters as filters
from django.db.models import Model, Q, QuerySet
from django.utils.translation import gettext_lazy as _

from apps.adapters.models import Adapter
from apps.base.word_index import MOST_TYPED
from apps.finding.lists import ListFilters, since_filter, until_filter
from apps.outbox.kinds import KINDS
from apps.outbox.models import Segment
from apps.outbox.selectors import with_last_error, with_last_message
from apps.tasks.models import Task
from apps.training.models import TrainingRun

SUBJECTS: Mapping[str, type[Model]] = {"work": Task, "learn": Task, "train": TrainingRun, "adopt": Adapter}
"""Kind of work -> what it works on, where that is of a worker."""


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
        for kind, model in SUBJECTS.items():
            subjects = model._default_manager.filter(worker__name=value).values("pk")
            found |= Q(kind=kind, subject_id__in=subjects)
        return queryset.filter(found)

    def that_ended_with(self, queryset: QuerySet[Any], name: str, value: str) -> QuerySet[Any]:
        return with_last_error(queryset, value)

    def begin_at(self, queryset: QuerySet[Any], name: str, value: datetime) -> QuerySet[Any]:
        return queryset.filter(finished_at__gte=value)

    def end_before(self, queryset: QuerySet[Any], name: str, value: datetime) -> QuerySet[Any]:
        return queryset.filter(finished_at__lt=value)
