"""An attempt's exact tokens and where its steps lie in them, as a reward model reads it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apps.inference.selectors import read_conversations
from apps.tasks.models import Attempt, Step
from tentalis.core.packing import unpack_int32


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One attempt's call.

    Args:
        prompt_token_ids: (P,); token_ids, sampled: (T,).
        steps: those with a token span that is not empty, by rising place.
    """

    prompt_token_ids: Sequence[int]
    token_ids: Sequence[int]
    sampled: Sequence[bool]
    steps: Sequence[Step]

    def to_json(self) -> dict[str, Any]:
        """As the engine's /v1/score_steps wants it."""
        return {
            "prompt_token_ids": list(self.prompt_token_ids),
            "token_ids": list(self.token_ids),
            "steps": [[step.token_start, step.token_end] for step in self.steps],
        }


def read_answers(attempt_ids: Iterable[int]) -> dict[int, Answer | str]:
    """Attempt id -> its answer, or why a reward model cannot read it. Four queries, however many."""
    rows = Attempt.objects.filter(pk__in=list(attempt_ids)).select_related("exchange")
    attempts = list(rows.prefetch_related("steps", "further").order_by("pk"))
    fit = [attempt for attempt in attempts if not _find_fault(attempt)]
    conversations = read_conversations(attempt.exchange for attempt in fit if attempt.exchange is not None)
    found: dict[int, Answer | str] = {}
    for attempt in attempts:
        found[attempt.pk] = _find_fault(attempt) or _read(attempt, conversations)
    return found


def _find_fault(attempt: Attempt) -> str:
    if attempt.exchange is None or not attempt.exchange.has_exact_tokens:
        return "the model server told no token ids"
    if attempt.further.all():
        return "its answer took several calls"
    return ""


def _read(attempt: Attempt, conversations: Mapping[int, Any]) -> Answer | str:
    exchange = attempt.exchange
    assert exchange is not None
    conversation = conversations[exchange.pk]
    if not conversation.is_whole:
        return "a part of its conversation was deleted"
    token_ids = exchange.unpack_token_ids()
    steps = [
        step
        for step in attempt.ordered_steps
        if step.token_start is not None
        and step.token_end is not None
        and step.token_start < step.token_end <= len(token_ids)
    ]
    if not steps:
        return "none of its steps has a place in its tokens"
    return Answer(
        prompt_token_ids=unpack_int32(conversation.prompt_token_ids),
        token_ids=token_ids,
        sampled=exchange.unpack_sampled(),
        steps=steps,
    )
