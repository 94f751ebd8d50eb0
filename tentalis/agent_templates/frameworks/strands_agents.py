"""An agent of Strands Agents."""

from strands import Agent as StrandsAgent
from strands import tool
from strands.models.openai import OpenAIModel

from .tools import TOOLS


class Agent:
    """Strands' agent with its tools. Its models always stream."""

    label = "Strands Agents"

    async def arun(self, task, config) -> None:
        told = {
            "temperature": config.temperature,
            "top_p": config.top_p,
            "max_tokens": config.max_tokens,
            "seed": config.seed,
        }
        settings = {name: value for name, value in told.items() if value is not None}
        client = {"base_url": config.base_url, "api_key": config.api_key, "timeout": config.timeout_s}
        model = OpenAIModel(client_args=client, model_id=config.model, params=settings)
        agent = StrandsAgent(
            model=model,
            tools=[tool(one) for one in TOOLS],
            system_prompt=task.system_prompt or None,
            callback_handler=None,
        )
        await agent.invoke_async(task.prompt)
