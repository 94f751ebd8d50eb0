# mypy: ignore-errors
"""AutoGen's assistant with a tool, streamed."""

import asyncio

from autogen_agentchat.agents import AssistantAgent
from autogen_ext.models.openai import OpenAIChatCompletionClient
from told import KEY, MODEL, QUESTION, V1, say, weather

ABLE = {"vision": False, "function_calling": True, "json_output": True, "structured_output": True, "family": "unknown"}


async def main():
    client = OpenAIChatCompletionClient(
        model=MODEL, base_url=V1, api_key=KEY, model_info=ABLE, include_name_in_message=False
    )
    agent = AssistantAgent(
        "teller", client, tools=[weather], model_client_stream=True, reflect_on_tool_use=True, description="tells"
    )
    result = None
    async for event in agent.run_stream(task=QUESTION):
        result = event
    say(result.messages[-1].content)


asyncio.run(main())
