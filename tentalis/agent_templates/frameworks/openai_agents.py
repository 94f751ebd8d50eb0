"""An agent of OpenAI's Agents SDK."""

from agents import Agent as SdkAgent
from agents import ModelSettings, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

from .tools import TOOLS

set_tracing_disabled(True)  # it would be sent to OpenAI


class Agent:
    """OpenAI's agent loop on the chat API."""

    label = "OpenAI Agents"

    async def arun(self, task, config) -> None:
        settings = ModelSettings(
            temperature=config.temperature, top_p=config.top_p, max_tokens=config.max_tokens,
            extra_body=None if config.seed is None else {"seed": config.seed}, include_usage=config.stream or None,
        )  # fmt: skip
        async with AsyncOpenAI(base_url=config.base_url, api_key=config.api_key, timeout=config.timeout_s) as client:
            agent = SdkAgent(
                name="agent", instructions=task.system_prompt or None, tools=[function_tool(one) for one in TOOLS],
                model=OpenAIChatCompletionsModel(model=config.model, openai_client=client), model_settings=settings,
            )  # fmt: skip
            if not config.stream:
                await Runner.run(agent, task.prompt)
                return
            async for _ in Runner.run_streamed(agent, task.prompt).stream_events():
                pass
