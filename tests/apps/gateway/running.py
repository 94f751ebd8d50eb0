"""Gateways on the tests' database: one as a process of its own, and one in a thread, which starts at once."""

import asyncio
import json
import os
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlsplit, urlunsplit

import httpx
from django.db import connection

from apps.accounts.models import Member, Project, Role, User
from apps.accounts.rights import Right
from apps.accounts.tokens import create_token
from apps.gateway.closing import close_session
from apps.gateway.config_cache import ConfigCache
from apps.gateway.edge import Edge, Patience
from apps.gateway.limits import Budgets
from apps.gateway.record import Header, Record, SpoolError
from apps.gateway.server import GatewayServer
from apps.gateway.sockets import bind
from apps.gateway.traces import read_earlier, read_traces
from apps.gateway.upstreams import Upstreams
from apps.inference.models import Provider
from apps.workers.models import Worker
from tests.factories import make_user

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Trusts nobody: to read whom one may trust takes a client 30 ms, and here nobody is asked by TLS."""
HELLO = {"messages": [{"role": "user", "content": "hello there"}]}


class GatewayProcess:
    """`with GatewayProcess() as gateway: gateway.post("/v1/chat/completions", …, token=token)`.

    Args:
        settings: TENTALIS_* variables without the prefix.
        home: where its spool is kept; a directory of its own if none is given.
        arguments: of the command.
    """

    def __init__(
        self, *, home: Path | None = None, arguments: Sequence[str] = ("--port", "0"), **settings: str
    ) -> None:
        self._arguments = arguments
        self._own = tempfile.TemporaryDirectory(prefix="tentalis-gateway-") if home is None else None
        self.home = home or Path(self._own.name if self._own else "")
        parts = urlsplit(os.environ["TENTALIS_DATABASE_URL"])
        name = quote(str(connection.settings_dict["NAME"]))
        self.environment = os.environ | {
            "TENTALIS_DATABASE_URL": urlunsplit(parts._replace(path=f"/{name}")),
            "TENTALIS_HOME": str(self.home),
            "DJANGO_SETTINGS_MODULE": "tentalis.settings.test",
            **{f"TENTALIS_{name}": value for name, value in settings.items()},
        }

    def __enter__(self) -> Self:
        argv = [sys.executable, "-m", "apps.gateway", *self._arguments]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=self.environment)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the gateway did not start: exit {self.process.wait()}"
        self.port = int(line)
        self.url = f"http://127.0.0.1:{self.port}"
        self.client = httpx.Client(base_url=self.url, timeout=30, trust_env=False, verify=NO_TLS)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.client.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(120)
        assert self.process.stdout is not None
        self.process.stdout.close()
        if self._own is not None:
            self._own.cleanup()

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self.process.kill()
        self.process.wait()

    def post(self, path: str, body: Any, *, token: str, **headers: str) -> httpx.Response:
        """Header names with _ for -."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.post(path, json=body, headers={"Authorization": f"Bearer {token}"} | named)

    def chat(self, model: str, *, token: str, headers: dict[str, str] | None = None, **fields: Any) -> httpx.Response:
        """One chat completion of `hello there`, or of other `messages`."""
        body = HELLO | {"model": model} | fields
        given = {"Authorization": f"Bearer {token}"} | (headers or {})
        return self.client.post("/v1/chat/completions", json=body, headers=given)


@dataclass
class ListSpool:
    """Keeps records in memory, for tests of what is handed over.

    Attributes:
        is_full: requests are refused. refuses: so many records that come next cannot be kept.
    """

    records: list[Record] = field(default_factory=list)
    is_full: bool = False
    refuses: int = 0

    def append(self, header: Header, request: bytes, answer: bytes, *others: Record) -> None:
        if self.refuses:
            self.refuses -= 1
            raise SpoolError("no space is left")
        self.records += Record(header, request, answer), *others


class GatewayThread:
    """The same edge in a thread of this process, with a spool that tests can look into.

    Args:
        patience, most_in_flight: of the edge.
        make_budgets: called in its loop.
    """

    def __init__(
        self,
        *,
        patience: Patience | None = None,
        most_in_flight: int = 1024,
        make_budgets: Callable[[], Budgets] = Budgets,
    ) -> None:
        self.spool = ListSpool()
        self._patience = patience or Patience(down_s=0.5)
        self._most_in_flight = most_in_flight
        self._make_budgets = make_budgets
        self._started: Future[None] = Future()

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self._thread.start()
        self._started.result(20)
        self.url = f"http://127.0.0.1:{self.port}"
        self.client = httpx.Client(base_url=self.url, timeout=30, trust_env=False, verify=NO_TLS)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.client.close()
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(20)

    @property
    def records(self) -> list[Record]:
        return self.spool.records

    def chat(self, model: str, *, token: str, headers: dict[str, str] | None = None, **fields: Any) -> httpx.Response:
        """One chat completion of `hello there`, or of other `messages`."""
        body = HELLO | {"model": model} | fields
        given = {"Authorization": f"Bearer {token}"} | (headers or {})
        return self.client.post("/v1/chat/completions", json=body, headers=given)

    def stream(self, model: str, *, token: str, **fields: Any) -> "Streamed":
        """The same as a stream, read to its end."""
        return Streamed(self.chat(model, token=token, stream=True, **fields))

    async def _run(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        config, upstreams, budgets = ConfigCache(), Upstreams(), self._make_budgets()
        self.edge = Edge(
            config=config,
            upstreams=upstreams,
            budgets=budgets,
            spool=self.spool,
            find_earlier=lambda caller, answer: config.ask(lambda: read_earlier(caller, answer)),
            most_in_flight=self._most_in_flight,
            patience=self._patience,
        )
        server = GatewayServer(
            self.edge,
            lambda caller, key, after, limit: config.ask(lambda: read_traces(caller, key, after, limit)),
            lambda caller, key: config.ask(lambda: close_session(caller.project, key, agent=caller.agent, ends={})),
            sockets=bind("127.0.0.1", 0),
        )
        try:
            await config.start()
            upstreams.start()
            budgets.start()
            await server.start()
        except BaseException as error:
            self._started.set_exception(error)
            raise
        self.port = server.port
        self._started.set_result(None)
        await self._stopping.wait()
        await server.stop(drain_s=1)
        await upstreams.stop()
        await budgets.stop()
        await config.stop()


class Streamed:
    """A stream that was read to its end.

    Attributes:
        chunks: its events as JSON. is_done: [DONE] came last. error: the error event, {} without one.
    """

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.lines = [line for line in response.text.split("\n") if line.startswith("data: ")]
        self.is_done = bool(self.lines) and self.lines[-1] == "data: [DONE]"
        events = [json.loads(line[6:]) for line in self.lines if line != "data: [DONE]"]
        self.error: dict[str, Any] = next((event["error"] for event in events if "error" in event), {})
        self.chunks = [event for event in events if "error" not in event]

    def deltas(self, index: int = 0) -> list[dict[str, Any]]:
        found = [choice for chunk in self.chunks for choice in chunk["choices"] if choice["index"] == index]
        return [choice["delta"] for choice in found]

    def text(self, index: int = 0, *, of: str = "content") -> str:
        return "".join(delta.get(of) or "" for delta in self.deltas(index))


def make_agent(project: Project, name: str = "claw") -> User:
    agent = make_user(name, is_agent=True)
    Member.objects.get_or_create(project=project, user=agent, role=Role.AGENT)
    return agent


def make_agent_token(project: Project, name: str = "claw", **limits: Any) -> str:
    """A token of an agent of the project, for the gateway and for reading sessions."""
    agent = make_agent(project, name)
    scopes = [Right.GATEWAY_USE, Right.SESSIONS_READ]
    token, text = create_token(user=agent, name="gateway", scopes=scopes, by=agent, project=project)
    if limits:
        token.limits = limits
        token.save(update_fields=["limits"])
    return text


def make_provider(project: Project | None, url: str, *, kind: str = "vllm", **values: Any) -> Provider:
    given: dict[str, Any] = {"name": "stub", "default_model": "base", "allow_private": True}
    return Provider.objects.create(project=project, kind=kind, base_url=url, **given | values)


def make_chat_worker(project: Project, provider: Provider, name: str = "helper", *, base_model: str = "base") -> Worker:
    return Worker.objects.create(
        project=project, name=name, kind=Worker.Kind.CHAT, provider=provider, base_model=base_model
    )
