"""One try of an evaluation: what was said and done, how sure its model was of each token, and how it was graded."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from apps.console.rendering.tokens import clean_piece
from apps.console.selectors.sessions import MOST_MESSAGES, ShownMessage, read_message
from apps.evals.models import Evaluation, HumanGrade, ItemTry, TryRecord
from apps.workers.bases import spell_tokens
from tentalis.core.packing import unpack_float32, unpack_int32
from tentalis.core.worlds import Verification

MOST_TOKENS: Final = 20_000


class TurnTokens(NamedTuple):
    """What the model wrote in one of its turns; `words` and `logprobs` None where nobody knows them."""

    number: int
    token_ids: Sequence[int]
    words: Sequence[str] | None
    logprobs: Sequence[float] | None

    @property
    def mean_probability(self) -> float | None:
        """exp of the mean log-prob, in [0, 1]."""
        return math.exp(sum(self.logprobs) / len(self.logprobs)) if self.logprobs else None


@dataclass(frozen=True)
class TryView:
    """A try as its page shows it.

    Attributes:
        record: None where it is of before these were kept.
        left_out: messages at its beginning that are not shown.
        verification: None where nothing is known of it.
        human_grades: what people say of it.
        others: numbers of the item's tries, from 0; before, after: places of the items beside it, None at the ends.
    """

    item_try: ItemTry
    record: TryRecord | None
    messages: Sequence[ShownMessage]
    left_out: int
    turns: Sequence[TurnTokens]
    verification: Verification | None
    human_grades: Sequence[HumanGrade]
    others: Sequence[int]
    before: int | None
    after: int | None


def view_try(evaluation: Evaluation, place: int, number: int) -> TryView | None:
    """A constant number of queries; None where there is none."""
    rows = evaluation.item_tries.select_related("record", "evaluation__project")
    if (found := rows.filter(place=place, number=number).first()) is None:
        return None
    record: TryRecord | None = getattr(found, "record", None)
    places = evaluation.item_tries.order_by("place").values_list("place", flat=True)
    said = [read_message(message) for message in record.messages] if record else []
    return TryView(
        item_try=found,
        record=record,
        messages=said[-MOST_MESSAGES:],
        left_out=max(0, len(said) - MOST_MESSAGES),
        turns=_read_turns(evaluation, record) if record else [],
        verification=Verification.from_json(record.verification) if record and record.verification else None,
        human_grades=list(found.human_grades.all()),
        others=list(evaluation.item_tries.filter(place=place).order_by("number").values_list("number", flat=True)),
        before=places.filter(place__lt=place).last(),
        after=places.filter(place__gt=place).first(),
    )


def _read_turns(evaluation: Evaluation, record: TryRecord) -> list[TurnTokens]:
    token_ids, logprobs = unpack_int32(record.token_ids)[:MOST_TOKENS], unpack_float32(record.logprobs)[:MOST_TOKENS]
    pieces = spell_tokens(evaluation.worker, token_ids) if token_ids else None
    turns, start = [], 0
    for number, size in enumerate(record.turn_tokens, start=1):
        where = slice(start, start + size)
        start += size
        if own := token_ids[where]:
            words = [clean_piece(piece) for piece in pieces[where]] if pieces is not None else None
            turns.append(TurnTokens(number, own, words, logprobs[where] if len(logprobs) == len(token_ids) else None))
    return turns
