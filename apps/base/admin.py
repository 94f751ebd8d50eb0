"""Django's admin is for looking: every page of it reads, none writes."""

from typing import Any

from django.contrib import admin
from django.core.exceptions import FieldDoesNotExist
from django.db import models
from django.db.models.constants import LOOKUP_SEP
from django.forms import Media
from django.http import HttpRequest


class ReadOnlyAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Shows rows to auditors. Changes go through services, which check, decide and write the audit.

    Pages load none of the form scripts: they need jQuery, which writes HTML past Trusted Types.
    """

    actions = None
    list_per_page = 20
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER

    @property
    def media(self) -> Media:
        return Media()

    def get_fields(self, request: HttpRequest, obj: models.Model | None = None) -> tuple[str, ...]:
        """Every column but the excluded; Django's own way would build a form for them first."""
        hidden = set(self.exclude or ())
        return tuple(column.name for column in self.opts.concrete_fields if column.name not in hidden)

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest) -> bool:
        """Refuse to filter by an excluded column, of this model or of a related one: its content could be guessed
        letter by letter."""
        return not self._asks_hidden(lookup) and super().lookup_allowed(lookup, value, request)

    def _asks_hidden(self, lookup: str) -> bool:
        """Whether a lookup names a column that no page shows."""
        model: Any = self.model
        for name in lookup.split(LOOKUP_SEP):
            try:
                column = model._meta.pk if name == "pk" else model._meta.get_field(name)
            except FieldDoesNotExist:
                return False  # a transform or a comparison, of a column that may be seen
            pages = self.admin_site._registry.get(model)
            if pages is None or column.name in (pages.exclude or ()):
                return True
            if not column.is_relation:
                return False
            model = column.related_model
        return False

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        return False


def show(
    model: type[models.Model],
    columns: str,
    *,
    filters: str = "",
    search: str = "",
    select: str = "",
    hidden: str = "",
    **options: Any,
) -> None:
    """Let auditors see a model's rows; every name is one of a field.

    Args:
        select: what is read with each row beside the related rows among the columns.
        hidden: columns that no page shows.
        options: of Django's `ModelAdmin`.
    """
    names = columns.split()
    related = [field.name for field in model._meta.concrete_fields if field.is_relation and field.name in names]
    admin.site.register(
        model,
        ReadOnlyAdmin,
        list_display=names,
        list_filter=filters.split(),
        search_fields=search.split(),
        list_select_related=[*related, *select.split()],
        exclude=hidden.split(),
        **options,
    )
