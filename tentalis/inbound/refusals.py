"""Answers of the web to what its application never sees, in the shape of the path that was asked for."""

import json
from http import HTTPStatus
from typing import NamedTuple

PROBLEM_PATHS = ("/api/", "/bridge/")
CODES = {
    400: "unreadable_request",
    408: "request_timeout",
    413: "body_too_large",
    414: "address_too_long",
    429: "too_many_requests",
    431: "headers_too_large",
}
RETRY_AFTER_S = 5


class Refusal(NamedTuple):
    """Status, headers and body of an answer after which the connection ends."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes

    def to_bytes(self) -> bytes:
        """As it goes over the wire."""
        head = f"HTTP/1.1 {self.status} {_phrase(self.status)}\r\n".encode()
        return head + b"".join(name + b": " + value + b"\r\n" for name, value in self.headers) + b"\r\n" + self.body


def make_refusal(path: str, status: int, detail: str) -> Refusal:
    """RFC 9457 for programs, a line of text for browsers.

    Args:
        path: that was asked for; "" where that is not known yet, and it is taken for a program's.
    """
    title = _phrase(status)
    if not path or path.startswith(PROBLEM_PATHS):
        code = CODES[status]
        body = {
            "type": f"urn:tentalis:problem:{code}",
            "title": title,
            "status": status,
            "detail": detail,
            "code": code,
        }
        raw, kind = json.dumps(body).encode(), b"application/problem+json"
    else:
        raw, kind = f"{title}: {detail}\n".encode(), b"text/plain; charset=utf-8"
    headers = [
        (b"content-type", kind),
        (b"content-length", str(len(raw)).encode()),
        (b"cache-control", b"no-store"),
        (b"connection", b"close"),
    ]
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        headers.append((b"retry-after", str(RETRY_AFTER_S).encode()))
    return Refusal(status, headers, raw)


def _phrase(status: int) -> str:
    return HTTPStatus(status).phrase
