"""An agent of LangChain, which runs on LangGraph."""

from langchain.agents import create_agent
from langchain_openai import ChatOpenAI

from .tools import TOOLS


class Agent:
    """A graph of a model and its tools."""

    label = "LangGraph"

    async def arun(self, task, config) -> None:
        model = ChatOpenAI(
            model=config.model, base_url=config.base_url, api_key=config.api_key, temperature=config.temperature,
            top_p=config.top_p, max_tokens=config.max_tokens, seed=config.seed, timeout=config.timeout_s,
            streaming=config.stream, stream_usage=config.stream,
        )  # fmt: skip
        agent = create_agent(model, list(TOOLS), system_prompt=task.system_prompt or None)
        await agent.ainvoke({"messages": [{"role": "user", "content": task.prompt}]})
