"""Two evaluations item by item: who did better on which, in pages, however many items there are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from django.db import connection
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from apps.console.selectors.evaluations import find_prompts
from apps.evals.models import PASSED, Evaluation, ItemTry

SHOWN: Final = 6
UNREAD: Final = ("text", "steps", "messages", "request", "verification", "token_ids", "logprobs", "turn_tokens")
"""Of a try's record."""
SIDES: Final[Mapping[str, tuple[Promise, str]]] = {
    "won": (_("Won"), "mine.outcome > theirs.outcome"),
    "lost": (_("Lost"), "mine.outcome < theirs.outcome"),
    "wrong": (_("Both wrong"), f"mine.outcome < {PASSED} AND theirs.outcome < {PASSED}"),
    "right": (_("Both right"), f"mine.outcome >= {PASSED} AND theirs.outcome >= {PASSED}"),
}
"""What is asked for -> its name, and what holds of its items' mean outcomes."""
_ITEMS: Final = """
    WITH mine AS (
        SELECT place, min(key) AS key, avg(outcome) AS outcome
        FROM evals_itemtry WHERE evaluation_id = %s AND place >= %s GROUP BY place
    ), theirs AS (
        SELECT place, min(key) AS key, avg(outcome) AS outcome
        FROM evals_itemtry WHERE evaluation_id = %s AND place >= %s GROUP BY place
    )
    SELECT place, key, mine.outcome, theirs.outcome FROM mine JOIN theirs USING (place, key)
    WHERE {wanted} ORDER BY place LIMIT %s
"""
Side = Literal["won", "lost", "same", "unknown"]


@dataclass(frozen=True)
class ComparedItem:
    """An item as both tried it.

    Args:
        number: its place in the set, from 1; prompt: "" where its set cannot be opened any more.
        mine, theirs: mean outcome of its tries that have one; None: none has.
        my_tries, their_tries: the first tries of each.
    """

    number: int
    prompt: str
    mine: float | None
    theirs: float | None
    my_tries: Sequence[ItemTry]
    their_tries: Sequence[ItemTry]

    @property
    def side(self) -> Side:
        """Of the first of the two; unknown where one has no outcome."""
        if self.mine is None or self.theirs is None:
            return "unknown"
        if self.mine == self.theirs:
            return "same"
        return "won" if self.mine > self.theirs else "lost"


def list_compared(
    mine: Evaluation, theirs: Evaluation, *, kind: str = "", start: int = 0
) -> tuple[list[ComparedItem], int | None]:
    """A page of the items that both tried, in their order, and the place where the next page starts; None at the end.

    Args:
        kind: of `SIDES`; "" for all.
    """
    wanted = SIDES[kind][1] if kind else "true"
    asked = [mine.pk, start, theirs.pk, start, SHOWN + 1]
    with connection.cursor() as cursor:
        cursor.execute(_ITEMS.format(wanted=wanted), asked)
        rows = cursor.fetchall()
    shown = rows[:SHOWN]
    prompts = find_prompts(mine, {place: key for place, key, *_rest in shown})
    tries: dict[tuple[int, int], list[ItemTry]] = {}
    places = [row[0] for row in shown]
    found = ItemTry.objects.filter(evaluation__in=(mine, theirs), place__in=places)
    found = found.select_related("record").defer(*(f"record__{name}" for name in UNREAD))
    for row in found.order_by("place", "number"):
        tries.setdefault((row.evaluation_id, row.place), []).append(row)
    items = [
        ComparedItem(
            place + 1,
            prompts.get(place, ""),
            my_outcome,
            their_outcome,
            tries[mine.pk, place],
            tries[theirs.pk, place],
        )
        for place, _key, my_outcome, their_outcome in shown
    ]
    return items, rows[SHOWN][0] if len(rows) > SHOWN else None
