"""A server of tools (MCP) as a world: an episode is a session with it, and its tools are the world's.

Whether the work is right no such server says: the task's checks do, and people.
"""

import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final

from apps.worlds.elsewhere.mcp_sessions import (
    HttpMcpSession,
    McpSession,
    RefusedCallError,
    SandboxMcpSession,
    ToolServerError,
)
from tentalis.core.canon import content_hash
from tentalis.core.tool_calls import write_tool
from tentalis.core.tool_servers import ToolServer
from tentalis.core.worlds import EpisodeLimits, Observation, ToolCall, World
from tentalis.sandbox.errors import SandboxError

logger = logging.getLogger(__name__)

_UNNAMEABLE: Final = re.compile(r"[^A-Za-z0-9_-]")
ANY_TOOL: Final = "call"
MOST_NAME_CHARS: Final = 64
"""Of a function's name in the chat API."""


@dataclass
class _McpPlay:
    """A session, and the hash of all that was said in it."""

    session: McpSession
    said: str = ""


class McpWorld(World):
    """Whatever a server's tools do."""

    name = ""
    label = ""
    profile: ClassVar = {"outcome": 1.0}

    def __init__(self, name: str, server: ToolServer) -> None:
        self.name = name  # type: ignore[misc]
        self.label = server.label or name.replace("_", " ").capitalize()  # type: ignore[misc]
        self.version = content_hash([list(one) if isinstance(one, tuple) else one for one in vars(server).values()])[:8]  # type: ignore[misc]
        self.keeps_nothing = bool(server.command) or not server.acts_outside  # type: ignore[misc]
        self.idempotent = bool(server.command)  # type: ignore[misc]  # it is played again in a fresh sandbox
        self.limits = EpisodeLimits(turns=server.turns)  # type: ignore[misc]
        self._server = server

    def tools(self, prompt: str) -> Sequence[Mapping[str, Any]]:
        """The server's tools, asked once; while it cannot be asked there is one that stands for them."""
        try:
            found = self._tools
        except (ToolServerError, SandboxError):
            return [write_tool(ANY_TOOL, "Call a tool of the server.", {"type": "object"})]
        return [
            write_tool(name, str(tool.get("description") or "")[:1_000], tool.get("inputSchema") or {"type": "object"})
            for name, (tool, *others) in found.items()
            if not others
        ]

    @cached_property
    def _tools(self) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """By the name that the chat API allows: several where they would be called alike, of which none is guessed at.

        Raises:
            ToolServerError, SandboxError: the server is away, does not say what its tools are, or none can be called.
        """
        session = self._open()
        try:
            listed = session.list_tools()
        finally:
            session.close()
        found: dict[str, list[Mapping[str, Any]]] = {}
        for tool in listed:
            named = found.setdefault(_UNNAMEABLE.sub("_", str(tool["name"]))[:MOST_NAME_CHARS], [])
            if tool not in named:
                named.append(tool)
        alike = [_refuse_alike(name, tools) for name, tools in found.items() if len(tools) > 1]
        if alike and len(alike) == len(found):
            raise ToolServerError(f"{self.name}: {'; '.join(alike)}")
        for words in alike:
            logger.warning("%s: %s", self.name, words)
        return found

    def _open(self) -> McpSession:
        make = SandboxMcpSession if self._server.command else HttpMcpSession
        session = make(self.name, self._server)
        try:
            session.begin()
        except BaseException:
            session.close()
            raise
        return session

    def reset(self, prompt: str, seed: int | None) -> _McpPlay:
        """Raises ToolServerError, SandboxError: the server is away, or does not say what its tools are."""
        _ = self._tools
        return _McpPlay(self._open())

    def act(self, state: _McpPlay, call: ToolCall, key: str) -> Observation:
        named = self._tools.get(call.name, ())
        if len(named) != 1:
            words = _refuse_alike(call.name, named) if named else f"there is no tool {call.name!r:.100}"
            return Observation(text=f"error: {words}")
        tool, arguments = named[0], json.loads(call.arguments or "{}")
        try:
            told = state.session.ask("tools/call", {"name": tool["name"], "arguments": arguments})
        except RefusedCallError as error:
            text = f"error: {error}"
        else:
            text = f"{'error: ' * bool(told.get('isError'))}{_show(told)}"
        state.said = content_hash([state.said, call.name, arguments, text])
        return Observation(text=text)

    def hash_state(self, state: _McpPlay) -> str:
        """Of what was said: what the server keeps to itself nobody sees."""
        return state.said

    def close(self, state: _McpPlay) -> None:
        state.session.close()


def _refuse_alike(name: str, tools: Sequence[Mapping[str, Any]]) -> str:
    both = " and ".join(f"{tool['name']!r:.200}" for tool in tools)
    return f"wanted one tool that a model can call {name!r}, found {both}: none of them can be called"


def _show(told: Mapping[str, Any]) -> str:
    """The texts of a result, those of the files in it among them; of what else there is its address, or its kind."""
    content = told.get("content")
    if not isinstance(content, list):
        raise ToolServerError(f"wanted the content of a result, found {told!s:.200}")
    return "\n".join(map(_show_part, content)) or json.dumps(told.get("structuredContent", {}), ensure_ascii=False)


def _show_part(part: Mapping[str, Any]) -> str:
    shown = part.get("resource", part)
    return str(shown["text"]) if "text" in shown else f"[{shown.get('uri') or part.get('type')}]"
