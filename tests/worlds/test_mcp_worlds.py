"""The tools of an MCP server as a world: over HTTP by the protocol's own library, and a program in a sandbox."""

import json
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from apps.worlds import registry
from apps.worlds.certificates import is_examined
from apps.worlds.elsewhere.mcp import McpWorld
from apps.worlds.elsewhere.mcp_sessions import ToolServerError
from apps.worlds.episodes import Episode
from apps.worlds.playing import play
from apps.worlds.registry import WORLDS
from tentalis.core.tool_servers import ToolServer
from tentalis.core.worlds import ToolCall, TurnAgent
from tentalis.env import EnvironmentVariableError, read_variable
from tentalis.sandbox.client import start_host
from tentalis.sandbox.errors import SandboxRefusedError
from tests.local_server import LocalHandler, LocalServer
from tests.sandbox.conftest import find_obstacle

PROGRAM = """
import json, sys
notes = []
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    print(json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {}}), flush=True)
    method, told = asked["method"], asked.get("params", {})
    if method == "initialize":
        result = {"protocolVersion": told["protocolVersion"], "capabilities": {}, "serverInfo": {}}
    elif method == "tools/list":
        schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
        result = {"tools": [{"name": "notes.add", "description": "Add a note.", "inputSchema": schema}]}
    elif told["arguments"]["text"] == "die":
        sys.exit("the notebook burnt")
    else:
        notes.append(told["arguments"]["text"])
        result = {"content": [{"type": "text", "text": ", ".join(notes)}]}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(id="c", name=name, arguments=json.dumps(arguments))


@contextmanager
def notebook(*, json_response: bool, others: Sequence[str] = (), only_others: bool = False) -> Iterator[str]:
    """The address of a server that the protocol's own library makes.

    Args:
        others: names of tools beside its own. only_others: and without it.
    """
    server: MCPServer[Any] = MCPServer("notebook", log_level="ERROR")
    notes: list[str] = []

    def add(text: str) -> str:
        """Add a note."""
        if not text:
            raise ToolError("a note holds some text")
        notes.append(text)
        return ", ".join(notes)

    if not only_others:
        server.tool()(add)
    for name in others:
        server.tool(name=name, description=f"{name}.")(add)
    bound = socket.create_server(("127.0.0.1", 0))
    app = server.streamable_http_app(json_response=json_response)
    web = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    thread = threading.Thread(target=web.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    try:
        until = time.monotonic() + 120
        while not web.started and time.monotonic() < until:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{bound.getsockname()[1]}/mcp"
    finally:
        web.should_exit = True
        thread.join()
        bound.close()


@pytest.mark.parametrize("json_response", [True, False])
def test_a_servers_tools_are_called_over_http(json_response: bool) -> None:
    with notebook(json_response=json_response) as url:
        world = McpWorld("notebook", ToolServer(url=url, allow_private=True))
        (tool,) = world.tools("Note that.")
        assert (tool["function"]["name"], tool["function"]["description"]) == ("add", "Add a note.")
        assert tool["function"]["parameters"]["required"] == ["text"]
        state = world.reset("Note that.", 1)
        began = world.hash_state(state)
        assert world.act(state, call("add", text="milk"), "a").text == "milk"
        assert world.act(state, call("add", text="bread"), "b").text == "milk, bread"
        assert world.hash_state(state) != began
        assert "a note holds some text" in world.act(state, call("add", text=""), "c").text
        assert world.act(state, call("erase"), "d").text == "error: there is no tool 'erase'"
        world.close(state)
        assert (world.keeps_nothing, world.idempotent) == (False, False)


@pytest.mark.parametrize("others", [("notes.delete", "notes_delete"), ("x" * 64 + "1", "x" * 64 + "2")])
def test_two_tools_that_a_model_would_call_alike_are_refused_by_name_and_the_others_work(
    others: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    with notebook(json_response=True, others=others) as url:
        world = McpWorld("notebook", ToolServer(url=url, allow_private=True))
        assert [tool["function"]["name"] for tool in world.tools("Note that.")] == ["add"]
        assert all(repr(name) in caplog.text for name in others)
        state = world.reset("Note that.", 1)
        assert world.act(state, call("add", text="milk"), "a").text == "milk"
        refused = world.act(state, call(others[1][:64], id="n1"), "b").text
        assert refused.startswith("error: wanted one tool that a model can call")
        assert all(repr(name) in refused for name in others)
        world.close(state)


def test_a_server_whose_tools_would_all_be_called_alike_begins_no_task() -> None:
    with notebook(json_response=True, others=("a.dd", "a_dd"), only_others=True) as url:
        world = McpWorld("notebook", ToolServer(url=url, allow_private=True))
        with pytest.raises(ToolServerError, match="wanted one tool that a model can call 'a_dd'"):
            world.reset("Note that.", 1)


def test_no_server_on_this_machine_is_asked_unless_an_admin_allows_it() -> None:
    with notebook(json_response=True) as url, pytest.raises(ToolServerError, match="no server answers"):
        McpWorld("notebook", ToolServer(url=url)).reset("Note that.", 1)


def test_what_is_no_server_of_tools_is_nobodys_fault_and_named() -> None:
    class Handler(LocalHandler):
        def do_POST(self) -> None:
            self.read()
            self.answer(200, b"<html>", Content_Type="text/html")

    with LocalServer(Handler) as server:
        world = McpWorld("notebook", ToolServer(url=server.url, allow_private=True))
        with pytest.raises(ToolServerError, match="notebook: its server does not speak JSON: '<html>'"):
            world.reset("Note that.", 1)
    with pytest.raises(ToolServerError, match="notebook: no server answers at"):
        world.reset("Note that.", 1)
    (tool,) = world.tools("Note that.")  # it has some, whatever they are
    assert tool["function"]["name"] == "call"
    episode = Episode(key="1", prompt="Note that.")
    play([episode], world=world, agent=cast("TurnAgent", None), model="m")
    assert episode.lost.startswith("ToolServerError: notebook: no server answers at")
    assert (episode.verification, episode.is_open, episode.is_over) == (None, False, True)


def test_what_a_result_holds_beside_text_is_told_and_the_servers_version_is_spoken() -> None:
    """A server of an earlier version, as the protocol has it: it refuses every other from then on."""
    asked: list[str | None] = []
    link = {"type": "resource_link", "uri": "file:///b.md", "name": "b.md"}
    content = [
        {"type": "text", "text": "found"},
        {"type": "resource", "resource": {"uri": "file:///a.md", "mimeType": "text/plain", "text": "# The whole file"}},
        {"type": "resource", "resource": {"uri": "file:///a.png", "blob": "AAAA"}},
        link,
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
    ]
    results = {
        "initialize": {"protocolVersion": "2025-03-26", "capabilities": {}, "serverInfo": {}},
        "tools/list": {"tools": [{"name": "read", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": content},
    }

    class Handler(LocalHandler):
        def do_POST(self) -> None:
            told = json.loads(self.read())
            if told["method"] != "initialize":
                asked.append(self.headers.get("MCP-Protocol-Version"))
            answer = {"jsonrpc": "2.0", "id": told.get("id"), "result": results.get(told["method"], {})}
            self.answer(200, json.dumps(answer).encode(), Content_Type="application/json")

    with LocalServer(Handler) as server:
        world = McpWorld("files", ToolServer(url=server.url, allow_private=True))
        state = world.reset("Read it.", 1)
        told = world.act(state, call("read"), "a").text
        world.close(state)
    assert told.splitlines() == ["found", "# The whole file", "[file:///a.png]", "[file:///b.md]", "[image]"]
    assert set(asked) == {"2025-03-26"}


def test_a_program_runs_in_a_sandbox_of_its_own_each_episode(tmp_path: Path, settings: Any) -> None:
    if obstacle := find_obstacle():
        pytest.skip(obstacle)
    image, settings.SANDBOXES = tmp_path / "image", tmp_path / "host"
    (image / "srv").mkdir(parents=True)
    (image / "srv" / "notes.py").write_text(PROGRAM)
    server = ToolServer(command=("python3", "/srv/notes.py"), image=str(image))
    world = McpWorld("notes", server)
    settings.SANDBOXES.mkdir()
    with start_host(settings.SANDBOXES, warm=1):
        (tool,) = world.tools("Note that.")
        assert tool["function"]["name"] == "notes_add"
        first, second = world.reset("Note that.", 1), world.reset("Note that.", 1)
        assert world.act(first, call("notes_add", text="it's $HOME; 'milk'\n"), "a").text == "it's $HOME; 'milk'\n"
        assert world.act(second, call("notes_add", text="bread"), "b").text == "bread"
        assert world.act(first, call("notes_add", text="x" * 200_000), "c").text.endswith("x")
        with pytest.raises(ToolServerError, match="notes: its program does not answer: the notebook burnt"):
            world.act(second, call("notes_add", text="die"), "d")
        world.close(first)
        world.close(second)
        nowhere = McpWorld("nowhere", ToolServer(command=("python3",), image=str(tmp_path / "nowhere")))
        assert [one["function"]["name"] for one in nowhere.tools("Note that.")] == ["call"]
        with pytest.raises(SandboxRefusedError, match="wanted an image directory"):
            nowhere.reset("Note that.", 1)
        assert (world.keeps_nothing, world.idempotent) == (True, True)


def test_a_setting_names_servers_and_says_what_is_wrong_with_one(settings: Any) -> None:
    told = '{"notes": {"url": "https://notes.example.com/mcp", "turns": 9}}'
    servers = read_variable("MCP_WORLDS", {"TENTALIS_MCP_WORLDS": told})
    assert servers["notes"] == ToolServer(url="https://notes.example.com/mcp", turns=9)
    for wrong, words in (
        ('{"notes": {}}', "wanted a url or a command, one of them"),
        ('{"notes": {"url": "ftp://x"}}', "url: wanted http or https"),
        ('{"notes": {"command": ["a"]}}', "image: wanted a directory"),
        ('{"notes": {"url": "http://x", "turns": true}}', "turns: wanted what is like 30"),
        ('{"Notes": {"url": "http://x"}}', "names of lower-case letters"),
    ):
        with pytest.raises(EnvironmentVariableError, match=words):
            read_variable("MCP_WORLDS", {"TENTALIS_MCP_WORLDS": wrong})


def test_nothing_of_its_own_says_what_is_right_so_it_is_not_examined() -> None:
    assert not is_examined(McpWorld("notes", ToolServer(url="https://notes.example.com/mcp")))


def test_it_stands_among_the_environments_unless_its_name_is_taken(settings: Any) -> None:
    assert "notes" not in WORLDS
    server = ToolServer(url="https://notes.example.com/mcp", label="Notes of the team")
    settings.TENTALIS = {**settings.TENTALIS, "MCP_WORLDS": {"notes": server}}
    assert registry._list_own()["notes"].label == "Notes of the team"
    settings.TENTALIS = {**settings.TENTALIS, "MCP_WORLDS": {"workbench": server}}
    with pytest.raises(ValueError, match="TENTALIS_MCP_WORLDS: wanted names of its own, found workbench"):
        registry._list_own()
