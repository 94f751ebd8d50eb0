"""JSON posted to one address, by a client whose every connection is looked at; what goes wrong is an OSError."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import httpx

from tentalis.outbound.sync import guarded_client


class Posted(NamedTuple):
    """What was answered. Args: headers: by their names in lower case."""

    status: int
    headers: Mapping[str, str]
    text: str


class JsonPoster:
    """Close it."""

    def __init__(self, url: str, *, allow_private: bool, timeout_s: float) -> None:
        """Args: timeout_s: of an answer, all of it included."""
        self._url = url
        self._client = guarded_client(allow_private=allow_private, timeout=timeout_s, total_s=timeout_s)

    def post(self, body: Mapping[str, Any], headers: Mapping[str, str]) -> Posted:
        """Raises OSError: it may not be asked, or does not answer."""
        return self._send("POST", headers, json=dict(body))

    def delete(self, headers: Mapping[str, str]) -> Posted:
        """As `post`, without a body."""
        return self._send("DELETE", headers)

    def _send(self, verb: str, headers: Mapping[str, str], **body: Any) -> Posted:
        try:
            answer = self._client.request(verb, self._url, headers=dict(headers), **body)
        except httpx.HTTPError as error:
            raise OSError(str(error) or type(error).__name__) from error
        return Posted(answer.status_code, {name.lower(): value for name, value in answer.headers.items()}, answer.text)

    def close(self) -> None:
        self._client.close()
