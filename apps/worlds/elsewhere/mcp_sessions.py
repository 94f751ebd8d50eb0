"""Sessions with servers of tools (Model Context Protocol): over HTTP that is looked at, or a program in a sandbox.

Source:
    The specification of 2025-06-18: JSON-RPC 2.0, streamable HTTP and stdio. The official client is not used: it opens
    its own connections, which no guard looks at, and starts programs where it runs itself.
"""

import json
import shlex
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

from apps.worlds.sandboxes import open_client
from tentalis.core.tool_servers import ToolServer
from tentalis.core.worlds import StateLostError
from tentalis.outbound.events import iterate_events
from tentalis.outbound.posting import JsonPoster
from tentalis.sandbox.errors import SandboxError

VERSION: Final = "2025-06-18"
ANSWER_S: Final = 60.0
FIRST_BAD_STATUS: Final = 300
"""A server that sends elsewhere is not followed."""
MOST_LISTED: Final = 512
"""Tools of a server, and pages that they come on, at most."""
MOST_LINES: Final = 200
"""What a server says before it answers, at most."""
READ_LINE: Final = (
    'line=; until IFS= read -r -t 1 part <&4; do line="$line$part"; part=; kill -0 $server || break; done 2>/dev/null; '
    'printf %s "$line$part"; kill -0 $server 2>/dev/null || [ -n "$line$part" ]'
)
"""In the shell: the next line that the program says, in pieces of a second; fails where it ended and said nothing."""
LIMITS: Final[Mapping[str, float]] = {
    "memory_bytes": 512 << 20, "processes": 64, "disk_bytes": 64 << 20, "output_bytes": 4 << 20, "lifetime_s": 3_600,
}  # fmt: skip


class ToolServerError(StateLostError):
    """The server is away, or does not keep to the protocol: it says nothing of who asked."""


class RefusedCallError(Exception):
    """The server finds fault with a request; its words."""


class McpSession(ABC):
    """One session; close it."""

    def __init__(self, name: str) -> None:
        self.name, self._asked = name, 0

    def begin(self) -> None:
        about = {"name": "tentalis", "version": "1"}
        try:
            told = self.ask("initialize", {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": about})
        except RefusedCallError as error:
            raise ToolServerError(f"{self.name}: its server refuses to begin: {error}") from None
        self._agree(str(told.get("protocolVersion") or VERSION))
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """What the server answers.

        Raises:
            RefusedCallError: it finds fault with what it was asked.
            ToolServerError: it is away, or speaks something else.
        """
        self._asked += 1
        told = self._send({"jsonrpc": "2.0", "id": self._asked, "method": method, "params": dict(params)}, self._asked)
        if isinstance(error := told.get("error"), Mapping):
            raise RefusedCallError(str(error.get("message", error))[:1_000])
        if not isinstance(result := told.get("result"), dict):
            raise ToolServerError(f"{self.name}: wanted a result, found {told!s:.200}")
        return result

    def list_tools(self) -> list[dict[str, Any]]:
        """Every tool, of all pages."""
        tools: list[dict[str, Any]] = []
        cursor: Any = None
        for _ in range(MOST_LISTED):
            page = self.ask("tools/list", {"cursor": cursor} if cursor else {})
            listed = page.get("tools")
            if not isinstance(listed, list) or not all(isinstance(one, dict) and "name" in one for one in listed):
                raise ToolServerError(f"{self.name}: wanted a list of tools, found {listed!s:.200}")
            tools += listed
            cursor = page.get("nextCursor")
            if not cursor or len(tools) > MOST_LISTED:
                break
        return tools[:MOST_LISTED]

    @abstractmethod
    def _send(self, message: Mapping[str, Any], wanted: int | None = None) -> dict[str, Any]:
        """Send it, and give back the answer of that id; {} where none is wanted."""

    def _agree(self, version: str) -> None:  # noqa: B027 - a program is not told again
        """The protocol's version that both speak from now on."""

    @abstractmethod
    def close(self) -> None:
        """End it. Never raises for a server that is gone."""

    def _read(self, text: str) -> Any:
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise ToolServerError(f"{self.name}: its server does not speak JSON: {text[:200]!r}") from None


class HttpMcpSession(McpSession):
    """Over streamable HTTP, by a client whose every connection is looked at."""

    def __init__(self, name: str, server: ToolServer) -> None:
        super().__init__(name)
        self._url, self._headers = server.url, {"Accept": "application/json, text/event-stream"}
        self._poster = JsonPoster(server.url, allow_private=server.allow_private, timeout_s=ANSWER_S)

    def _send(self, message: Mapping[str, Any], wanted: int | None = None) -> dict[str, Any]:
        try:
            answer = self._poster.post(message, self._headers)
        except OSError as error:
            raise ToolServerError(f"{self.name}: no server answers at {self._url}: {error}") from None
        if answer.status >= FIRST_BAD_STATUS:
            raise ToolServerError(f"{self.name}: its server answers {answer.status}: {answer.text[:200]!r}")
        if session := answer.headers.get("mcp-session-id"):
            self._headers["Mcp-Session-Id"] = session
        if wanted is None:
            return {}
        texts = [answer.text]
        if answer.headers.get("content-type", "").startswith("text/event-stream"):
            texts = [data.decode() for data in iterate_events([answer.text.encode()])]
        for told in map(self._read, filter(None, texts)):
            if isinstance(told, dict) and told.get("id") == wanted and "method" not in told:
                return told
        raise ToolServerError(f"{self.name}: its server does not answer what it was asked: {answer.text[:200]!r}")

    def _agree(self, version: str) -> None:
        self._headers["MCP-Protocol-Version"] = version

    def close(self) -> None:
        with suppress(OSError), closing(self._poster):
            if "Mcp-Session-Id" in self._headers:
                self._poster.delete(self._headers)


class SandboxMcpSession(McpSession):
    """With a program in a sandbox of its own, over two pipes that a shell there holds."""

    def __init__(self, name: str, server: ToolServer) -> None:
        """Raises SandboxError: there is no sandbox to be had."""
        super().__init__(name)
        self._client = open_client()
        self._sandbox = self._client.create(self._client.add_image(Path(server.image)), limits=LIMITS)
        try:
            command = shlex.join(server.command)
            self._ask_shell(
                "mkfifo /tmp/asked /tmp/said && exec 3<>/tmp/asked 4<>/tmp/said && "
                f"{{ {command} <&3 >&4 2>/tmp/errors 3<&- 4<&- & }} && server=$!"
            )
        except BaseException:
            self.close()
            raise

    def _send(self, message: Mapping[str, Any], wanted: int | None = None) -> dict[str, Any]:
        self._ask_shell(f"printf '%s\\n' {shlex.quote(json.dumps(dict(message)))} >&3")
        if wanted is None:
            return {}
        for _ in range(MOST_LINES):
            line = self._ask_shell(READ_LINE)
            told = self._read(line) if line.strip() else {}
            if isinstance(told, dict) and told.get("id") == wanted and "method" not in told:
                return told
        raise ToolServerError(f"{self.name}: its program says much, and not what it was asked")

    def _ask_shell(self, command: str) -> str:
        said = self._client.ask_shell(self._sandbox, command, timeout_s=ANSWER_S + 5)
        if said.code or said.timed_out or said.has_ended or said.dropped:
            errors = self._client.run(self._sandbox, ["tail", "-c", "300", "/tmp/errors"])  # noqa: S108 - in a sandbox
            words = errors.out.decode(errors="replace").strip()
            raise ToolServerError(f"{self.name}: its program does not answer{f': {words}' if words else ''}")
        return said.out.decode(errors="replace")

    def close(self) -> None:
        with suppress(SandboxError):
            self._client.destroy(self._sandbox)
