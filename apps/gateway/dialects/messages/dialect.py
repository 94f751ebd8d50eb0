"""`POST /v1/messages` for callers."""

from collections.abc import Sequence

import orjson

from apps.gateway.dialects.errors import make_anthropic_error
from apps.gateway.dialects.messages.answer import make_message
from apps.gateway.dialects.messages.request import read_request
from apps.gateway.dialects.messages.stream import MessageStream
from apps.gateway.dialects.protocol import BadRequestError, Body, Json


class UnsupportedThreadError(BadRequestError):
    """The caller wants its conversation kept by the server. Anthropic's client knows the code, and sends it whole."""

    code = "thread_unsupported_request"
    is_recorded = False

    def __init__(self) -> None:
        super().__init__(
            "conversations are not kept here: send all messages each time, without `thread`", param="thread"
        )


class MessagesDialect:
    """Anthropic's Messages API."""

    name = "messages"

    def previous_id(self, body: Body) -> str | None:
        """None. Raises UnsupportedThreadError: a request that goes on from another does not say the conversation."""
        if body.get("thread") is not None:
            raise UnsupportedThreadError
        return None

    def to_chat(self, body: Body, *, earlier: Sequence[Body] | None = None) -> Json:
        return read_request(body)

    def from_chat(self, answer: Body, request: Body, *, id: str) -> Json:
        return make_message(answer, request, id=self.answer_id(id))

    def make_stream(self, request: Body, *, id: str) -> MessageStream:
        return MessageStream(request, id=self.answer_id(id))

    def answer_id(self, id: str) -> str:
        return f"msg_{id}"

    def error(self, *, status: int, message: str, code: str = "", param: str = "") -> bytes:
        return orjson.dumps(make_anthropic_error(status=status, message=message, code=code, param=param))
