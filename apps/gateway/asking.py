"""What an upstream is asked, and what of its answer the caller gets to see. Pure."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import orjson

from apps.gateway.bounds import BeyondBoundsError, load_bounded
from apps.gateway.dialects.content import Usage
from apps.gateway.errors import RefusalError
from apps.gateway.pins import Pin, impose
from apps.gateway.routing import Route
from tentalis.core.sampling import TELLS, SamplingPolicy, find_formats, name_knobs
from tentalis.core.token_use import guess_prompt_tokens

Json = dict[str, Any]
OURS = frozenset({"session_id"})
"""Fields of a body that are said to the gateway, not to a model server."""
USUAL_COMPLETION_TOKENS = 1024
_LIMITS = ("max_tokens", "max_completion_tokens")


class Question(NamedTuple):
    """A request as it goes to an upstream.

    Args:
        form: chat or completions. body: what is sent, before its own dialect if that is another.
        is_stream: the answer is wanted as a stream.
        sampling: how the answer will be sampled, see `tentalis.core.sampling`.
        hides_ids, hides_logprobs, hides_usage: what was asked for on our account and is taken out again.
    """

    form: str
    body: Json
    is_stream: bool
    hides_ids: bool
    hides_logprobs: bool
    hides_usage: bool
    sampling: Mapping[str, Any] = MappingProxyType({})

    def strip(self, answers: list[Json]) -> list[Json]:
        """Take out of answers, or of chunks, what the caller did not ask for; chunks of nothing else are left out."""
        hides_ids, hides_logprobs, hides_usage = self.hides_ids, self.hides_logprobs, self.hides_usage
        if not (hides_ids or hides_logprobs or hides_usage):
            return answers
        left = []
        for answer in answers:
            choices = answer.get("choices") or ()
            if hides_usage and "usage" in answer:
                del answer["usage"]
                if not choices:
                    continue
            if hides_ids:
                answer.pop("prompt_token_ids", None)
            for choice in choices:
                if hides_ids:
                    choice.pop("token_ids", None)
                    choice.pop("prompt_token_ids", None)
                if hides_logprobs:
                    choice["logprobs"] = None
            left.append(answer)
        return left


def make_question(
    body: Mapping[str, Any], route: Route, form: str, *, sampling: SamplingPolicy = "keep", pin: Pin | None = None
) -> Question:
    """Put a caller's request, in chat or completions, into what the route's server takes, and ask it for tokens.

    Args:
        sampling: what the caller's project wants of temperature and the like. pin: what the caller's try keeps to.

    Raises:
        RefusalError: the server cannot do what is asked.
    """
    kind = route.backend.kind
    is_chat = form == "chat"
    is_stream = body.get("stream") or False
    if is_stream.__class__ is not bool:
        message = f"stream: wanted true or false, found {is_stream!r:.40}"
        raise RefusalError(message, status=400, code="invalid_value", param="stream")
    asked: Json = {name: value for name, value in body.items() if name not in OURS}
    asked["model"] = route.served.name
    if (choices := body.get("n")) is not None:
        _check_choices(choices, route)
    if is_chat:
        _name_limit(asked, kind.max_tokens_field)
    asked |= kind.caller_fields
    if pin is not None:
        impose(asked, pin, whole=kind.whole_sampling, takes_seed=kind.tells_tokens)
    knobs = _settle_sampling(asked, "keep" if pin is not None and pin.is_measured else sampling, route)
    capture = kind.capture_fields(completions=not is_chat)
    wants_ids = bool(body.get("return_token_ids"))
    wants_logprobs = bool(body.get("logprobs")) if is_chat else body.get("logprobs") is not None
    if "return_token_ids" in capture:
        asked["return_token_ids"] = True
    if "logprobs" in capture and not wants_logprobs:
        asked["logprobs"] = capture["logprobs"]
    hides_usage = False
    if is_stream:
        options = body.get("stream_options")
        options = options if isinstance(options, dict) else {}
        if kind.streams_usage:
            hides_usage = not options.get("include_usage")
            asked["stream_options"] = {**options, "include_usage": True}
        else:
            asked.pop("stream_options", None)
    return Question(
        form=form,
        body=asked,
        is_stream=is_stream,
        hides_ids="return_token_ids" in capture and not wants_ids,
        hides_logprobs="logprobs" in capture and not wants_logprobs,
        hides_usage=hides_usage,
        sampling={**knobs, **find_formats(asked), TELLS: kind.name_told(is_declared=route.backend.tells_processed)},
    )


def _check_choices(choices: Any, route: Route) -> None:
    most = route.backend.kind.max_choices
    if type(choices) is int and 1 <= choices <= most:
        return
    words = (
        f"{route.backend.name} gives at most {most}" if type(choices) is int and choices > most else "wanted 1 or more"
    )
    raise RefusalError(f"n: {words}, found {choices!r:.40}", status=400, code="invalid_value", param="n")


def _settle_sampling(asked: Json, policy: SamplingPolicy, route: Route) -> Json:
    """Ask for plain sampling where the project enforces it.

    Only of servers that tell their tokens: of no other can anything be learnt, and some refuse a temperature.

    Returns:
        The knobs that are not neutral in what is asked now.
    Raises:
        RefusalError: the project refuses what was asked for.
    """
    knobs = {name: asked[name] for name in name_knobs(asked)}
    if policy == "refuse" and knobs:
        told, first = ", ".join(f"{name} {value!r:.40}" for name, value in knobs.items()), next(iter(knobs))
        message = f"{first}: this project takes plain sampling alone (temperature 1, nothing cut off), found {told}"
        raise RefusalError(message, status=400, code="sampling_refused", param=first)
    if policy == "enforce" and route.backend.kind.tells_tokens:
        for name in knobs:
            del asked[name]
        asked.update({"temperature": 1.0, **route.backend.kind.whole_sampling})
        knobs = {name: asked[name] for name in name_knobs(asked)}
    return knobs


def read_object(raw: bytes) -> Json:
    """A request's body.

    Raises:
        RefusalError: it is no JSON object, or one with more values or levels than are taken.
    """
    try:
        body = load_bounded(raw)
    except orjson.JSONDecodeError as error:
        raise RefusalError(f"the body is not JSON: {error}", status=400, code="invalid_json") from None
    except BeyondBoundsError as beyond:
        if beyond.bound == "values":
            message, code = f"the body holds more than {beyond.most:,} values", "too_many_values"
        else:
            message = f"the body's lists and objects lie more than {beyond.most} levels within each other"
            code = "too_deep"
        raise RefusalError(message, status=400, code=code, is_recorded=False) from None
    if not isinstance(body, dict):
        message = f"the body must be a JSON object, found {type(body).__name__}"
        raise RefusalError(message, status=400, code="invalid_json")
    return body


def read_model(body: Mapping[str, Any]) -> str:
    """Raises RefusalError where no model is named."""
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise RefusalError("model must be a non-empty string", status=400, code="invalid_value", param="model")
    return model


def guess_usage(raw: bytes, body: Mapping[str, Any]) -> Usage:
    """What a request may use at most, near enough to hold a budget's room for it until its answer says."""
    asked = [body.get(name) for name in (*_LIMITS, "max_output_tokens")]
    most = max((value for value in asked if type(value) is int), default=USUAL_COMPLETION_TOKENS)
    choices = body.get("n")
    completion = max(1, most) * (choices if type(choices) is int and choices > 0 else 1)
    return Usage(prompt=guess_prompt_tokens(len(raw)), completion=completion, cached=0, cache_write=0, reasoning=0)


def _name_limit(asked: Json, wanted: str) -> None:
    """Call the longest answer what this server calls it."""
    for name in _LIMITS:
        if name != wanted and name in asked:
            value = asked.pop(name)
            asked.setdefault(wanted, value)
