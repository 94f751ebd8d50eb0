"""`POST /v1/responses` for callers."""

from collections.abc import Sequence

import orjson

from apps.gateway.dialects.errors import make_openai_error
from apps.gateway.dialects.protocol import Body, Json
from apps.gateway.dialects.reading import refusal
from apps.gateway.dialects.responses.answer import make_response
from apps.gateway.dialects.responses.request import read_request
from apps.gateway.dialects.responses.stream import ResponseStream


class ResponsesDialect:
    """OpenAI's Responses API."""

    name = "responses"

    def previous_id(self, body: Body) -> str | None:
        found = body.get("previous_response_id")
        if found is not None and not isinstance(found, str):
            raise refusal("previous_response_id", "a string", found)
        return found or None

    def to_chat(self, body: Body, *, earlier: Sequence[Body] | None = None) -> Json:
        return read_request(body, earlier=earlier)

    def from_chat(self, answer: Body, request: Body, *, id: str) -> Json:
        return make_response(answer, request, id=id)

    def make_stream(self, request: Body, *, id: str) -> ResponseStream:
        return ResponseStream(request, id=id)

    def answer_id(self, id: str) -> str:
        return f"resp_{id}"

    def error(self, *, status: int, message: str, code: str = "", param: str = "") -> bytes:
        return orjson.dumps(make_openai_error(status=status, message=message, code=code, param=param))
