"""An agent of smolagents."""

from smolagents import OpenAIServerModel, ToolCallingAgent, tool
from smolagents.monitoring import LogLevel

from .tools import TOOLS

MOST_TURNS = 12


class Agent:
    """smolagents' agent that calls tools."""

    label = "smolagents"

    def run(self, task, config) -> str:
        told = {
            "temperature": config.temperature,
            "top_p": config.top_p,
            "max_tokens": config.max_tokens,
            "seed": config.seed,
        }
        settings = {name: value for name, value in told.items() if value is not None}
        model = OpenAIServerModel(config.model, api_base=config.base_url, api_key=config.api_key, **settings)
        agent = ToolCallingAgent(
            tools=[tool(one) for one in TOOLS], model=model, instructions=task.system_prompt or None,
            max_steps=MOST_TURNS, stream_outputs=config.stream, verbosity_level=LogLevel.OFF,
        )  # fmt: skip
        return str(agent.run(task.prompt))
