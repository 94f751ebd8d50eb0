# mypy: ignore-errors
"""Claude's Agent SDK, which drives the Claude Code it brings, with that one's own tools."""

import asyncio
import os

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query
from told import MODEL, QUESTION, say


async def main():
    options = ClaudeAgentOptions(
        model=MODEL, env=dict(os.environ), allowed_tools=["Bash"], include_partial_messages=True, max_turns=4
    )
    async for message in query(prompt=QUESTION, options=options):
        if isinstance(message, ResultMessage):
            say(message.result)


asyncio.run(main())
