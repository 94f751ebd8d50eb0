# mypy: ignore-errors
"""Claude's Agent SDK, which drives the Claude Code it brings, with a tool of ours over MCP."""

import asyncio
import os

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, create_sdk_mcp_server, query, tool
from told import MODEL, QUESTION, say, weather


@tool("weather", "The sky over a city.", {"city": str})
async def look(given):
    return {"content": [{"type": "text", "text": weather(given["city"])}]}


async def main():
    options = ClaudeAgentOptions(
        model=MODEL,
        env=dict(os.environ),
        mcp_servers={"sky": create_sdk_mcp_server("sky", tools=[look])},
        allowed_tools=["mcp__sky__weather"],
        include_partial_messages=True,
        max_turns=4,
    )
    async for message in query(prompt=QUESTION, options=options):
        if isinstance(message, ResultMessage):
            say(message.result)


asyncio.run(main())
