# mypy: ignore-errors
"""Pydantic AI's agent on each of its models that a gateway can stand behind, streamed."""

import asyncio

from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from told import KEY, MODEL, QUESTION, ROOT, V1, say, weather


async def main():
    openai = OpenAIProvider(base_url=V1, api_key=KEY)
    for model in (
        OpenAIChatModel(MODEL, provider=openai),
        OpenAIResponsesModel(MODEL, provider=openai),
        AnthropicModel(MODEL, provider=AnthropicProvider(base_url=ROOT, api_key=KEY)),
    ):
        agent = Agent(model, instructions=f"You are {type(model).__name__}.", tools=[weather])
        async with agent.run_stream(QUESTION) as result:
            say(await result.get_output())


asyncio.run(main())
