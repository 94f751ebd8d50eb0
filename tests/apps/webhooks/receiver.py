"""A receiver of webhooks, as a process of its own: `python -m tests.apps.webhooks.receiver LOG`.

The path says how it answers: /ok, /slow (20 s), /dribble (a header line for ever), /500, /410, /429, /redirect, /long;
/flaky fails every twentieth message once. Each request is one JSON line in LOG: path, headers, body.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    seen: set[str] = set()
    lock = threading.Lock()
    log: Path

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        headers = {name.lower(): value for name, value in self.headers.items()}
        with self.lock, self.log.open("a") as file:
            file.write(json.dumps({"path": self.path, "headers": headers, "body": body}) + "\n")
        getattr(self, f"_{self.path.strip('/')}", self._answer_status)()

    def _answer_status(self) -> None:
        self._answer(int(self.path.strip("/")))

    def _ok(self) -> None:
        self._answer(204)

    def _flaky(self) -> None:
        message = self.headers["webhook-id"]
        with self.lock:
            is_new = message not in self.seen and len(self.seen) % 20 == 0
            self.seen.add(message)
        self._answer(503 if is_new else 200)

    def _429(self) -> None:
        self._answer(429, {"Retry-After": "120"})

    def _slow(self) -> None:
        time.sleep(20)

    def _dribble(self) -> None:
        with suppress(OSError):
            self.wfile.write(b"HTTP/1.1 200 OK\r\n")
            for number in range(200):
                self.wfile.write(b"X-Wait-%d: 1\r\n" % number)
                self.wfile.flush()
                time.sleep(0.1)

    def _redirect(self) -> None:
        self._answer(307, {"Location": "/ok\xff"})  # a byte that is no UTF-8

    def _long(self) -> None:
        self._answer(200, {}, b"<b>\x00" + b"x" * 100_000)

    def _answer(self, status: int, headers: dict[str, str] | None = None, body: bytes = b"") -> None:
        with suppress(OSError):
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            if status != 204:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


class Receiver:
    """The process, from a test's side."""

    def __init__(self, log: Path, port: int = 0) -> None:
        self.log = log
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.apps.webhooks.receiver", str(log), str(port)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())
        self.url = f"http://127.0.0.1:{self.port}"

    def read(self) -> list[dict[str, Any]]:
        if not self.log.exists():
            return []
        return [json.loads(line) for line in self.log.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


@contextmanager
def running_receiver(log: Path) -> Iterator[Receiver]:
    receiver = Receiver(log)
    try:
        yield receiver
    finally:
        receiver.stop()


def main() -> None:
    Handler.log = Path(sys.argv[1])
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler)
    sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
