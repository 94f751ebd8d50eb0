"""Model servers of a tenant that misbehave, and its webhook's address: the path's first part says how."""

import gzip
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.local_server import LocalServer

MB = 1_000_000
KINDS = ("plain", "named", "squeezed", "large", "endless", "broken", "silent", "slow")
BLANKS = {"large": 150, "endless": 400, "broken": 150}
"""Megabytes of blanks behind the answer."""


class ModelServer(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        kind = self.path.split("/")[1]
        if kind == "silent":
            time.sleep(60)
            return
        if kind == "hook":
            self._send(503, b"", {"Retry-After": "Fri, 31 Dec 9999 23:59:59 -0500"})
            return
        answer = {
            "id": "1",
            "object": "chat.completion",
            "created": 1,
            "model": "base\r\nX-Evil: 1" if kind == "named" else asked.get("model", "base"),
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "fine"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }
        raw = json.dumps(answer).encode()
        if kind == "slow":
            time.sleep(0.5)
        if kind == "squeezed":
            self._send(200, gzip.compress(raw + b" " * 200 * MB, 1), {"Content-Encoding": "gzip"})
            return
        is_told = kind != "endless"
        self._send(400 if kind == "broken" else 200, raw, {}, blanks_mb=BLANKS.get(kind, 0), is_told=is_told)

    def do_GET(self) -> None:
        if self.path.startswith("/silent/"):
            time.sleep(60)
            return
        self._send(200, b'{"object":"list","data":[{"id":"base","object":"model"}]}', {})

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:  # the box has hung up, as it should
            self.close_connection = True

    def _send(
        self, status: int, body: bytes, headers: dict[str, str], *, blanks_mb: int = 0, is_told: bool = True
    ) -> None:
        """Args: is_told: whether the head says how long it is."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        if is_told:
            self.send_header("Content-Length", str(len(body) + blanks_mb * MB))
        else:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
        for _ in range(blanks_mb):
            self.wfile.write(b" " * MB)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def serve_models() -> Iterator[str]:
    """Their address."""
    with LocalServer(ModelServer) as server:
        yield server.url
