"""A caller of the REST API in tests."""

import json
from typing import Any

from django.test import Client


class Answer:
    """Status, headers and body of one answer."""

    def __init__(self, response: Any) -> None:
        self.status: int = response.status_code
        self.headers = response.headers
        streamed = getattr(response, "streaming", False)
        self.content: bytes = b"".join(response.streaming_content) if streamed else response.content
        self.is_problem = self.headers.get("Content-Type", "").startswith("application/problem+json")

    @property
    def body(self) -> Any:
        return json.loads(self.content) if self.content else None

    def __repr__(self) -> str:
        return f"{self.status} {self.content[:2000]!r}"


class Caller:
    """Sends JSON with a bearer token; no token for ""."""

    def __init__(self, token: str) -> None:
        self.token = token
        self._client = Client(raise_request_exception=False)

    def send(self, verb: str, path: str, body: Any = None, *, headers: dict[str, str] | None = None) -> Answer:
        sent = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        full = path if path.startswith("/") else f"/{path}" if path.startswith("bridge/") else f"/api/v1/{path}"
        response = self._client.generic(
            verb, full, content, content_type="application/json", headers=sent | (headers or {})
        )
        return Answer(response)

    def get(self, path: str, **headers: str) -> Answer:
        return self.send("GET", path, headers=headers)

    def post(self, path: str, body: Any = None, *, key: str | None = None) -> Answer:
        return self.send("POST", path, body, headers={"Idempotency-Key": key} if key else None)

    def patch(self, path: str, body: Any = None, *, key: str | None = None) -> Answer:
        return self.send("PATCH", path, body, headers={"Idempotency-Key": key} if key else None)

    def delete(self, path: str, *, key: str | None = None) -> Answer:
        return self.send("DELETE", path, headers={"Idempotency-Key": key} if key else None)
