"""Answers in the shapes that all of the edge has."""

from collections.abc import Mapping

from apps.gateway.dialects import DIALECTS
from tentalis.inbound.http1 import Response
from tentalis.inbound.refusals import CODES, RETRY_AFTER_S

SERVER = {"Server": "tentalis"}


def answer_json(body: bytes, headers: Mapping[str, str] | None = None, *, status: int = 200) -> Response:
    answer = Response(body, headers, status=status)
    answer.headers["Content-Type"] = "application/json"
    return answer


def describe_refusal(status: int, text: str) -> Response:
    """An error before it is known which API is spoken: in the form that OpenAI's clients read."""
    body = DIALECTS["chat"].error(status=status, message=text, code=CODES[status], param="")
    return answer_json(body, SERVER | ({"Retry-After": str(RETRY_AFTER_S)} if status == 429 else {}), status=status)
