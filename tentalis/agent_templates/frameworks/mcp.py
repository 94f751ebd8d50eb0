"""An agent whose tools are those of an MCP server, a program of its own that each try starts."""

import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from .loop import run_loop

SERVER = StdioServerParameters(command=sys.executable, args=["-m", f"{__package__}.server"])


class Agent:
    """Calls the tools of an MCP server until it knows the answer."""

    label = "MCP"

    async def arun(self, task, config) -> None:
        async with stdio_client(SERVER) as (reader, writer), ClientSession(reader, writer) as session:
            await session.initialize()
            found = (await session.list_tools()).tools
            tools = [
                {
                    "type": "function",
                    "function": {
                        "name": one.name,
                        "description": one.description or "",
                        "parameters": _read_schema(one),
                    },
                }
                for one in found
            ]

            async def call(name, arguments):
                result = await session.call_tool(name, arguments)
                return "\n".join(part.text for part in result.content if getattr(part, "text", None))

            await run_loop(task, config, tools=tools, call=call)


def _read_schema(tool) -> dict:
    return getattr(tool, "input_schema", None) or tool.inputSchema  # by its version
