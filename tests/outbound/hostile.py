"""Addresses that lead, or are meant to lead, to this machine, its network or a cloud's metadata; and a canary there."""

import socket
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

KEY = "sk-canary-0123456789"

PLAIN = """
http://127.0.0.1:{port}/
http://127.0.0.1:{port}/v1
http://127.1.2.3:{port}/
http://127.255.255.254:{port}/
http://localhost:{port}/
http://LOCALHOST:{port}/
http://localhost.:{port}/
http://0.0.0.0:{port}/
http://[::1]:{port}/
http://[0:0:0:0:0:0:0:1]:{port}/
http://[0000::1]:{port}/
http://[::]:{port}/
https://127.0.0.1:{port}/
https://[::1]:{port}/
"""
NUMBERS = """
http://2130706433:{port}/
http://02130706433:{port}/
http://017700000001:{port}/
http://0x7f000001:{port}/
http://0x7F000001:{port}/
http://0x7f.0.0.1:{port}/
http://0x7f.1:{port}/
http://0177.0.0.1:{port}/
http://0177.1:{port}/
http://127.1:{port}/
http://127.0.1:{port}/
http://127.0.0.1.:{port}/
http://00127.0.0.1:{port}/
http://127.0.0.01:{port}/
http://127.0x0.0.1:{port}/
http://127.00.00.01:{port}/
http://0:{port}/
http://0x0:{port}/
http://0.0.0.0x0:{port}/
http://4294967295:{port}/
http://2852039166:{port}/
"""
EMBEDDED = """
http://[::ffff:127.0.0.1]:{port}/
http://[::ffff:7f00:1]:{port}/
http://[::ffff:0:127.0.0.1]:{port}/
http://[0:0:0:0:0:ffff:127.0.0.1]:{port}/
http://[::127.0.0.1]:{port}/
http://[64:ff9b::127.0.0.1]:{port}/
http://[64:ff9b::7f00:1]:{port}/
http://[64:ff9b:1::7f00:1]:{port}/
http://[2002:7f00:1::]:{port}/
http://[2002:7f00:1::1]:{port}/
http://[2001:0:7f00:1::]:{port}/
http://[fe80::1]:{port}/
http://[fe80::1%25lo]:{port}/
http://[::1%25lo]:{port}/
http://[::1%25]:{port}/
http://[fc00::1]:{port}/
http://[fd12:3456:789a::1]:{port}/
http://[fec0::1]:{port}/
http://[ff02::1]:{port}/
http://[100::1]:{port}/
"""
NEIGHBOURS = """
http://10.0.0.1:{port}/
http://172.16.0.1:{port}/
http://192.168.0.1:{port}/
http://100.64.0.1:{port}/
http://169.254.169.254/latest/meta-data/
http://169.254.1.1:{port}/
http://[::ffff:169.254.169.254]/latest/
http://[fd00:ec2::254]/latest/
http://100.100.100.200/latest/
http://168.63.129.16/
http://192.0.0.192/opc/v2/
http://224.0.0.1:{port}/
http://239.255.255.250:{port}/
http://240.0.0.1:{port}/
http://255.255.255.255:{port}/
http://198.18.0.1:{port}/
http://192.0.2.1:{port}/
"""
CONFUSED = """
http://example.com@127.0.0.1:{port}/
http://example.com:80@127.0.0.1:{port}/
http://user:pw@localhost:{port}/
http://127.0.0.1:{port}#@example.com/
http://127.0.0.1:{port}\\@example.com/
http://example.com\\@127.0.0.1:{port}/
http://127.0.0.1:{port}?@example.com/
http://127.0.0.1%2f@example.com:{port}/
http://127.0.0.1%00.example.com:{port}/
http://%31%32%37.0.0.1:{port}/
http://①②⑦.⓪.⓪.①:{port}/
http://１２７.０.０.１:{port}/
http://ⓛocalhost:{port}/
http://127。0。0。1:{port}/
http:///127.0.0.1:{port}/
http:127.0.0.1:{port}/
//127.0.0.1:{port}/
http://[::1]example.com:{port}/
http://[127.0.0.1]:{port}/
http://127.0.0.1:{port}:80/
http://localhost:{port}/\u202e
gopher://127.0.0.1:{port}/_GET
file:///etc/passwd
ftp://127.0.0.1:{port}/
unix:///var/run/docker.sock
"""
CONTROL = [
    "http://127.0.0.1:{port}/\r\nX-Key: 1",
    "http://127.0.0.1\r\n:{port}/",
    "http://local\thost:{port}/",
    "http://local\nhost:{port}/",
    " http://localhost:{port}/",
    "http://localhost:{port}/\x00",
    "http://127.0.0.1 :{port}/",
    "http://127.0.0.1:{port}/a b HTTP/1.1\r\nHost: x\r\n\r\nGET /",
]
HOSTILE = [line for block in (PLAIN, NUMBERS, EMBEDDED, NEIGHBOURS, CONFUSED) for line in block.split("\n") if line]
HOSTILE += CONTROL


class Canary:
    """A server on this machine's loopback, IPv4 and IPv6, that remembers who called."""

    def __init__(self, *, status: int = 200, headers: dict[str, str] | None = None, body: bytes = b"{}") -> None:
        self.calls: list[tuple[str, dict[str, str]]] = []
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                owner.calls.append((self.path, dict(self.headers.items())))
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET  # noqa: N815

            def log_message(self, format: str, *args: Any) -> None:
                pass

        class V6(ThreadingHTTPServer):
            address_family = socket.AF_INET6

        first = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = first.server_port
        self._servers = [first]
        with suppress(OSError):  # no IPv6 here, or the port is taken there
            self._servers.append(V6(("::1", self.port), Handler))
        self._threads = [
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
            for server in self._servers
        ]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for server, thread in zip(self._servers, self._threads, strict=True):
            server.shutdown()
            server.server_close()
            thread.join()
