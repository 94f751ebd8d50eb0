# mypy: ignore-errors
"""LiteLLM's library as a client of an OpenAI-compatible server, of Anthropic's, and of a LiteLLM proxy."""

import json

import litellm
from told import FUNCTION, KEY, MODEL, QUESTION, ROOT, V1, say, weather

TOOLS = [{"type": "function", "function": FUNCTION}]
for kind, base in (("openai", V1), ("anthropic", ROOT), ("hosted_vllm", V1), ("litellm_proxy", ROOT)):
    messages = [{"role": "user", "content": f"{QUESTION} ({kind})"}]
    while True:
        given = {"model": f"{kind}/{MODEL}", "api_base": base, "api_key": KEY, "max_tokens": 99}
        chunks = list(litellm.completion(**given, messages=messages, tools=TOOLS, stream=True))
        message = litellm.stream_chunk_builder(chunks, messages=messages).choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            break
        for call in message.tool_calls:
            found = weather(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": found})
    say(message.content)
