"""The platform as an MCP server: an agent's tools for tasks, feedback, sessions and approvals."""
