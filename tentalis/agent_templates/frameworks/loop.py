"""A loop over tool calls, with OpenAI's client alone."""

import inspect
import json

from openai import AsyncOpenAI

MOST_TURNS = 12
_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}


def describe(tool) -> dict:
    """A function as the chat API offers it."""
    properties = {
        name: {"type": _TYPES.get(parameter.annotation, "string")}
        for name, parameter in inspect.signature(tool).parameters.items()
    }
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    about = (inspect.getdoc(tool) or "").partition("\n")[0]
    return {"type": "function", "function": {"name": tool.__name__, "description": about, "parameters": schema}}


async def run_loop(task, config, *, tools, call) -> None:
    """Ask, make the calls that are wanted, and ask again, until there are none.

    Args:
        tools: functions, or what the chat API takes for them.
        call: (name, arguments) -> what the tool said.
    """
    offered = [tool if isinstance(tool, dict) else describe(tool) for tool in tools]
    told = {
        "temperature": config.temperature,
        "top_p": config.top_p,
        "max_tokens": config.max_tokens,
        "seed": config.seed,
    }
    settings = {name: value for name, value in told.items() if value is not None}
    messages = list(task.messages)
    client = AsyncOpenAI(base_url=config.base_url, api_key=config.api_key, timeout=config.timeout_s)
    async with client:
        for _ in range(MOST_TURNS):
            asked = {"model": config.model, "messages": messages, "tools": offered, **settings}
            message = await _ask(client, asked, stream=config.stream)
            messages.append(message.model_dump(exclude_none=True, include={"role", "content", "tool_calls"}))
            if not message.tool_calls:
                return
            for one in message.tool_calls:
                try:
                    said = await call(one.function.name, _read_arguments(one.function.arguments))
                except (ValueError, TypeError) as error:
                    said = f"these arguments cannot be used: {error}"
                messages.append({"role": "tool", "tool_call_id": one.id, "content": said})


def _read_arguments(written) -> dict:
    """Args: written: by the model, who may write anything; nothing, or null, where a tool takes none."""
    arguments = json.loads(written or "{}")
    if not isinstance(arguments, dict | None):
        raise ValueError(f"wanted an object, found {written:.80}")
    return arguments or {}


async def _ask(client, asked, *, stream):
    if not stream:
        return (await client.chat.completions.create(**asked)).choices[0].message
    async with client.chat.completions.stream(**asked) as events:
        return (await events.get_final_completion()).choices[0].message
