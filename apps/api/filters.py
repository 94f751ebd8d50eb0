"""Filters of lists. A parameter nobody knows is refused by name, as a misspelt one would otherwise filter nothing."""

import re
from typing import Any

from django.db.models import ForeignKey, Model, QuerySet
from django_filters import rest_framework as filters
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.views import APIView

from apps.api.lookup import NAMED_BY, find_project
from apps.finding.lists import SORT

WHOLE = re.compile(r"-?[0-9]{1,18}")
PAGING = frozenset({"limit", "cursor"})


class StrictFilterBackend(filters.DjangoFilterBackend):  # type: ignore[misc]
    """django-filter's backend, strict in names."""

    def filter_queryset(self, request: Request, queryset: QuerySet[Any], view: APIView) -> QuerySet[Any]:
        filterset_class = self.get_filterset_class(view, queryset)
        known = set(filterset_class.base_filters) if filterset_class else set()
        orders = {SORT} if getattr(filterset_class, "SORTS", None) else set()
        check_parameters(request, known | orders | set(getattr(view, "extra_parameters", ())))
        if filterset_class:
            check_values(request, filterset_class)
        filtered: QuerySet[Any] = super().filter_queryset(request, queryset, view)
        return filtered


def check_parameters(request: Request, known: set[str]) -> None:
    """Raises ValidationError naming every query parameter that is not known."""
    if unknown := sorted(set(request.query_params) - known - PAGING):
        wanted = ", ".join(sorted(known | PAGING))
        raise ValidationError({name: [f"No such parameter; known are {wanted}."] for name in unknown})
    for name, value in request.query_params.items():
        if len(request.query_params.getlist(name)) > 1:
            raise ValidationError({name: ["wanted one value, found several"]})
        if "\x00" in value:
            raise ValidationError({name: ["wanted text without NUL characters"]})


def check_values(request: Request, filterset_class: type[filters.FilterSet]) -> None:
    """Raises ValidationError for values that would filter nothing, where the filter takes no free text.

    Numbers are ids and counts, so whole; a filter with a method of its own may want others.
    """
    for name, one in filterset_class.base_filters.items():
        value = request.query_params.get(name)
        if value is None or isinstance(one, filters.CharFilter):
            continue
        if isinstance(one, filters.BooleanFilter) and value not in ("true", "false"):
            raise ValidationError({name: [f"wanted true or false, found {value[:40]!r}"]})
        if not value.strip():
            raise ValidationError({name: ["wanted a value, found none"]})
        if isinstance(one, filters.NumberFilter) and not one.method and not WHOLE.fullmatch(value):
            raise ValidationError({name: [f"wanted a whole number, found {value[:40]!r}"]})


class RowFilterSet(filters.FilterSet):  # type: ignore[misc]
    """Filters by fields. One by a related row takes the name that REST calls that by."""

    @classmethod
    def filter_for_field(cls, field: Any, field_name: str, lookup_expr: str | None = None) -> filters.Filter:
        if not isinstance(field, ForeignKey):
            return super().filter_for_field(field, field_name, lookup_expr)
        if (name := NAMED_BY.get(field.related_model)) is not None:
            return filters.CharFilter(field_name=f"{field_name}__{name}")
        return filters.NumberFilter(field_name=f"{field_name}_id")


class ProjectFilterSet(RowFilterSet):
    """Filters every resource of a project has."""

    project = filters.CharFilter(method="in_project", label="Slug of a project.")

    def in_project(self, queryset: QuerySet[Any], name: str, value: str) -> QuerySet[Any]:
        return queryset.filter(project=find_project(self.request, value))


def filter_by(
    model: type[Model], *names: str, base: type[RowFilterSet] = ProjectFilterSet, **others: filters.Filter
) -> type[RowFilterSet]:
    """Filters by these fields of the model, by what `base` filters by, and others."""
    meta = type("Meta", (), {"model": model, "fields": names})
    return type(f"{model.__name__}FilterSet", (base,), {"Meta": meta, **others})


def filter_by_provider() -> filters.Filter:
    """A filter by the number of a model server."""
    return filters.NumberFilter(field_name="provider_id", min_value=1, max_value=2**63 - 1, label="Model server.")
