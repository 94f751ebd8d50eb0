"""Error objects as OpenAI's and Anthropic's client libraries read them."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from apps.gateway.dialects.protocol import Body, Json

_OPENAI_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_ANTHROPIC_TYPES = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_ANTHROPIC_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}


class ErrorWords(NamedTuple):
    """What a server said about its error; "" for what it did not say."""

    message: str
    code: str
    param: str


def make_openai_error(*, status: int, message: str, code: str = "", param: str = "") -> Json:
    """`{"error": {message, type, param, code}}`; the type follows the status."""
    kind = _OPENAI_TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": param or None, "code": code or None}}


def make_anthropic_error(*, status: int, message: str, code: str = "", param: str = "") -> Json:
    """`{"type": "error", "error": {type, message, details?}}`; the field at fault leads the message."""
    kind = _ANTHROPIC_TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
    words = f"{param}: {message}" if param and not message.startswith(param) else message
    error: Json = {"type": kind, "message": words}
    if code:
        error["details"] = {"error_code": code}
    return {"type": "error", "error": error}


def status_of_anthropic(kind: str) -> int:
    """HTTP status that goes with an error type, for errors inside a stream."""
    return _ANTHROPIC_STATUS.get(kind, 500)


def read_error(raw: bytes) -> ErrorWords:
    """What a model server's error body says, in any known shape; what is no JSON is the message itself."""
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return ErrorWords(raw[:2000].decode("utf-8", "replace").strip(), "", "")
    error = body.get("error", body) if isinstance(body, Mapping) else body
    if isinstance(error, str):
        return ErrorWords(error, "", "")
    if not isinstance(error, Mapping):
        return ErrorWords(raw[:2000].decode("utf-8", "replace"), "", "")
    message = error.get("message") or error.get("detail") or raw[:2000].decode("utf-8", "replace")
    code = error.get("code") or error.get("type") or ""
    return ErrorWords(
        message if isinstance(message, str) else _dump(message, raw),
        str(code),
        str(error.get("param") or ""),
    )


def find_own_error(answer: Body) -> Any:
    """The error that an answer is, or holds in its place; None where it has none."""
    return answer.get("error") or (answer if answer.get("object") == "error" else None)  # the latter as vLLM wrote it


def find_failure(answer: Body) -> ErrorWords | None:
    """An error in an answer, or in a piece of one: in its place, beside its choices or in one of them.

    A finish reason "error" is one without words: vLLM ends so what it could not go on with, and OpenRouter too.
    """
    error = find_own_error(answer)
    if not error:
        for choice in answer.get("choices") or ():
            if isinstance(choice, Mapping) and (choice.get("error") or choice.get("finish_reason") == "error"):
                error = choice.get("error") or "it ended its answer with an error"
                break
    if not error:
        return None
    if not isinstance(error, Mapping):
        return ErrorWords(str(error)[:2000], "", "")
    return ErrorWords(str(error.get("message") or error)[:2000], str(error.get("code") or ""), "")


def _dump(message: Any, raw: bytes) -> str:
    """As JSON; the error's own text where that lies too deep to be written."""
    try:
        return orjson.dumps(message).decode()
    except TypeError:
        return raw[:2000].decode("utf-8", "replace")
