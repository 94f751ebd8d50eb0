"""The queue of reviews."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar, Self

import django_filters as filters
from django.db.models import QuerySet
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from apps.accounts.models import User
from apps.feedback.models import Review
from apps.feedback.queue import CHOICES, MAX_FILTER_CHARS, QueueFilter, narrow_rows
from apps.finding.lists import ListFilters, since_filter, text_filter, until_filter
from apps.finding.pages import Order
from apps.worlds.registry import name_choices

LABELS: Mapping[str, Mapping[str, str | Promise]] = {
    "purpose": {
        "work": _("Judge the work"),
        "second": _("Second opinion"),
        "appeal": _("Appeal"),
        "pair": _("Side by side"),
    },
    "assigned": {"me": _("To me"), "nobody": _("To nobody"), "anyone": _("To anybody at all")},
    "held": {"free": _("Nobody"), "me": _("Me"), "others": _("Others"), "snoozed": _("Snoozed")},
    "due": {"soon": _("Within the hour"), "late": _("Overdue")},
}


def _choose(name: str, label: str | Promise) -> filters.ChoiceFilter:
    choices = [(value, LABELS[name][value]) for value in CHOICES[name]]
    return filters.ChoiceFilter(choices=choices, method="narrow", label=label)


class ReviewFilters(ListFilters):
    """Which reviews; what each filter means is said by `QueueFilter`, for handing them out goes by the same."""

    FIRST = ("text", "worker", "assigned", "held")
    SORTS: ClassVar[Mapping[str, str]] = {
        "queue": "rank_at",
        "opened": "pk",
        "due": "due_at",
        "priority": "priority",
    }
    DEFAULT = Order("rank_at", is_descending=False)

    text = text_filter(label=_("Words of the task"), method="narrow")
    worker = filters.CharFilter(method="narrow", label=_("Worker"), max_length=MAX_FILTER_CHARS)
    assigned = _choose("assigned", _("Assigned"))
    held = _choose("held", _("Open at"))
    environment = filters.ChoiceFilter(choices=name_choices, method="narrow", label=_("Environment"))
    purpose = _choose("purpose", _("Purpose"))
    reviewer = filters.CharFilter(method="narrow", label=_("Of whom"), max_length=MAX_FILTER_CHARS)
    due = _choose("due", _("Due"))
    min_priority = filters.NumberFilter(method="narrow", min_value=0, max_value=1, label=_("Priority from"))
    min_score = filters.NumberFilter(method="narrow", min_value=0, max_value=1, label=_("Every scorer gave at least"))
    since = since_filter(label=_("Opened from"), method="narrow")
    until = until_filter(label=_("Opened until"), method="narrow")

    class Meta:
        model = Review
        fields: ClassVar[list[str]] = []

    def narrow(self, queryset: QuerySet[Any], name: str, value: Any) -> QuerySet[Any]:
        rows: Any = queryset
        return narrow_rows(rows, self.user, _make_queue({name: value}))

    @property
    def queue(self) -> QueueFilter:
        """What the queue is narrowed to by what was bound."""
        return _make_queue(self.form.cleaned_data)

    @classmethod
    def bind_some(cls, query: Mapping[str, str], user: User) -> Self:
        """As `bind`, where an address says other things beside; of no rows."""
        wanted = {name: query[name] for name in cls.base_filters if query.get(name)}
        return cls.bind(wanted, Review.objects.none(), user)


def _make_queue(said: Mapping[str, Any]) -> QueueFilter:
    known = {field.name for field in fields(QueueFilter)}
    values = {name: value for name, value in said.items() if name in known and value not in (None, "")}
    values |= {name: float(value) for name, value in values.items() if name.startswith("min_")}
    return QueueFilter(**values)
