"""A gateway as a process of its own, on the tests' database."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlsplit, urlunsplit

import httpx
from django.db import connection

from apps.accounts.models import Member, Project, Role, User
from apps.accounts.rights import Right
from apps.accounts.services import create_token
from apps.inference.models import Provider
from apps.workers.models import Worker
from tests.factories import make_user

HELLO = {"messages": [{"role": "user", "content": "hello there"}]}


class GatewayProcess:
    """`with GatewayProcess() as gateway: gateway.post("/v1/chat/completions", …, token=token)`.

    Args:
        settings: TENTALIS_* variables without the prefix.
        home: where its spool is kept; a directory of its own if none is given.
    """

    def __init__(self, *, home: Path | None = None, **settings: str) -> None:
        self._own = tempfile.TemporaryDirectory(prefix="tentalis-gateway-") if home is None else None
        self.home = home or Path(self._own.name if self._own else "")
        parts = urlsplit(os.environ["TENTALIS_DATABASE_URL"])
        name = quote(str(connection.settings_dict["NAME"]))
        self._environment = os.environ | {
            "TENTALIS_DATABASE_URL": urlunsplit(parts._replace(path=f"/{name}")),
            "TENTALIS_HOME": str(self.home),
            "DJANGO_SETTINGS_MODULE": "tentalis.settings.test",
            **{f"TENTALIS_{name}": value for name, value in settings.items()},
        }

    def __enter__(self) -> Self:
        argv = [sys.executable, "-m", "apps.gateway", "--port", "0"]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=self._environment)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the gateway did not start: exit {self.process.wait()}"
        self.port = int(line)
        self.url = f"http://127.0.0.1:{self.port}"
        self.client = httpx.Client(base_url=self.url, timeout=30, trust_env=False)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.client.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)
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


def make_chat_worker(project: Project, provider: Provider, name: str = "helper") -> Worker:
    return Worker.objects.create(
        project=project, name=name, kind=Worker.Kind.CHAT, provider=provider, base_model="base"
    )
