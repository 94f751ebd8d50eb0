"""Errors as each client library reads them."""

import json

import pytest
from anthropic.types.shared import ErrorResponse
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.gateway.dialects import DIALECTS, BadRequestError, read_error
from tests.apps.gateway.dialects.conversations import values

OPENAI = ["chat", "completions", "responses"]


@pytest.mark.parametrize("name", OPENAI)
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "invalid_request_error"),
        (429, "rate_limit_error"),
        (502, "server_error"),
    ],
)
def test_openais_error_object(name: str, status: int, kind: str) -> None:
    error = json.loads(DIALECTS[name].error(status=status, message="why", code="a_code", param="messages.0"))
    assert error == {"error": {"message": "why", "type": kind, "param": "messages.0", "code": "a_code"}}


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (402, "billing_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (422, "invalid_request_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (502, "api_error"),
        (503, "overloaded_error"),
        (504, "timeout_error"),
        (529, "overloaded_error"),
    ],
)
def test_anthropics_error_object(status: int, kind: str) -> None:
    error = json.loads(DIALECTS["messages"].error(status=status, message="why"))
    assert error == {"type": "error", "error": {"type": kind, "message": "why"}}
    ErrorResponse.model_validate(error)


def test_anthropics_message_names_the_field() -> None:
    error = json.loads(DIALECTS["messages"].error(status=400, message="too long", code="bad", param="messages.0"))
    assert error["error"]["message"] == "messages.0: too long"
    assert error["error"]["details"] == {"error_code": "bad"}
    named = DIALECTS["messages"].error(status=400, message="messages.0: too long", param="messages.0")
    assert json.loads(named)["error"]["message"] == "messages.0: too long"


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (
            b'{"error": {"message": "no", "type": "t", "param": "model", "code": "c"}}',
            ("no", "c", "model"),
        ),
        (
            b'{"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}',
            ("busy", "overloaded_error", ""),
        ),
        (b'{"error": {"message": "no", "type": "BadRequestError", "code": 400}}', ("no", "400", "")),
        (b'{"error": "model not loaded"}', ("model not loaded", "", "")),
        (b'{"detail": "Not Found"}', ("Not Found", "", "")),
        (b'{"detail": [{"loc": ["body"]}]}', ('[{"loc":["body"]}]', "", "")),
        (b"<html>Bad Gateway</html>", ("<html>Bad Gateway</html>", "", "")),
        (b"\xff\xfe", ("\ufffd\ufffd", "", "")),
        (b"", ("", "", "")),
        (b"[1]", ("[1]", "", "")),
    ],
)
def test_errors_of_servers_are_read_in_every_known_shape(raw: bytes, words: tuple[str, str, str]) -> None:
    assert read_error(raw) == words


@settings(deadline=None)
@given(values)
def test_no_error_of_a_server_is_unreadable(value: object) -> None:
    assert isinstance(read_error(json.dumps(value).encode()).message, str)
    assert isinstance(read_error(json.dumps({"error": value}).encode()).message, str)


@settings(deadline=None)
@given(st.sampled_from(list(DIALECTS)), st.dictionaries(st.text(max_size=5), values, max_size=3), st.data())
def test_no_request_breaks_a_translator(name: str, body: dict[str, object], data: st.DataObject) -> None:
    """Whatever JSON is sent: it is a chat request, or a refusal that names what is wrong."""
    fields = ["model", "messages", "input", "prompt", "max_tokens", "tools", "tool_choice", "system", "thinking"]
    fields += ["text", "reasoning", "output_config", "metadata", "instructions", "stop", "include", "logprobs"]
    body |= data.draw(st.dictionaries(st.sampled_from(fields), hostile, max_size=6))
    if data.draw(st.booleans()):
        body |= {"model": "m", "max_tokens": 9}
    try:
        chat = DIALECTS[name].to_chat(body)
    except BadRequestError as error:
        assert str(error)  # noqa: PT017 - either is right
    else:
        assert chat["messages"]


keys = st.sampled_from(["type", "role", "content", "text", "source", "name", "input", "function", "id", "format"])
words = st.sampled_from(
    [
        "user",
        "assistant",
        "text",
        "image",
        "tool_use",
        "tool_result",
        "thinking",
        "function",
        "message",
        "base64",
        "url",
    ]
)
hostile = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | words | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)


def test_a_conversation_the_server_was_to_keep_is_refused_as_anthropics_client_knows_it() -> None:
    dialect = DIALECTS["messages"]
    with pytest.raises(BadRequestError, match="send all messages each time") as refused:
        dialect.previous_id({"thread": {"type": "create"}})
    found = refused.value
    body = dialect.error(status=found.status, message=str(found), code=found.code, param=found.param)
    assert json.loads(body)["error"]["details"] == {"error_code": "thread_unsupported_request"}
    assert (found.status, found.is_recorded) == (400, False)
