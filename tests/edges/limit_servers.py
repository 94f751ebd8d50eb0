"""The web and the gateway as processes of their own, with small limits, and somebody else who asks them."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self
from urllib.parse import quote, urlsplit, urlunsplit

from django.db import connection

from tentalis.platform.stack import EDGE_FLAGS
from tests.edges.raw_connection import NEIGHBOUR, ask
from tests.local_server import find_free_port

SMALL: dict[str, float] = {
    "header_bytes": 4_000,
    "header_lines": 30,
    "address_bytes": 1_000,
    "header_s": 3.0,
    "idle_s": 6.0,
    "web_body_bytes": 20_000,
    "gateway_body_bytes": 40_000,
    "spans_body_bytes": 10_000,
    "spans_per_batch": 50,
    "spans_values": 1_000,
    "bodies_bytes": 100_000,
    "body_s": 1.0,
    "json_values": 5_000,
    "connections_per_address": 20,
    "requests_per_token": 6,
    "gateway_answer_bytes": 30_000,
    "socket_bytes": 2_000,
    "list_rows": 20,
}
"""What the processes of these tests run with, so that little is enough to go beyond."""
SMALL_LIMITS = json.dumps(SMALL)
NEIGHBOUR_S = 5.0
"""Nobody else's answer may take longer while a limit is hit; a quiet machine takes a hundredth."""


class WebProcess:
    """uvicorn as the stack starts it, on the tests' database."""

    def __init__(self, **settings: str) -> None:
        parts = urlsplit(os.environ["TENTALIS_DATABASE_URL"])
        name = quote(str(connection.settings_dict["NAME"]))
        self.environment = os.environ | {
            "TENTALIS_DATABASE_URL": urlunsplit(parts._replace(path=f"/{name}")),
            "DJANGO_SETTINGS_MODULE": "tentalis.settings.test",
            **{f"TENTALIS_{name}": value for name, value in settings.items()},
        }
        self.port = find_free_port()

    def __enter__(self) -> Self:
        argv = [sys.executable, "-m", "uvicorn", "tentalis.asgi:application", "--port", str(self.port), *EDGE_FLAGS]
        self.process = subprocess.Popen([*argv, "--log-level", "warning"], env=self.environment)
        until = time.monotonic() + 60
        while time.monotonic() < until and self.process.poll() is None:
            try:
                if ask(self.port, "GET", "/healthz", source=NEIGHBOUR).status == 200:
                    return self
            except (OSError, ValueError):  # a port that nobody has yet may even connect to itself
                time.sleep(0.1)
        self.process.kill()
        raise AssertionError(f"the web did not start: exit {self.process.wait()}")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(120)


class Neighbour:
    """Somebody else, who asks all the while. `with Neighbour(port, requests) as neighbour: …; neighbour.slowest_s`"""

    def __init__(self, port: int, requests: Sequence[tuple[str, tuple[str, ...]]]) -> None:
        self._port = port
        self._requests = requests
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.slowest_s = 0.0
        self.statuses: set[int] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._thread.join(60)

    def _run(self) -> None:
        while True:
            for path, headers in self._requests:
                began = time.monotonic()
                self.statuses.add(ask(self._port, "GET", path, *headers, source=NEIGHBOUR).status)
                self.slowest_s = max(self.slowest_s, time.monotonic() - began)
            if self._over.wait(0.05):
                return
