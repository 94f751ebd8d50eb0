# mypy: ignore-errors
"""The Agents SDK of OpenAI: an agent with a tool, in both dialects, streamed."""

import asyncio

from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from told import KEY, MODEL, QUESTION, V1, say, weather


async def main():
    set_tracing_disabled(True)
    client = AsyncOpenAI(base_url=V1, api_key=KEY)
    for kind in (OpenAIResponsesModel, OpenAIChatCompletionsModel):
        agent = Agent(
            name=kind.__name__,
            instructions=f"You are {kind.__name__}.",
            model=kind(MODEL, client),
            tools=[function_tool(weather)],
        )
        result = Runner.run_streamed(agent, QUESTION)
        async for _ in result.stream_events():
            pass
        say(result.final_output)


asyncio.run(main())
