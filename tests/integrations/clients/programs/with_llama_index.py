# mypy: ignore-errors
"""LlamaIndex's agent that calls functions, on its model for OpenAI-compatible servers, streamed."""

import asyncio

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai_like import OpenAILike
from told import KEY, MODEL, QUESTION, V1, say, weather


async def main():
    llm = OpenAILike(
        model=MODEL, api_base=V1, api_key=KEY, is_chat_model=True, is_function_calling_model=True, context_window=8000
    )
    handler = FunctionAgent(tools=[weather], llm=llm, streaming=True).run(QUESTION)
    async for _ in handler.stream_events():
        pass
    say(await handler)


asyncio.run(main())
