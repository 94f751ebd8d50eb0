"""A crew of CrewAI with one agent."""

import os

os.environ.setdefault("CREWAI_DISABLE_TELEMETRY", "true")  # before it is imported
os.environ.setdefault("OTEL_SDK_DISABLED", "true")
os.environ.setdefault("CREWAI_TRACING_ENABLED", "false")

from crewai import LLM, Crew, Task
from crewai import Agent as CrewAgent
from crewai.tools import tool

from .tools import TOOLS

MOST_TURNS = 12


class Agent:
    """CrewAI's agent with its tools."""

    label = "CrewAI"

    def run(self, task, config) -> str:
        told = {
            "temperature": config.temperature,
            "top_p": config.top_p,
            "max_tokens": config.max_tokens,
            "seed": config.seed,
        }
        settings = {name: value for name, value in told.items() if value is not None}
        llm = LLM(
            model=config.model, provider="openai", base_url=config.base_url, api_key=config.api_key, stream=config.stream,
            timeout=config.timeout_s, **settings,
        )  # fmt: skip
        agent = CrewAgent(
            role="Agent", goal="Do the task with the tools.", backstory=task.system_prompt or "You work carefully.",
            tools=[tool(one.__name__)(one) for one in TOOLS], llm=llm, max_iter=MOST_TURNS, verbose=False,
        )  # fmt: skip
        work = Task(description=task.prompt, expected_output="The answer.", agent=agent)
        return str(Crew(agents=[agent], tasks=[work], verbose=False, tracing=False).kickoff())
