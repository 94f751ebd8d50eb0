"""An agent of Pydantic AI."""

from openai import AsyncOpenAI
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from .tools import TOOLS


class Agent:
    """Pydantic AI's agent with its tools."""

    label = "Pydantic AI"

    async def arun(self, task, config) -> None:
        told = {
            "temperature": config.temperature,
            "top_p": config.top_p,
            "max_tokens": config.max_tokens,
            "seed": config.seed,
        }
        settings = {name: value for name, value in told.items() if value is not None}
        async with AsyncOpenAI(base_url=config.base_url, api_key=config.api_key, timeout=config.timeout_s) as client:
            model = OpenAIChatModel(config.model, provider=OpenAIProvider(openai_client=client))
            agent = PydanticAgent(
                model, instructions=task.system_prompt or None, tools=list(TOOLS), model_settings=settings
            )
            if not config.stream:
                await agent.run(task.prompt)
                return
            async with agent.run_stream(task.prompt) as answer:
                await answer.get_output()
