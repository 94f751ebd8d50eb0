"""An agent whose calls are looked at before they are made."""

from .loop import run_loop
from .rules import find_objection
from .tools import TOOLS


class Agent:
    """Calls tools until it knows the answer, those that the rules allow."""

    label = "Supervised"

    async def arun(self, task, config) -> None:
        tools = {tool.__name__: tool for tool in TOOLS}

        async def call(name, arguments):
            if objection := find_objection(name, arguments):
                return f"not allowed: {objection}"
            return tools[name](**arguments)

        await run_loop(task, config, tools=TOOLS, call=call)
