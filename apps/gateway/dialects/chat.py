"""OpenAI chat completions: the internal language itself, so nothing is translated."""

from collections.abc import Sequence

import orjson

from apps.gateway.dialects.errors import make_openai_error
from apps.gateway.dialects.protocol import BadRequestError, Body, Json
from apps.gateway.dialects.reading import read_list, read_str
from apps.gateway.dialects.wire import DONE, PING, dump_data


class ChatDialect:
    """`POST /v1/chat/completions`."""

    name = "chat"

    def previous_id(self, body: Body) -> str | None:
        return None

    def to_chat(self, body: Body, *, earlier: Sequence[Body] | None = None) -> Json:
        read_str(body, "model")
        if not read_list(body, "messages"):
            raise BadRequestError("messages must not be empty", param="messages")
        return dict(body)

    def from_chat(self, answer: Body, request: Body, *, id: str) -> Json:
        return dict(answer)

    def make_stream(self, request: Body, *, id: str) -> "ChatStream":
        return ChatStream()

    def answer_id(self, id: str) -> str:
        return f"chatcmpl-{id}"

    def error(self, *, status: int, message: str, code: str = "", param: str = "") -> bytes:
        return orjson.dumps(make_openai_error(status=status, message=message, code=code, param=param))


class ChatStream:
    """Chunks as they are."""

    def feed(self, chunk: Body) -> bytes:
        return dump_data(chunk)

    def finish(self) -> bytes:
        return DONE

    def fail(self, *, status: int, message: str, code: str = "") -> bytes:
        """An error in place of a chunk, which OpenAI's client raises; no `[DONE]`, for it is not."""
        return dump_data(make_openai_error(status=status, message=message, code=code))

    def ping(self) -> bytes:
        return PING
