"""A server on this machine, in a thread: what stands for a service that is not ours is served by it."""

import json
import random
import socket
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import Any, Final, Self

PORTS: Final = (
    "TENTALIS_POSTGRES_PORT",
    "TENTALIS_REDIS_PORT",
    "TENTALIS_WEB_PORT",
    "TENTALIS_ENGINE_PORT",
    "TENTALIS_GATEWAY_PORT",
)
"""Settings of a stack."""


class LocalHandler(BaseHTTPRequestHandler):
    """Reads and answers whole bodies, and tells the terminal nothing."""

    def read(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def answer(self, status: int, data: bytes, **headers: str) -> None:
        """Args: headers: beside the length; `Content_Type` is Content-Type."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def answer_chat(self, text: str, *, model: str) -> None:
        """As a model server does behind OpenAI's chat API."""
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        told = {"id": "0", "object": "chat.completion", "model": model, "choices": [choice]}
        self.answer(200, json.dumps(told).encode(), Content_Type="application/json")

    def log_message(self, format: str, *args: Any) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # some callers come many at a time, and five would be let in


class LocalServer:
    """Has its port, which the system chose, before it answers; answers until the block ends."""

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        self._server = _Server(("127.0.0.1", 0), handler)
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def find_free_port() -> int:
    """For a process that is told its port: one of those that the system gives to nobody by itself.

    Linux takes the ports of connections from ip_local_port_range, 32768 and up: a free one of those may be another's a
    moment later.
    """
    for port in random.SystemRandom().sample(range(20_000, 32_000), 100):
        with socket.socket() as holder, suppress(OSError):
            holder.bind(("127.0.0.1", port))
            return port
    raise OSError("wanted a free port of 20000 to 31999, found none in 100 tries")


def choose_ports(first_port: int | None) -> dict[str, str]:
    """A port for each server of the stack."""
    if first_port is not None:
        return {name: str(first_port + number) for number, name in enumerate(PORTS)}
    ports: set[int] = set()
    while len(ports) < len(PORTS):
        ports.add(find_free_port())
    return {name: str(port) for name, port in zip(PORTS, ports, strict=True)}
