"""`POST /v1/messages` for callers."""

from collections.abc import Sequence

import orjson

from apps.gateway.dialects.errors import make_anthropic_error
from apps.gateway.dialects.messages.answer import make_message
from apps.gateway.dialects.messages.request import read_request
from apps.gateway.dialects.messages.stream import MessageStream
from apps.gateway.dialects.protocol import Body, Json


class MessagesDialect:
    """Anthropic's Messages API."""

    name = "messages"

    def previous_id(self, body: Body) -> str | None:
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
