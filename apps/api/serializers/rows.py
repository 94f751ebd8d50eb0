"""Rows as answers show them."""

from collections.abc import Sequence
from typing import Any, TypeVar, cast

from django.db.models import Model
from rest_framework import serializers

from apps.api.lookup import NAMED_BY
from apps.api.permissions import current_user
from apps.feedback.rights import find_managed

Row = TypeVar("Row", bound=Model)
Built = tuple[type[serializers.Field], dict[str, Any]]  # type: ignore[type-arg]  # what REST framework makes a field of


class RowOut(serializers.ModelSerializer[Row]):
    """A row with the fields that `Meta.fields` names, one text; a related one by its name in REST, else its number."""

    def get_field_names(self, declared_fields: Any, info: Any) -> list[str]:
        names: Any = self.Meta.fields
        return list(names.split())

    def get_uniqueness_extra_kwargs(self, field_names: Any, declared_fields: Any, extra_kwargs: Any) -> Any:
        """None: an answer is not checked."""
        return extra_kwargs, {}

    def build_relational_field(self, field_name: str, relation_info: Any) -> Built:
        if (name := NAMED_BY.get(relation_info.related_model)) is None:
            return self._number(field_name, relation_info.model_field)
        null = {"allow_null": True, "default": None} if relation_info.model_field.null else {}
        return serializers.CharField, {"source": f"{field_name}.{name}", **null}

    def build_unknown_field(self, field_name: str, model_class: type[Model]) -> Built:  # type: ignore[override]
        """A row of a higher floor is kept as a number."""
        return self._number(field_name, model_class._meta.get_field(f"{field_name}_id"))

    def _number(self, field_name: str, column: Any) -> Built:
        return serializers.IntegerField, {"source": f"{field_name}_id", **({"allow_null": True} if column.null else {})}


def list_shown(serializer: RowOut[Row], row: Row) -> Sequence[Row]:
    """The rows that are shown together with one, it among them: the page's, so that one query can serve all."""
    shown = serializer.parent.instance if isinstance(serializer.parent, serializers.ListSerializer) else None
    return cast("Sequence[Row]", shown) if shown is not None else [row]


TO_MANAGERS = "null for all but owners and managers of the project."
"""What help texts say of a field that `may_know` guards."""


def may_know(serializer: serializers.BaseSerializer[Any], project_id: int) -> bool:
    """Whether the caller leads the project, and so is told what is right. One query a request."""
    context = cast("dict[str, Any]", serializer.context)
    if "managed" not in context:
        context["managed"] = find_managed(current_user(context["request"]))
    managed = context["managed"]
    return managed is None or project_id in managed
