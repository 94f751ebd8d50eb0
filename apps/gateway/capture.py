"""From a spooled record to what is stored of it: pure functions, one `Captured` a choice.

The bytes are in chat or in completions dialect, as vLLM and the engine speak it, with token ids or without. What cannot
be read is stored as such, with the reason: a bad answer is data too.
"""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from apps.gateway.merging import MOST_CHOICES, ChoiceParts, Envelope, load_merged, merge_answer
from apps.gateway.reading import read_events, read_json
from apps.gateway.record import Header, Record
from apps.inference.prices import Rates
from tentalis.core.conversation_delta import SAME
from tentalis.core.packing import pack_float32, pack_int32

Json = dict[str, Any]
_NOT_ASKED = frozenset({"messages", "prompt", "model", "stream", "stream_options", SAME})
_TEXTS = frozenset({"text", "refusal", "thinking", "reasoning"})
"""Parts of a message that are words."""
MOST_ERROR_CHARS = 2_000


FindRates = Callable[[Header], Rates | None]
"""The price of what a request asked for, at its time; None where none is known."""


class Captured(NamedTuple):
    """One choice of a record, whole: nothing is left to a parent yet.

    Attributes:
        request: what was asked besides the conversation.
        prompt_token_ids, token_ids, logprobs, sampled: packed as in `Exchange`.
    """

    header: Header
    choice: int
    messages: list[Any]
    request: Json
    text: str = ""
    reasoning: str = ""
    thinking_blocks: Sequence[Json] = ()
    tool_calls: Sequence[Json] = ()
    finish_reason: str = ""
    prompt_token_ids: bytes = b""
    token_ids: bytes = b""
    logprobs: bytes = b""
    sampled: bytes = b""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: Decimal | None = None
    is_truncated: bool = False
    is_mixed: bool = False
    error: str = ""


class Prompt(NamedTuple):
    """What one prompt of a request says: as messages, or as token ids."""

    messages: list[Any]
    token_ids: Sequence[int] = ()


class Asked(NamedTuple):
    """A request. `per_prompt`: how many choices it wants of each prompt."""

    prompts: list[Prompt]
    request: Json
    per_prompt: int
    error: str


class TokenCounts(NamedTuple):
    """Token counts as the server tells them; 0 where it does not."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0


def capture(record: Record, find_rates: FindRates | None = None) -> list[Captured]:
    """All choices of a record, at least one; in order."""
    header, asked = record.header, read_request(record)
    if header["status"] >= 400:
        return [_make_failure(header, asked, _read_error(record.answer) or f"status {header['status']}")]
    is_broken = False
    rates = find_rates(header) if find_rates is not None else None
    try:
        if header.get("is_merged"):
            parts, envelope = load_merged(record.answer)
        else:
            chunks, is_broken = _read_answer(record)
            parts, envelope = merge_answer(chunks)
        usage = read_usage(envelope.usage)
        missing = _find_missing(parts, usage) or _find_shown(asked.prompts)
        found = [_capture_choice(header, asked, envelope, part, usage, rates, missing) for part in parts]
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as reason:
        return [_make_failure(header, asked, f"unreadable answer: {type(reason).__name__} {reason}")]
    if not found:
        words = envelope.error or ("the answer broke off" if is_broken else "the answer has no choices")
        found = [_make_failure(header, asked, words)]
    if is_broken or header["is_truncated"]:
        found = [one._replace(is_truncated=True) for one in found]
    return found


def read_request(record: Record) -> Asked:
    """What was asked; nothing but the reason where the request is not readable."""
    header, error = record.header, ""
    try:
        body = read_json(record.request)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        body, error = {}, "the request is no JSON object"
    request = {name: value for name, value in body.items() if name not in _NOT_ASKED}
    if header["model"] != header["asked"]:
        request["model"] = header["model"]
    prompts = _read_prompts(body)
    return Asked(prompts, request, _count(body.get("n")) or 1 if len(prompts) > 1 else MOST_CHOICES, error)


def read_usage(usage: Mapping[str, Any]) -> TokenCounts:
    """Token counts, by the names that OpenAI, vLLM and DeepSeek have for them."""
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else usage.get("prompt_cache_hit_tokens")
    return TokenCounts(_count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens")), _count(cached))


def _read_prompts(body: Mapping[str, Any]) -> list[Prompt]:
    """At least one; a completions prompt of words is kept as what a user said."""
    messages = body.get("messages")
    if isinstance(messages, list):
        return [Prompt(messages)]
    prompt = body.get("prompt")
    if isinstance(prompt, list) and prompt and not _is_token_ids(prompt):
        return [_read_prompt(one) for one in prompt]
    return [_read_prompt(prompt)]


def _read_prompt(prompt: Any) -> Prompt:
    if _is_token_ids(prompt):
        return Prompt([], prompt)
    return Prompt([{"role": "user", "content": prompt}]) if isinstance(prompt, str) else Prompt([])


def _is_token_ids(prompt: Any) -> bool:
    return isinstance(prompt, list) and bool(prompt) and all(type(one) is int for one in prompt)


def _read_answer(record: Record) -> tuple[list[Any], bool]:
    """The answer's chunks, a whole answer being one; and whether some could not be read."""
    if record.header["is_stream"]:
        return read_events(record.answer)
    try:
        return [read_json(record.answer)], False
    except ValueError:
        return [], True


def _capture_choice(
    header: Header,
    asked: Asked,
    envelope: Envelope,
    part: ChoiceParts,
    usage: TokenCounts,
    rates: Rates | None,
    missing: str,
) -> Captured:
    place = part.index // asked.per_prompt
    prompt = asked.prompts[min(place, len(asked.prompts) - 1)]
    ids, logprobs, error = _pack_answer(part)
    if logprobs and missing:
        logprobs, error = b"", error or missing
    prompt_ids = pack_int32(part.prompt_token_ids or envelope.prompt_token_ids or prompt.token_ids)
    # one usage is told for all choices, and for all prompts of a completions request
    made = len(ids) // 4 or (usage.completion if part.index == 0 else 0)
    read = len(prompt_ids) // 4 or (usage.prompt if part.index == 0 or len(asked.prompts) == 1 else 0)
    cached = min(usage.cached, read)
    pays = part.index % asked.per_prompt == 0
    return Captured(
        header=header,
        choice=header.get("choice", 0) + part.index,
        messages=prompt.messages,
        request=asked.request,
        text=part.text,
        reasoning=part.reasoning,
        thinking_blocks=part.thinking_blocks,
        tool_calls=part.tool_calls,
        finish_reason=part.finish_reason,
        prompt_token_ids=prompt_ids,
        token_ids=ids,
        logprobs=logprobs,
        sampled=_sample_all(len(ids) // 4),
        prompt_tokens=read,
        completion_tokens=made,
        cached_tokens=cached,
        cost_usd=None if rates is None else rates.cost(prompt=read if pays else 0, completion=made, cached=cached),
        is_truncated=bool(envelope.error) or (header["is_stream"] and not (part.finish_reason or envelope.is_done)),
        is_mixed=len(envelope.models) > 1,
        error=header["error"] or asked.error or envelope.error or error,
    )


def _find_missing(parts: Sequence[ChoiceParts], usage: TokenCounts) -> str:
    """Why an answer's tokens are not all there; "" where they add up to what the server counted, or it did not count.

    A server's tool parser may send a piece without its ids: what is left of them is another answer.
    """
    told = sum(len(part.token_ids) for part in parts)
    if not told or not usage.completion or told == usage.completion:
        return ""
    return f"{told} token ids of {usage.completion} tokens by its usage: the log-probs were dropped"


def _find_shown(prompts: Sequence[Prompt]) -> str:
    """Why the tokens of a prompt are not all that its model read: pictures and sound stand in them as places alone.
    "" for text."""
    contents = (one.get("content") for prompt in prompts for one in prompt.messages if isinstance(one, dict))
    parts = (part for content in contents if isinstance(content, list) for part in content)
    kinds = {str(part.get("type", "text"))[:40] for part in parts if isinstance(part, dict)} - _TEXTS
    return f"it was shown more than text ({', '.join(sorted(kinds))}), and text alone is trained on" if kinds else ""


def _pack_answer(part: ChoiceParts) -> tuple[bytes, bytes, str]:
    """Token ids, log-probs, and why some are missing. Log-probs of tokens nobody named teach nothing."""
    if not part.token_ids:
        return b"", b"", ""
    ids, logprobs = pack_int32(part.token_ids), pack_float32(part.logprobs)
    if logprobs and len(ids) != len(logprobs):
        words = f"{len(part.token_ids)} token ids and {len(part.logprobs)} log-probs: the log-probs were dropped"
        return ids, b"", words
    return ids, logprobs, ""


def _make_failure(header: Header, asked: Asked, words: str) -> Captured:
    error = (header["error"] or asked.error or words)[:MOST_ERROR_CHARS]
    choice, messages = header.get("choice", 0), asked.prompts[0].messages
    return Captured(header=header, choice=choice, messages=messages, request=asked.request, error=error)


def _read_error(answer: bytes) -> str:
    """What an error's body says, in the shapes that servers have for it."""
    try:
        body = read_json(answer)
    except ValueError:
        return answer[:MOST_ERROR_CHARS].decode("utf-8", "replace").replace("\x00", "\ufffd")
    for name in ("error", "message", "detail"):
        if isinstance(body, dict) and body.get(name):
            body = body[name]
    return body if isinstance(body, str) else str(body) if body else ""


def _sample_all(count: int) -> bytes:
    """`count` bits, all 1: every token of an answer was chosen by the policy."""
    return ((1 << count) - 1).to_bytes((count + 7) // 8, "little")


def _count(value: Any) -> int:
    return value if type(value) is int and 0 <= value < 2**31 else 0
