"""Tools for the conversations that the gateway saw."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from tentalis.client import AsyncClient, Json
from tentalis.mcp.connection import Connect, read_rows
from tentalis.mcp.shapes import Exchange, Session, SessionReport, Sessions
from tentalis.mcp.tasks import READS, Limit, ProjectSlug

INTERNAL_MARK = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>"
"""How OpenClaw marks what it tells the model itself, in a user's place."""


def add_session_tools(server: MCPServer[Any], connect: Connect) -> None:
    """Register them."""

    @server.tool(annotations=READS)
    async def list_sessions(
        ctx: Context[Any, Any],
        project: ProjectSlug = "",
        worker: str = "",
        limit: Limit = 20,
    ) -> Sessions:
        """The newest conversations with agents; an agent is shown its own."""
        async with connect(ctx) as client:
            rows = await read_rows(client.list_sessions, limit, project=project, worker=worker)
            return Sessions(sessions=[Session.model_validate(row) for row in rows])

    @server.tool(annotations=READS)
    async def read_session(
        ctx: Context[Any, Any],
        session_id: Annotated[int | None, Field(ge=1, description="Its number.")] = None,
        key: Annotated[str, Field(description="Or its key, as the agent names it.")] = "",
        limit: Annotated[int, Field(ge=1, le=20, description="Latest exchanges.")] = 5,
    ) -> SessionReport:
        """A conversation's latest exchanges in words: what was said, what the agent answered, which adapter it was."""
        if (session_id is None) == (not key):
            raise ToolError("wanted session_id or key, one of them")
        async with connect(ctx) as client:
            session = await _find_session(client, session_id, key)
            rows = await read_rows(client.list_exchanges, limit, session=session["id"])
            found = await asyncio.gather(*(client.get_exchange(row["id"]) for row in rows))
            return SessionReport(
                session=Session.model_validate(session),
                exchanges=[_read_exchange(row) for row in sorted(found, key=lambda row: int(row["id"]))],
            )


async def _find_session(client: AsyncClient, session_id: int | None, key: str) -> Json:
    if session_id is not None:
        return await client.get_session(session_id)
    rows = await read_rows(client.list_sessions, 2, key=key)
    if len(rows) != 1:
        raise ToolError(f"wanted one session of key {key!r} that you may see, found {len(rows)}: read it by number")
    return rows[0]


def _read_exchange(row: Mapping[str, Any]) -> Exchange:
    return Exchange.model_validate({**row, "adapter": row["adapter"] or None, "said": find_said(row["messages"])})


def find_said(messages: Sequence[Mapping[str, Any]]) -> str:
    """The last thing a person or a tool said, without what an agent told its model in their place."""
    for message in reversed(messages):
        words = _read_content(message.get("content"))
        if message.get("role") in {"user", "tool"} and not words.lstrip().startswith(INTERNAL_MARK):
            return words
    return ""


def _read_content(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text", "")) for part in content or () if isinstance(part, Mapping))
