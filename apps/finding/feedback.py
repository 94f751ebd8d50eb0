"""The list of what managers said."""

from collections.abc import Mapping
from typing import Any, ClassVar

import django_filters as filters
from django.db.models import Q, QuerySet
from django.utils.translation import gettext_lazy as _

from apps.base.word_index import with_words
from apps.feedback.models import COMMENT_WORDS, FEEDBACK_WORDS, Feedback, StepFeedback
from apps.finding.lists import NO, YES, ListFilters, least_filter, since_filter, text_filter, until_filter


class FeedbackFilters(ListFilters):
    """Which feedback."""

    FIRST = ("text", "worker")
    SORTS: ClassVar[Mapping[str, str]] = {"given": "pk", "score": "score"}

    text = text_filter()
    worker = filters.CharFilter(field_name="task__worker__name", label=_("Worker"), max_length=64)
    min_score = least_filter(field_name="score", lookup_expr="gte", label=_("Score from"))
    max_score = least_filter(field_name="score", lookup_expr="lte", label=_("Score to"))
    retracted = filters.ChoiceFilter(
        choices=[(YES, _("Yes")), (NO, _("No"))], method="that_were_retracted", label=_("Taken back")
    )
    since = since_filter()
    until = until_filter()

    class Meta:
        model = Feedback
        fields: ClassVar[list[str]] = []

    def that_say(self, queryset: QuerySet[Any], name: str, value: str) -> QuerySet[Any]:
        return find_said(queryset, value)

    def that_were_retracted(self, queryset: QuerySet[Any], name: str, value: str) -> QuerySet[Any]:
        return queryset.filter(retracted_at__isnull=value == NO)


def find_said(rows: QuerySet[Any], text: str) -> QuerySet[Any]:
    """Feedback that says all words of a text, as a whole or on one step. Raises BadInputError for one without words."""
    said = with_words(Feedback.objects.all(), FEEDBACK_WORDS, text).values("pk")
    commented = with_words(StepFeedback.objects.exclude(comment=""), COMMENT_WORDS, text).values("feedback")
    return rows.filter(Q(pk__in=said) | Q(pk__in=commented))
