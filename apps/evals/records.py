"""What came of a try, whole, as it is kept of what people and benchmarks ask for."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from apps.base.texts import make_storable
from apps.evals.models import ItemTry, TryRecord
from tentalis.core.canon import content_hash
from tentalis.core.packing import pack_float32, pack_int32
from tentalis.core.worlds import AttemptDraft, DraftStep, Verification

_STEP: Final = ("kind", "text", "tool_name", "tool_result")


class KeptTry(NamedTuple):
    """What is kept of a try. Args: numbers: of its row."""

    record: TryRecord
    numbers: Mapping[str, Any]

    def put_into(self, row: ItemTry) -> None:
        """Both are written together."""
        row.new_record = self.record
        for name, value in self.numbers.items():
            setattr(row, name, value)


def make_record(
    draft: AttemptDraft,
    verification: Verification | None,
    *,
    turns: Sequence[AttemptDraft] = (),
    opening: Sequence[Any] | None = None,
) -> KeptTry:
    """What is kept of a try, which is not saved.

    Args:
        draft: the whole try; turns: each call of its model, where it is an episode.
        opening: the messages that an episode began with; None: of `draft`, which holds nothing but what was asked.
    """
    calls = turns or [draft]
    messages = list(draft.messages) if opening is not None else [*draft.messages, *_say(draft)]
    written = [_find_written(one) for one in calls]
    told: dict[str, Any] = {
        "text": draft.text,
        "answer": draft.answer,
        "steps": [{name: value for name in _STEP if (value := getattr(one, name))} for one in draft.steps],
        "messages": messages,
        "request": dict(calls[0].request),
        "sampling": dict(calls[0].sampling),
        "verification": verification.to_json() if verification is not None else None,
        "error": draft.error,
        "served_by": draft.served_by[:200],
        "finish_reason": draft.finish_reason[:32],
    }
    record = TryRecord(
        **make_storable(_copy(told)),
        prompt_hash=hash_prompt(draft.messages if opening is None else opening, calls[0].request),
        turn_tokens=[len(tokens) for tokens, _ in written] if any(tokens for tokens, _ in written) else [],
        cached_tokens=sum(one.use.cached for one in calls),
        token_ids=pack_int32([token for tokens, _ in written for token in tokens]),
        logprobs=pack_float32([value for _, values in written for value in values]),
    )
    numbers = {
        "prompt_tokens": sum(one.use.prompt for one in calls),
        "completion_tokens": sum(one.use.completion or len(one.token_ids) for one in calls),
        "turns": len(calls),
        "seconds": draft.elapsed_s,
    }
    return KeptTry(record, numbers)


def hash_prompt(opening: Sequence[Any], request: Mapping[str, Any]) -> str:
    """Of what a try begins with: the messages and the tools."""
    return content_hash([_copy(list(opening)), _copy(list(request.get("tools") or ()))])[:32]


def read_draft(record: TryRecord) -> AttemptDraft:
    """The try as it is graded anew: what it said and did, without its tokens."""
    return AttemptDraft(
        text=record.text,
        answer=record.answer,
        steps=[DraftStep(**{"text": "", **step}) for step in record.steps],
        messages=record.messages,
        served_by=record.served_by,
        finish_reason=record.finish_reason,
        ended=record.finish_reason != "length",
        error=record.error,
    )


def _say(draft: AttemptDraft) -> list[dict[str, Any]]:
    """What the model said, as a message."""
    if not draft.text and not draft.tool_calls:
        return []
    calls = {"tool_calls": list(draft.tool_calls)} if draft.tool_calls else {}
    return [{"role": "assistant", "content": draft.text, **calls}]


def _find_written(draft: AttemptDraft) -> tuple[list[int], list[float]]:
    """Of a call: the tokens that its model chose, with their log-probs."""
    chosen = [place for place, sampled in enumerate(draft.sampled) if sampled]
    return [draft.token_ids[place] for place in chosen], [draft.logprobs[place] for place in chosen]


def _copy(value: Any) -> Any:
    """JSON of plain dicts and lists."""
    if isinstance(value, Mapping):
        return {name: _copy(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_copy(one) for one in value]
    return value
