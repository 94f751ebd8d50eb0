"""What a list can be narrowed to and ordered by, said once: pages, REST and saved views read the same."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from types import SimpleNamespace
from typing import Any, ClassVar, Self

import django_filters as filters
from django import forms
from django.db.models import QuerySet
from django.http import QueryDict
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.accounts.models import User
from apps.base.days import is_nameable, read_day
from apps.base.errors import BadInputError
from apps.base.word_index import MOST_TYPED, read_words
from apps.finding.bounds import TooBroadError, find_first_since, within
from apps.finding.pages import Order, turn_page
from apps.tasks.selectors import BoundedCount

MOST_COUNTED = 1_000
COUNT_S = 2.0
MAX_NAME = 200
SORT = "sort"
YES, NO = "true", "false"
PAGING = frozenset({"after", "fragment"})
"""What an address may hold beside filters and order."""


class MomentField(forms.CharField):
    """A day, or a time as ISO 8601 writes it: where it begins, or for an `is_end` where a day ends."""

    def __init__(self, *, is_end: bool = False, **kwargs: Any) -> None:
        self.is_end = is_end
        super().__init__(widget=forms.DateInput(attrs={"type": "date"}), **kwargs)

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value)
        if not text:
            return None
        if (day := read_day(text)) is not None:
            return timezone.make_aware(datetime.combine(day + timedelta(days=int(self.is_end)), time.min))
        try:
            moment = parse_datetime(text.replace(" ", "+") if "T" in text else text)
        except ValueError:
            moment = None
        if moment is None or not is_nameable(moment):
            raise forms.ValidationError(
                _("wanted a day such as 2026-11-20, or a time such as 2026-11-20T08:00:00Z, found %(found)s"),
                params={"found": repr(str(value)[:40])},  # a sign of percent in it is no place for a value
            )
        return moment if timezone.is_aware(moment) else timezone.make_aware(moment)


class MomentFilter(filters.Filter):  # type: ignore[misc]
    field_class = MomentField


class WordsField(forms.CharField):
    """Words that can be looked for on an index."""

    def validate(self, value: Any) -> None:
        super().validate(value)
        try:
            if value:
                read_words(value)
        except BadInputError as error:
            raise forms.ValidationError("%(words)s", params={"words": str(error)}) from None


class WordsFilter(filters.CharFilter):  # type: ignore[misc]
    field_class = WordsField


class ListFilters(filters.FilterSet):  # type: ignore[misc]
    """Base of every list's filters.

    Attributes:
        SORTS: name in the address -> column, `pk` for the order of being made; -name turns it round.
        DEFAULT: the order without a choice.
        FIRST: filters that a page shows at once; the others unfold.
    """

    SORTS: ClassVar[Mapping[str, str]] = {}
    DEFAULT: ClassVar[Order] = Order()
    FIRST: ClassVar[tuple[str, ...]] = ("text", "state", "worker")

    @property
    def user(self) -> User:
        """Who asks."""
        found: User = self.request.user
        return found

    @property
    def is_narrow(self) -> bool:
        """Whether anything is left out."""
        return any(self.data.get(name) for name in self.base_filters)

    @classmethod
    def bind(cls, query: Mapping[str, str], rows: QuerySet[Any], user: User) -> Self:
        """These filters with what an address says.

        Raises:
            BadInputError: naming each parameter that is unknown or cannot be.
        """
        known = {*cls.base_filters, *([SORT] if cls.SORTS else [])}
        if unknown := sorted(set(query) - known - PAGING):
            wanted = ", ".join(sorted(known))
            errors = {name[:MAX_NAME]: [f"There is no such filter; known are {wanted}."] for name in unknown}
            raise BadInputError.at_each(errors)
        if isinstance(query, QueryDict) and (several := sorted(name for name in query if len(query.getlist(name)) > 1)):
            raise BadInputError.at_each({name: ["wanted one value, found several"] for name in several})
        cls.read_order(query.get(SORT, ""))
        made = cls(data=query, queryset=rows, request=SimpleNamespace(user=user))
        if not made.is_valid():
            raise BadInputError.at_each({name: [str(one) for one in found] for name, found in made.errors.items()})
        return made

    @classmethod
    def read_order(cls, text: str) -> Order:
        """Raises BadInputError for what is no order of this list."""
        if not text:
            return cls.DEFAULT
        if text.removeprefix("-") not in cls.SORTS:
            wanted = ", ".join(f"{name}, -{name}" for name in cls.SORTS)
            raise BadInputError.at(SORT, f"wanted one of {wanted}, found {text[:40]!r}")
        return Order(cls.SORTS[text.removeprefix("-")], text.startswith("-"))

    def begin_at(self, queryset: QuerySet[Any], name: str, value: datetime) -> QuerySet[Any]:
        made = type(self).all_rows(queryset)
        return queryset.filter(pk__gte=find_first_since(made, value), created_at__gte=value)

    def end_before(self, queryset: QuerySet[Any], name: str, value: datetime) -> QuerySet[Any]:
        made = type(self).all_rows(queryset)
        return queryset.filter(pk__lt=find_first_since(made, value))

    @staticmethod
    def all_rows(queryset: QuerySet[Any]) -> QuerySet[Any]:
        rows: QuerySet[Any] = queryset.model._default_manager.all()
        return rows


def text_filter(**value: Any) -> WordsFilter:
    """Words; the filter set says how they are looked for in its method `that_say`."""
    value = {"method": "that_say", "label": gettext_lazy("Words"), "max_length": MOST_TYPED} | value
    return WordsFilter(**value)


def since_filter(**value: Any) -> MomentFilter:
    return MomentFilter(**({"method": "begin_at", "label": gettext_lazy("From")} | value))


def until_filter(**value: Any) -> MomentFilter:
    return MomentFilter(**({"method": "end_before", "label": gettext_lazy("Until"), "is_end": True} | value))


def least_filter(**value: Any) -> filters.NumberFilter:
    return filters.NumberFilter(min_value=0, max_value=1, decimal_places=4, max_digits=5, **value)


@dataclass(frozen=True)
class Listing:
    """One page of a list as its address says it.

    Attributes:
        filters: bound, for the form above the list; with errors where they could not be followed.
        count: how many match; None: nothing is left out, or not counted in the time there is.
        errors: what of the address cannot be; then there are no rows.
    """

    filters: ListFilters
    rows: list[Any]
    next_place: str
    count: BoundedCount | None
    sort: str
    errors: Mapping[str, list[str]]

    @property
    def status(self) -> int:
        return 400 if self.errors else 200

    @property
    def is_filtered(self) -> bool:
        return bool(self.errors) or self.filters.is_narrow

    @property
    def first_fields(self) -> list[Any]:
        return [self.filters.form[name] for name in self.filters.FIRST if name in self.filters.base_filters]

    @property
    def more_fields(self) -> list[Any]:
        return [self.filters.form[name] for name in self.filters.base_filters if name not in self.filters.FIRST]

    @property
    def is_unfolded(self) -> bool:
        return any(self.filters.data.get(field.name) for field in self.more_fields)


def list_rows(
    filter_class: type[ListFilters], rows: QuerySet[Any], query: Mapping[str, str], user: User, *, limit: int
) -> Listing:
    """One page of what an address asks for; what it cannot ask for is told, and nothing is shown."""
    try:
        bound = filter_class.bind(query, rows, user)
        order = filter_class.read_order(query.get(SORT, ""))
        with within():
            page = turn_page(bound.qs, order, place=query.get("after", ""), limit=limit)
        is_all = not query.get("after") and not page.next_place
        count = BoundedCount(len(page.rows)) if is_all else count_rows(bound.qs) if bound.is_narrow else None
    except BadInputError as error:
        return _tell_faults(filter_class, rows, query, user, error)
    return Listing(bound, list(page.rows), page.next_place, count, query.get(SORT, ""), {})


def read_address(filter_class: type[ListFilters], rows: QuerySet[Any], query: Mapping[str, str], user: User) -> Listing:
    """What an address asks for, without looking for it."""
    try:
        return Listing(filter_class.bind(query, rows, user), [], "", None, query.get(SORT, ""), {})
    except BadInputError as error:
        return _tell_faults(filter_class, rows, query, user, error)


def count_rows(rows: QuerySet[Any], *, most: int = MOST_COUNTED) -> BoundedCount | None:
    """How many there are, up to a limit; None where counting takes too long."""
    try:
        with within(COUNT_S):
            found = rows.order_by()[: most + 1].count()
    except TooBroadError:
        return None
    return BoundedCount(min(found, most), is_more=found > most)


def _tell_faults(
    filter_class: type[ListFilters], rows: QuerySet[Any], query: Mapping[str, str], user: User, error: BadInputError
) -> Listing:
    empty = filter_class(data=query, queryset=rows.none(), request=SimpleNamespace(user=user))
    errors: Mapping[str, Any] = error.errors or {"": [str(error)]}
    return Listing(empty, [], "", None, query.get(SORT, ""), errors)
