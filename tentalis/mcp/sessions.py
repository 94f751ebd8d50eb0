"""Tools for the conversations that the gateway saw."""

from typing import Any

from mcp.server import MCPServer

from tentalis.mcp.connection import Connect


def add_session_tools(server: MCPServer[Any], connect: Connect) -> None:
    """Register them."""
