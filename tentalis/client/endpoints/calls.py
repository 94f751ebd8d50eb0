"""A request before it is sent, and what every family of operations sends it by."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

Json = dict[str, Any]
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Call:
    """One request before it is sent.

    Args:
        params: query parameters; None values are left out.
        body: JSON object; None for none.
    """

    verb: str
    path: str
    params: Mapping[str, Any] = field(default_factory=dict)
    body: Json | None = None


class Sender(Generic[Answer]):
    """Sends calls; one client waits for the answer, the other can be awaited."""

    def send(self, call: Call) -> Answer:
        """Send a request, again where that is safe and may help."""
        raise NotImplementedError

    def _get(self, path: str, **params: Any) -> Answer:
        return self.send(Call("GET", path, params))

    def _post(self, path: str, **body: Any) -> Answer:
        return self.send(Call("POST", path, body=leave_out_none(body)))

    def _patch(self, path: str, **body: Any) -> Answer:
        return self.send(Call("PATCH", path, body=body))

    def _delete(self, path: str) -> Answer:
        return self.send(Call("DELETE", path))


def leave_out_none(body: Mapping[str, Any]) -> Json:
    return {name: value for name, value in body.items() if value is not None}
