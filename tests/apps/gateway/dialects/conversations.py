"""Random conversations, answers and ways to cut an answer into chunks."""

import json
from typing import Any

from hypothesis import strategies as st

Json = dict[str, Any]
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
ID = "0123456789abcdef"

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
names = st.from_regex(r"[a-z][a-z_]{0,10}", fullmatch=True)
scalars = st.none() | st.booleans() | st.integers(-1000, 1000) | texts
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=2))
arguments = st.dictionaries(names, values, max_size=3)
images = st.sampled_from([f"data:image/png;base64,{PIXEL}", "https://example.org/a.png"])


@st.composite
def answers_of_assistant(draw: st.DrawFn, *, first_call: int = 0) -> Json:
    """An assistant's message: text, or calls, or both; maybe thoughts."""
    calls = [
        {
            "id": f"call_{first_call + place}",
            "type": "function",
            "function": {
                "name": draw(names),
                "arguments": json.dumps(draw(arguments), ensure_ascii=False),
            },
        }
        for place in range(draw(st.integers(0, 3)))
    ]
    text = draw(st.none() | texts) if calls else draw(texts)
    message: Json = {"role": "assistant", "content": text}
    if thought := draw(st.none() | texts):
        message["reasoning_content"] = thought
    if calls:
        message["tool_calls"] = calls
    return message


@st.composite
def user_messages(draw: st.DrawFn) -> Json:
    if draw(st.booleans()):
        return {"role": "user", "content": draw(texts)}
    shown = [{"type": "image_url", "image_url": {"url": url}} for url in draw(st.lists(images, min_size=1, max_size=2))]
    return {"role": "user", "content": [{"type": "text", "text": draw(texts)}, *shown]}


@st.composite
def conversations(draw: st.DrawFn) -> list[Json]:
    """Messages that end where an answer is wanted: every call has its result."""
    messages: list[Json] = [{"role": "system", "content": draw(texts)}] if draw(st.booleans()) else []
    calls = 0
    for _ in range(draw(st.integers(0, 3))):
        messages.append(draw(user_messages()))
        message = draw(answers_of_assistant(first_call=calls))
        messages.append(message)
        made = message.get("tool_calls", [])
        calls += len(made)
        messages += [{"role": "tool", "tool_call_id": call["id"], "content": draw(texts)} for call in made]
    if messages and messages[-1]["role"] == "tool" and draw(st.booleans()):
        return messages
    return [*messages, draw(user_messages())]


@st.composite
def chat_answers(draw: st.DrawFn) -> Json:
    message = draw(answers_of_assistant())
    finish = "tool_calls" if "tool_calls" in message else draw(st.sampled_from(["stop", "length"]))
    cached, reasoning = draw(st.integers(0, 50)), draw(st.integers(0, 50))
    usage: Json = {
        "prompt_tokens": cached + draw(st.integers(0, 50)),
        "completion_tokens": reasoning + draw(st.integers(0, 50)),
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    }
    usage["total_tokens"] = usage["prompt_tokens"] + usage["completion_tokens"]
    return make_answer(message, finish=finish, usage=usage)


def make_answer(message: Json, *, finish: str = "stop", usage: Json | None = None, **choice: Any) -> Json:
    """A chat answer."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "desk@v3",
        "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None, **choice}],
        "usage": usage or {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12},
    }


@st.composite
def pieces_of(draw: st.DrawFn, text: str) -> list[str]:
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


@st.composite
def cut_into_chunks(draw: st.DrawFn, answer: Json) -> list[Json]:
    """Chunks of the same answer; the pieces of parallel calls may be mixed, as some servers send them."""
    choice = answer["choices"][0]
    message = choice["message"]
    deltas: list[Json] = [{"role": "assistant", "content": ""}]
    for key in ("reasoning_content", "content"):
        deltas += [{key: piece} for piece in draw(pieces_of(message.get(key) or ""))]
    queues = []
    for place, call in enumerate(message.get("tool_calls") or ()):
        head = {"index": place, "id": call["id"], "type": "function", "function": {"name": call["function"]["name"]}}
        pieces = draw(pieces_of(call["function"]["arguments"]))
        queues.append([head, *({"index": place, "function": {"arguments": piece}} for piece in pieces)])
    mixes = draw(st.booleans())
    while queues:
        begun = [queue for queue in queues if "id" not in queue[0]]
        waiting = [queue for queue in queues if "id" in queue[0]]
        queue = draw(st.sampled_from([*begun, *waiting[:1]])) if mixes else queues[0]
        deltas.append({"tool_calls": [queue.pop(0)]})
        queues = [queue for queue in queues if queue]
    head = {key: answer[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    chunks = [head | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append(head | {"choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]})
    if draw(st.booleans()):
        return [*chunks, head | {"choices": [], "usage": answer["usage"]}]
    chunks[-1]["usage"] = answer["usage"]
    return chunks


def read_events(data: bytes) -> list[Json]:
    """The JSON of server-sent events, and each event's name where it has one."""
    events = []
    for block in data.decode().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.split("\n") if line)
        if "data" in lines and lines["data"] != "[DONE]":
            event = json.loads(lines["data"])
            assert lines.get("event") in (None, event.get("type"))
            events.append(event)
    return events
