"""Attempts that read the same, word for word: one judgement is of all of them."""

from collections.abc import Iterable
from typing import Any

from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import QuerySet, TextField, Value
from django.db.models.functions import MD5, Concat

from apps.tasks.models import Attempt

_OF_STEP = ("steps__kind", "steps__tool_name", "steps__text", "steps__tool_result")


def annotate_copies(attempts: QuerySet[Attempt]) -> QuerySet[Attempt]:
    """With what `group_copies` tells attempts apart by, and `step_ids` in their order: digests, no texts."""
    parts = (part for name in _OF_STEP for part in (name, Value("\x1f")))
    step = MD5(Concat(*parts, output_field=TextField()))
    return attempts.annotate(
        reads_text=MD5("text"),
        reads_answer=MD5("answer"),
        reads_steps=ArrayAgg(step, order_by="steps__index"),
        step_ids=ArrayAgg("steps__pk", order_by="steps__index"),
    )


def group_copies(attempts: Iterable[Attempt]) -> list[list[Attempt]]:
    """Annotated attempts with those that read the same together, in the order of the first of each group.

    Same are the text, the answer, and every step with what its tool gave back. One without an answer is alone.
    """
    groups: dict[Any, list[Attempt]] = {}
    for one in attempts:
        is_answered = one.state == Attempt.State.ANSWERED
        groups.setdefault(_read(one) if is_answered else one.pk, []).append(one)
    return list(groups.values())


def _read(attempt: Any) -> tuple[str, ...]:
    return (attempt.reads_text, attempt.reads_answer, *attempt.reads_steps)
