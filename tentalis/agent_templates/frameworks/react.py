"""An agent without a framework: its model calls tools until it answers."""

from .loop import run_loop
from .tools import TOOLS


class Agent:
    """Calls tools until it knows the answer."""

    label = "ReAct"

    async def arun(self, task, config) -> None:
        tools = {tool.__name__: tool for tool in TOOLS}

        async def call(name, arguments):
            if name not in tools:
                return f"there is no tool {name}"
            return tools[name](**arguments)

        await run_loop(task, config, tools=TOOLS, call=call)  # None: the gateway saw it all
