"""The tools as an MCP server: `python -m PACKAGE.server`."""

try:
    from mcp.server import MCPServer as Server
except ImportError:  # before version 2
    from mcp.server.fastmcp import FastMCP as Server

from .tools import TOOLS

server = Server("tools")
for tool in TOOLS:
    server.tool()(tool)

if __name__ == "__main__":
    server.run()
