"""Abstract models every floor builds on."""

from typing import Any, ClassVar

from django.db import models


class Timestamped(models.Model):
    """Rows that know when they were made."""

    created_at = models.DateTimeField(auto_now_add=True, editable=False)

    class Meta:
        abstract = True


class Stateful(Timestamped):
    """Rows with a state that only `apps.audit.services.move` changes.

    A subclass declares `State` (TextChoices), `state`, `MOVES` (state -> states it may go to) and `EVENTS`
    (state -> the audit kind written when it is entered).
    """

    MOVES: ClassVar[dict[Any, frozenset[Any]]]
    EVENTS: ClassVar[dict[Any, str]]
    state: "models.CharField[Any, Any]"

    class Meta:
        abstract = True
