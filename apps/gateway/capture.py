"""From a spooled record to what is stored of it: pure functions, one `Captured` a choice.

The bytes are in chat or in completions dialect, as vLLM and the engine speak it, with token ids or without. What cannot
be read is stored as such, with the reason: a bad answer is data too.
"""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from apps.gateway.merging import MOST_CHOICES, ChoiceParts, merge_answer
from apps.gateway.reading import read_events, read_json
from apps.gateway.record import Header, Record
from tentalis.core.lineage import SAME
from tentalis.core.packing import pack_float32, pack_int32

Json = dict[str, Any]
_NOT_ASKED = frozenset({"messages", "prompt", "model", "stream", "stream_options", SAME})
_MILLION = Decimal(1_000_000)
MOST_ERROR_CHARS = 2_000


class Rates(NamedTuple):
    """US dollars a million tokens."""

    input: Decimal
    output: Decimal
    cached_input: Decimal


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


class Usage(NamedTuple):
    prompt: int = 0
    completion: int = 0
    cached: int = 0


def capture(record: Record, find_rates: FindRates | None = None) -> list[Captured]:
    """All choices of a record, at least one; in order."""
    header, error = record.header, record.header["error"]
    try:
        body = read_json(record.request)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        body, error = {}, error or "the request is no JSON object"
    request = {name: value for name, value in body.items() if name not in _NOT_ASKED}
    if header["model"] != header["asked"]:
        request["model"] = header["model"]
    prompts = read_prompts(body)
    if header["status"] >= 400:
        words = error or _read_error(record.answer) or f"status {header['status']}"
        return [_make_failure(header, prompts[0], request, words)]
    chunks, is_broken = _read_answer(record)
    try:
        parts, envelope = merge_answer(chunks)
    except (AttributeError, KeyError, TypeError, ValueError) as reason:
        words = error or f"unreadable answer: {type(reason).__name__} {reason}"
        return [_make_failure(header, prompts[0], request, words)]
    error = error or envelope.error
    is_cut = header["is_truncated"] or is_broken or bool(envelope.error)
    if not parts:
        words = error or ("the answer broke off" if is_cut else "the answer has no choices")
        return [_make_failure(header, prompts[0], request, words)._replace(is_truncated=is_cut)]
    usage = read_usage(envelope.usage)
    rates = find_rates(header) if find_rates is not None else None
    per_prompt = max(1, _count(body.get("n"))) if len(prompts) > 1 else MOST_CHOICES
    captured = []
    for place, part in enumerate(parts):
        prompt = prompts[min(part.index // per_prompt, len(prompts) - 1)]
        prompt_ids = part.prompt_token_ids or envelope.prompt_token_ids or prompt.token_ids
        one = _capture_choice(header, part, prompt, request, prompt_ids)
        # one usage is told for all choices, and for all prompts of a completions request
        count = len(one.token_ids) // 4 or (usage.completion if place == 0 else 0)
        read = len(one.prompt_token_ids) // 4 or (usage.prompt if place == 0 or len(prompts) == 1 else 0)
        cached = min(usage.cached, read)
        captured.append(
            one._replace(
                prompt_tokens=read,
                completion_tokens=count,
                cached_tokens=cached,
                cost_usd=_count_cost(rates, read if part.index % per_prompt == 0 else 0, cached, count),
                is_truncated=is_cut or (header["is_stream"] and not part.finish_reason and not envelope.is_done),
                is_mixed=len(envelope.models) > 1,
                error=error or one.error,
            )
        )
    return captured


class Prompt(NamedTuple):
    """What one prompt of a request says: as messages, or as token ids."""

    messages: list[Any]
    token_ids: Sequence[int] = ()


def read_prompts(body: Mapping[str, Any]) -> list[Prompt]:
    """The prompts of a request, at least one; a completions prompt of words is kept as what a user said."""
    messages = body.get("messages")
    if isinstance(messages, list):
        return [Prompt(messages)]
    prompt = body.get("prompt")
    if isinstance(prompt, list) and prompt and not _is_token_ids(prompt):
        return [_read_prompt(one) for one in prompt]
    return [_read_prompt(prompt)]


def read_usage(usage: Mapping[str, Any]) -> Usage:
    """Token counts, by the names that OpenAI, vLLM and DeepSeek have for them."""
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else usage.get("prompt_cache_hit_tokens")
    return Usage(_count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens")), _count(cached))


def _read_prompt(prompt: Any) -> Prompt:
    if _is_token_ids(prompt):
        return Prompt([], prompt)
    return Prompt([{"role": "user", "content": prompt}]) if isinstance(prompt, str) else Prompt([])


def _is_token_ids(prompt: Any) -> bool:
    return isinstance(prompt, list) and bool(prompt) and all(type(one) is int for one in prompt)


def _read_answer(record: Record) -> tuple[list[Json | None], bool]:
    """The answer's chunks, a whole answer being one; and whether it could not be read to its end."""
    if record.header["is_stream"]:
        return read_events(record.answer)
    try:
        return [read_json(record.answer)], False
    except ValueError:
        return [], True


def _capture_choice(
    header: Header, part: ChoiceParts, prompt: Prompt, request: Json, prompt_ids: Sequence[int]
) -> Captured:
    error = ""
    packed: tuple[bytes, bytes, bytes, bytes] = (b"", b"", b"", b"")
    try:
        ids, logprobs = pack_int32(part.token_ids), pack_float32(part.logprobs)
        packed = pack_int32(prompt_ids), ids, logprobs, _sample_all(len(part.token_ids))
        if logprobs and len(ids) != len(logprobs):
            error = f"{len(part.token_ids)} token ids and {len(part.logprobs)} log-probs: the log-probs were dropped"
            packed = packed[0], ids, b"", packed[3]
        if not ids:  # log-probs of tokens nobody named teach nothing
            packed = packed[0], b"", b"", b""
    except (OverflowError, TypeError) as reason:
        error = f"unreadable tokens: {reason}"
    return Captured(
        header=header,
        choice=part.index,
        messages=prompt.messages,
        request=request,
        text=part.text,
        reasoning=part.reasoning,
        tool_calls=part.tool_calls,
        finish_reason=part.finish_reason,
        prompt_token_ids=packed[0],
        token_ids=packed[1],
        logprobs=packed[2],
        sampled=packed[3],
        error=error,
    )


def _make_failure(header: Header, prompt: Prompt, request: Json, error: str) -> Captured:
    return Captured(header=header, choice=0, messages=prompt.messages, request=request, error=error[:MOST_ERROR_CHARS])


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


def _count_cost(rates: Rates | None, read: int, cached: int, made: int) -> Decimal | None:
    if rates is None:
        return None
    cached = min(cached, read)
    cost = (read - cached) * rates.input + cached * rates.cached_input + made * rates.output
    return (cost / _MILLION).quantize(Decimal("1e-8"))


def _sample_all(count: int) -> bytes:
    """`count` bits, all 1: every token of an answer was chosen by the policy."""
    return ((1 << count) - 1).to_bytes((count + 7) // 8, "little")


def _count(value: Any) -> int:
    return value if type(value) is int and 0 <= value < 2**31 else 0
