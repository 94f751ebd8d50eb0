"""The MCP server and its two transports."""

from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import Tool
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from tentalis.mcp.approvals import add_approval_tools
from tentalis.mcp.connection import Connect, connect_as_caller, connect_with, read_bearer
from tentalis.mcp.feedback import add_feedback_tools
from tentalis.mcp.learning import add_learning_tools
from tentalis.mcp.reviews import add_review_tools
from tentalis.mcp.sessions import add_session_tools
from tentalis.mcp.tasks import add_task_tools

PATH = "/mcp"
INSTRUCTIONS = (
    "Tentalis gives tasks to agents that learn from what people say of their work. submit_task gives work, check_task "
    "follows it, submit_result hands in your own. When someone says whether an answer was good, pass it on with "
    "give_feedback at once and in their words: it is what the worker learns from; never make up a score. If your "
    "worker is supervised, ask with propose_action before you act and do only what the outcome permits. Whoever judges "
    "others' work takes it with claim_review and says what they think with submit_review."
)


class StrictServer(MCPServer[Any]):
    """Refuses arguments that a tool does not have: what is dropped in silence is taken for done."""

    async def list_tools(self) -> list[Tool]:
        tools = await super().list_tools()
        for tool in tools:
            tool.input_schema["additionalProperties"] = False
        return tools

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None) -> Any:
        known = next((tool.input_schema["properties"] for tool in await self.list_tools() if tool.name == name), None)
        if known is not None and (unknown := sorted(set(arguments) - set(known))):
            wanted = ", ".join(known) or "none"
            raise ToolError(f"{name} has no argument {', '.join(unknown)[:200]}; it takes {wanted}")
        return await super().call_tool(name, arguments, context)


def make_server(connect: Connect) -> MCPServer[Any]:
    """The server with all its tools; each call asks `connect` for a client."""
    server: MCPServer[Any] = StrictServer(
        "tentalis", title="Tentalis", instructions=INSTRUCTIONS, log_level="WARNING", subscriptions=False
    )
    add_task_tools(server, connect)
    add_feedback_tools(server, connect)
    add_session_tools(server, connect)
    add_approval_tools(server, connect)
    add_review_tools(server, connect)
    add_learning_tools(server, connect)
    return server


async def serve_stdio(url: str, token: str) -> None:
    """Serve one program over this process's standard input and output, with one token."""
    await make_server(connect_with(url, token)).run_stdio_async()


def make_http_app(url: str, *, allowed_hosts: list[str]) -> ASGIApp:
    """Streamable HTTP at `PATH`. Each request brings its own token; without one it is refused.

    Args:
        allowed_hosts: Host headers that are answered (`127.0.0.1:*`): a page elsewhere cannot reach us by a name of its
            own.
    """
    security = TransportSecuritySettings(
        allowed_hosts=allowed_hosts, allowed_origins=[f"http://{host}" for host in allowed_hosts]
    )
    app = make_server(connect_as_caller(url)).streamable_http_app(
        streamable_http_path=PATH, json_response=True, stateless_http=True, transport_security=security
    )
    return RequireBearer(app)


class RequireBearer:
    """Refuses requests without a bearer token; whether it is good, the platform says when it is used."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            given = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1")
            if not read_bearer(given):
                words = {"error": "wanted the header `Authorization: Bearer tnt_…`, found none"}
                await JSONResponse(words, 401, {"WWW-Authenticate": "Bearer"})(scope, receive, send)
                return
        await self._app(scope, receive, send)
