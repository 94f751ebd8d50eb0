"""What stands under a row that somebody wants deleted."""

from django.db import models


def find_dependents(row: models.Model, *, unless: str) -> list[str]:
    """The names by which a row calls those kinds of rows of its own that there are.

    Args:
        unless: attribute of the models whose rows go with it.
    """
    related = [one for one in row._meta.related_objects if not getattr(one.related_model, unless, False)]
    held = [one for one in related if one.related_model._default_manager.filter(**{one.field.name: row}).exists()]
    return sorted(str(one.get_accessor_name()) for one in held)
