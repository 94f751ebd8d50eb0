"""The list of tasks."""

from collections.abc import Mapping
from typing import Any, ClassVar

import django_filters as filters
from django.db.models import Exists, OuterRef, QuerySet
from django.utils.translation import gettext_lazy as _

from apps.feedback.models import Feedback
from apps.finding.lists import NO, YES, ListFilters, least_filter, since_filter, text_filter, until_filter
from apps.tasks.models import Attempt, Task
from apps.tasks.selectors import find_by_words
from apps.worlds.registry import name_choices


class TaskFilters(ListFilters):
    """Which tasks."""

    FIRST = ("text", "worker")
    SORTS: ClassVar[Mapping[str, str]] = {"submitted": "pk", "score": "score"}

    text = text_filter(label=_("Words"))
    state = filters.ChoiceFilter(choices=Task.State.choices, label=_("State"))
    worker = filters.CharFilter(field_name="worker__name", label=_("Worker"), max_length=64)
    environment = filters.ChoiceFilter(choices=name_choices, label=_("Environment"))
    min_score = least_filter(field_name="score", lookup_expr="gte", label=_("Score from"), method="from_score")
    max_score = least_filter(field_name="score", lookup_expr="lte", label=_("Score to"), method="to_score")
    verified = filters.ChoiceFilter(
        choices=[(YES, _("Yes")), (NO, _("No"))], method="that_are_verified", label=_("Verified")
    )
    reviewer = filters.CharFilter(method="judged_by", label=_("Judged by"), max_length=120)
    since = since_filter()
    until = until_filter()

    class Meta:
        model = Task
        fields: ClassVar[list[str]] = []

    def that_say(self, queryset: QuerySet[Any], name: str, value: str) -> QuerySet[Any]:
        return find_by_words(queryset, value)

    def from_score(self, queryset: QuerySet[Any], name: str, value: Any) -> QuerySet[Any]:
        return queryset.filter(score__gte=float(value))

    def to_score(self, queryset: QuerySet[Any], name: str, value: Any) -> QuerySet[Any]:
        return queryset.filter(score__lte=float(value))

    def that_are_verified(self, queryset: QuerySet[Any], name: str, value: str) -> QuerySet[Any]:
        checked = Exists(Attempt.objects.filter(task=OuterRef("pk"), outcome__isnull=False))
        return queryset.filter(checked if value == YES else ~checked)

    def judged_by(self, queryset: QuerySet[Any], name: str, value: str) -> QuerySet[Any]:
        """Of others' words those that may be read just now: who judges blind is not told who else has."""
        said = Feedback.objects.standing().readable_by(self.user).filter(author=read_handle(value))
        return queryset.filter(pk__in=said.values("task"))


def read_handle(text: str) -> str:
    """A handle, or a person's by their name alone."""
    return text if ":" in text else f"user:{text}"
