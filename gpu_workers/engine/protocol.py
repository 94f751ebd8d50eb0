"""Requests of vLLM's dialect, read strictly: a wrong, unknown or unsupported field is named, never ignored."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpu_workers.engine.errors import InvalidRequestError
from gpu_workers.engine.jobs import SamplingOptions
from gpu_workers.engine.models import LoadedModel
from gpu_workers.engine.text import TextCodec
from tentalis.core.tool_calls import read_arguments

MAX_ALTERNATIVES = 20
MAX_STOPS = 16
MAX_STOP_CHARACTERS = 200
_IGNORED = frozenset(
    {"user", "metadata", "store", "service_tier", "priority", "cache_salt", "request_id", "safety_identifier"}
)
"""Fields that ask for nothing an engine does."""
_NEUTRAL: Mapping[str, Sequence[Any]] = {
    "best_of": (None, 1),
    "echo": (None, False),
    "suffix": (None, ""),
    "logit_bias": (None, {}),
    "min_p": (None, 0),
    "min_tokens": (None, 0),
    "use_beam_search": (None, False),
    "bad_words": (None, []),
    "parallel_tool_calls": (None, True, False),
    "functions": (None, []),
    "continue_final_message": (None, False),
    "spaces_between_special_tokens": (None, True),
    "detokenize": (None, True),
}
"""Fields the engine does not support, with the values that ask for nothing."""
_HINTS = frozenset({"prompt_cache_key", "prompt_cache_retention", "reasoning_effort", "verbosity", "modalities"})
"""Fields that ask for what may be left undone; and so they are with `drop_params`, LiteLLM's word for that."""


class Fields:
    """A JSON object read field by field; `finish` refuses what nobody read."""

    def __init__(self, body: object) -> None:
        if not isinstance(body, dict):
            raise InvalidRequestError(f"the body must be a JSON object, found {_kind(body)}")
        self._body: dict[str, Any] = body
        self._seen: set[str] = set()
        self.drops_hints: bool = self.flag("drop_params")

    def take(self, name: str) -> Any:
        self._seen.add(name)
        return self._body.get(name)

    def integer(self, name: str, default: int | None, low: int, high: int) -> Any:
        value = self.take(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise InvalidRequestError(
                f"{name} must be an integer from {low} to {high}, found {_show(value)}", param=name
            )
        return value

    def number(self, name: str, default: float, low: float, high: float, *, excludes_low: bool = False) -> float:
        value = self.take(name)
        if value is None:
            return default
        fits = isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
        if not fits or (excludes_low and value == low):
            opening = "above" if excludes_low else "from"
            raise InvalidRequestError(
                f"{name} must be a number {opening} {low} to {high}, found {_show(value)}", param=name
            )
        return float(value)

    def flag(self, name: str, *, default: bool = False) -> bool:
        value = self.take(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise InvalidRequestError(f"{name} must be true or false, found {_show(value)}", param=name)
        return value

    def string(self, name: str, default: str | None = None) -> str:
        """A non-empty one, or the default where that is sent or nothing is; without a default it must be there."""
        value = self.take(name)
        if default is not None and value in (None, default):
            return default
        if not isinstance(value, str) or not value:
            raise InvalidRequestError(f"{name} must be a non-empty string, found {_show(value)}", param=name)
        return value

    def strings(self, name: str) -> tuple[str, ...]:
        """One string or a list of them."""
        value = self.take(name)
        values = [] if value is None else [value] if isinstance(value, str) else value
        if not isinstance(values, list) or not all(isinstance(each, str) and each for each in values):
            raise InvalidRequestError(
                f"{name} must be a non-empty string or a list of them, found {_show(value)}", param=name
            )
        return tuple(values)

    def token_ids(self, name: str, value: Any) -> list[int]:
        if not _are_integers(value) or min(value, default=0) < 0:
            raise InvalidRequestError(
                f"{name} must be a list of token ids, 0 or above, found {_show(value)}", param=name
            )
        ids: list[int] = value
        return ids

    def finish(self) -> None:
        """Raises InvalidRequestError for a field nobody read, unless it asks for nothing."""
        for name, value in self._body.items():
            if name in self._seen or name in _IGNORED or (self.drops_hints and name in _HINTS):
                continue
            if name not in _NEUTRAL:
                raise InvalidRequestError(f"unknown field {name!r}", param=name, code="unknown_field")
            if not any(value == neutral for neutral in _NEUTRAL[name]):
                raise InvalidRequestError(
                    f"{name} is not supported by this engine, found {_show(value)}",
                    param=name,
                    code="unsupported_field",
                )


@dataclass(frozen=True)
class GenerationRequest:
    """A completions or chat request, ready to become a job.

    Args:
        returns_token_ids: put token ids of prompt and answer into the response.
        names_by_id: log-probs name each token `token_id:N`, so that alternatives of one spelling stay apart.
        reads_calls: tool calls in the answers' text are told as such.
        includes_usage: a stream ends with a usage chunk.
        score_starts: as a job has them.
    """

    loaded: LoadedModel
    prompts: Sequence[Sequence[int]]
    options: SamplingOptions
    returns_token_ids: bool
    includes_usage: bool
    is_chat: bool
    names_by_id: bool = False
    reads_calls: bool = False
    score_starts: Sequence[int] = ()


def read_completion(body: object, find_model: Callable[[str], LoadedModel], codec: TextCodec) -> GenerationRequest:
    """Read the body of /v1/completions."""
    fields = Fields(body)
    loaded = find_model(fields.string("model"))
    prompts = _read_prompts(fields, codec)
    logprobs = fields.integer("logprobs", None, 0, MAX_ALTERNATIVES)
    limit = fields.integer("max_tokens", 16, 0, 2**31)
    return _read_rest(fields, loaded, prompts, limit, logprobs, is_chat=False)


def read_chat(body: object, find_model: Callable[[str], LoadedModel], codec: TextCodec) -> GenerationRequest:
    """Read the body of /v1/chat/completions."""
    fields = Fields(body)
    loaded = find_model(fields.string("model"))
    messages = _read_messages(fields)
    variables = fields.take("chat_template_kwargs") or {}
    if not isinstance(variables, dict):
        raise InvalidRequestError(
            f"chat_template_kwargs must be an object, found {_show(variables)}", param="chat_template_kwargs"
        )
    tools, reads_calls = _read_tools(fields, codec)
    if tools:
        variables = {**variables, "tools": tools}
    adds_prompt = fields.flag("add_generation_prompt", default=True)
    text = codec.render_chat(messages, add_generation_prompt=adds_prompt, variables=variables)
    prompt = codec.encode([text], add_special_tokens=fields.flag("add_special_tokens"))[0]
    wants = fields.flag("logprobs")
    alternatives = fields.integer("top_logprobs", 0, 0, MAX_ALTERNATIVES)
    if alternatives and not wants:
        raise InvalidRequestError("top_logprobs needs logprobs to be true", param="top_logprobs")
    room = loaded.model.context_length - len(prompt)
    limit = fields.integer("max_tokens", None, 0, 2**31)
    limit = fields.integer("max_completion_tokens", limit, 0, 2**31)
    if limit is None and room < 1:
        raise InvalidRequestError(
            f"the model's context is {loaded.model.context_length} tokens; the prompt has {len(prompt)}",
            param="messages",
            code="context_length_exceeded",
        )
    asked = _read_rest(
        fields, loaded, [prompt], room if limit is None else limit, alternatives if wants else None, is_chat=True
    )
    return replace(asked, reads_calls=reads_calls)


def _read_rest(
    fields: Fields,
    loaded: LoadedModel,
    prompts: Sequence[Sequence[int]],
    limit: int,
    logprobs: int | None,
    *,
    is_chat: bool,
) -> GenerationRequest:
    streams = fields.flag("stream")
    stream_options = fields.take("stream_options")
    if stream_options is not None and not (streams and isinstance(stream_options, dict)):
        raise InvalidRequestError("stream_options must be an object, and only with stream true", param="stream_options")
    prompt_logprobs = fields.integer("prompt_logprobs", None, 0, MAX_ALTERNATIVES)
    if prompt_logprobs is not None and streams:
        raise InvalidRequestError("prompt_logprobs cannot be streamed", param="prompt_logprobs")
    score_starts = _read_starts(fields, prompts) if prompt_logprobs is not None else ()
    stops = fields.strings("stop")
    if len(stops) > MAX_STOPS or any(len(stop) > MAX_STOP_CHARACTERS for stop in stops):
        raise InvalidRequestError(
            f"stop takes at most {MAX_STOPS} strings of at most {MAX_STOP_CHARACTERS} characters", param="stop"
        )
    seed = fields.integer("seed", None, -(2**63), 2**64 - 1)
    options = SamplingOptions(
        n=fields.integer("n", 1, 1, 2**31),
        max_tokens=limit,
        temperature=fields.number("temperature", 1.0, 0.0, 100.0),
        top_p=fields.number("top_p", 1.0, 0.0, 1.0, excludes_low=True),
        top_k=max(0, fields.integer("top_k", 0, -1, 2**31)),
        presence_penalty=fields.number("presence_penalty", 0.0, -2.0, 2.0),
        frequency_penalty=fields.number("frequency_penalty", 0.0, -2.0, 2.0),
        repetition_penalty=fields.number("repetition_penalty", 1.0, 0.0, 10.0, excludes_low=True),
        seed=secrets.randbits(64) if seed is None else seed,
        stops=stops,
        stop_token_ids=frozenset(fields.token_ids("stop_token_ids", fields.take("stop_token_ids") or [])),
        ignores_eos=fields.flag("ignore_eos"),
        keeps_stop=fields.flag("include_stop_str_in_output"),
        skips_special=fields.flag("skip_special_tokens", default=True),
        top_logprobs=logprobs,
        prompt_logprobs=prompt_logprobs,
        streams=streams,
        grammar=_read_format(fields),
    )
    returns_token_ids = fields.flag("return_token_ids")
    names_by_id = fields.flag("return_tokens_as_token_ids")
    fields.finish()
    includes_usage = bool(stream_options and stream_options.get("include_usage"))
    return GenerationRequest(
        loaded, prompts, options, returns_token_ids, includes_usage, is_chat, names_by_id, score_starts=score_starts
    )


def _read_starts(fields: Fields, prompts: Sequence[Sequence[int]]) -> list[int]:
    """From which token on each prompt's log-probs are told: one number, or one a prompt, as SGLang reads it."""
    name = "logprob_start_len"
    value = fields.take(name)
    starts = value if isinstance(value, list) else [value or 0] * len(prompts)
    is_whole = _are_integers(starts) and len(starts) == len(prompts)
    if not is_whole or any(not 0 <= start <= len(prompt) for start, prompt in zip(starts, prompts, strict=True)):
        raise InvalidRequestError(
            f"{name} must be a place in the prompt, or one in each of the {len(prompts)}, found {_show(value)}",
            param=name,
        )
    return starts


def _read_format(fields: Fields) -> str:
    """The grammar of what `response_format` asks for; "" where it asks for nothing."""
    name, value = "response_format", fields.take("response_format")
    if value is None or value == {"type": "text"}:
        return ""
    from gpu_workers.engine.grammar import write_grammar  # only who asks for a grammar needs its library

    kind = value.get("type") if isinstance(value, dict) else None
    if kind == "json_object":
        return write_grammar({"type": "object"}, param=name)
    if kind != "json_schema":
        raise InvalidRequestError(
            f"{name} must be an object of type text, json_object or json_schema, found {_show(value)}", param=name
        )
    described = value.get("json_schema")
    schema = described.get("schema") if isinstance(described, dict) else None
    if not isinstance(schema, dict):
        raise InvalidRequestError(
            f'{name}.json_schema must be {{"name", "schema"}} with a schema that is an object, '
            f"found {_show(described)}",
            param=name,
        )
    return write_grammar(schema, param=name)


def _read_prompts(fields: Fields, codec: TextCodec) -> list[list[int]]:
    """A string, a list of strings, token ids, or a list of token id lists."""
    value = fields.take("prompt")
    adds_special = fields.flag("add_special_tokens", default=True)
    if isinstance(value, str):
        return codec.encode([value], add_special_tokens=adds_special)
    if not isinstance(value, list) or not value:
        raise InvalidRequestError(
            f"prompt must be a string, a list of strings, token ids or a list of token id lists, found {_show(value)}",
            param="prompt",
        )
    if all(isinstance(each, str) for each in value):
        return codec.encode(value, add_special_tokens=adds_special)
    if isinstance(value[0], list):
        return [fields.token_ids("prompt", each) for each in value]
    return [fields.token_ids("prompt", value)]


def _read_messages(fields: Fields) -> list[dict[str, Any]]:
    """Chat messages with text content; content parts of type text are joined."""
    value = fields.take("messages")
    if not isinstance(value, list) or not value:
        raise InvalidRequestError(f"messages must be a non-empty list, found {_show(value)}", param="messages")
    messages = []
    for index, message in enumerate(value):
        name = f"messages[{index}]"
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise InvalidRequestError(f"{name} must be an object with a role, found {_show(message)}", param="messages")
        content = message.get("content")
        if isinstance(content, list):
            texts = [part["text"] for part in content if _is_text_part(part)]
            if len(texts) != len(content):
                raise InvalidRequestError(f"{name}.content may hold text parts only", param="messages")
            content = "".join(texts)
        if content is not None and not isinstance(content, str):
            raise InvalidRequestError(f"{name}.content must be a string, found {_show(content)}", param="messages")
        messages.append({**message, "content": content or "", **_read_told_calls(message, name)})
    return messages


def _read_told_calls(message: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The message's calls as templates want them: with arguments that are objects, where they can be read."""
    calls = message.get("tool_calls")
    if calls is None:
        return {}
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        raise InvalidRequestError(
            f"{name}.tool_calls must be a list of objects, found {_show(calls)}", param="messages"
        )
    read = []
    for call in calls:
        function = call.get("function")
        if isinstance(function, dict) and isinstance(function.get("arguments"), str):
            found = read_arguments(function["arguments"])
            function = function if found is None else {**function, "arguments": found}
        read.append({**call, "function": function} if function is not None else call)
    return {"tool_calls": read} if read else {}


def _read_tools(fields: Fields, codec: TextCodec) -> tuple[list[Any], bool]:
    """The tools that the prompt tells of, and whether calls are looked for in the answer.

    With `tool_choice` none the prompt is the same, as at vLLM, and the answer stays text. Where hints are dropped, so
    are tools that the model's template has no place for: a model may always answer without a call.
    """
    tools, choice = fields.take("tools") or [], fields.take("tool_choice")
    if choice not in (None, "none", "auto"):
        raise InvalidRequestError(
            f"tool_choice must be none or auto: this engine makes no model call, found {_show(choice)}",
            param="tool_choice",
            code="unsupported_field",
        )
    if not isinstance(tools, list) or not all(_is_tool(tool) for tool in tools):
        raise InvalidRequestError(
            f'tools must be a list of {{"type": "function", "function": {{"name", …}}}}, found {_show(tools)}',
            param="tools",
        )
    if tools and not codec.takes_tools and fields.drops_hints:
        return [], False
    if tools and not codec.takes_tools:
        raise InvalidRequestError(
            "tools are not supported by this model: its chat template does not write them",
            param="tools",
            code="unsupported_field",
        )
    return tools, bool(tools) and choice != "none"


def _is_tool(tool: object) -> bool:
    function = tool.get("function") if isinstance(tool, dict) and tool.get("type") == "function" else None
    return isinstance(function, dict) and isinstance(function.get("name"), str) and bool(function["name"])


def _is_text_part(part: object) -> bool:
    return isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)


def _are_integers(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, int) and not isinstance(each, bool) for each in value)


def _kind(value: object) -> str:
    return {dict: "an object", list: "a list", str: "a string", type(None): "nothing"}.get(
        type(value), type(value).__name__
    )


def _show(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:80]}…"
