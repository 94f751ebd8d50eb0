"""What the gateway does with a caller's temperature and the like, and what of it is kept."""

from typing import Any

import pytest

from apps.gateway.asking import make_question
from apps.gateway.errors import RefusalError
from apps.gateway.routing import Route
from apps.gateway.tables import Backend, Served
from apps.inference.provider_kinds import KINDS
from tentalis.core.limits import Limits

ASKED: dict[str, Any] = {"model": "helper", "messages": [{"role": "user", "content": "hello"}]}


def make_route(kind: str = "vllm", *, tells_processed: bool = False) -> Route:
    backend = Backend(
        key=1, name="stub", kind=KINDS[kind], urls=("http://stub",), headers={}, default_model="",
        trusts_private=False, timeout_s=1.0, limits=Limits(), tells_processed=tells_processed,
    )  # fmt: skip
    return Route(backend, Served("base"), "helper", True)


def test_what_a_caller_asks_is_handed_on_and_kept_with_what_the_server_tells() -> None:
    body = ASKED | {"temperature": 0.7, "top_p": 1, "top_k": 20, "frequency_penalty": 0}
    question = make_question(body, make_route(), "chat")
    assert (question.body["temperature"], question.body["top_k"]) == (0.7, 20)
    assert question.sampling == {"temperature": 0.7, "top_k": 20, "tells": "raw"}
    assert make_question(body, make_route(tells_processed=True), "chat").sampling["tells"] == "processed"
    assert make_question(ASKED, make_route("engine"), "chat").sampling == {"tells": "processed"}


def test_a_project_that_enforces_plain_sampling_gets_it_whatever_is_asked() -> None:
    body = ASKED | {"temperature": 0, "top_p": 0.5, "logit_bias": {"3": 1}, "max_tokens": 5}
    question = make_question(body, make_route(), "chat", sampling="enforce")
    assert question.body["temperature"] == 1.0
    assert question.body["top_p"] == 1.0
    assert "logit_bias" not in question.body
    assert question.body["max_tokens"] == 5
    assert question.sampling == {"tells": "raw"}
    assert make_question(body, make_route("openai"), "chat", sampling="enforce").body["temperature"] == 0


def test_a_project_that_refuses_names_what_it_found() -> None:
    with pytest.raises(RefusalError, match=r"plain sampling alone .* found temperature 0.2, min_p 0.1") as refused:
        make_question(ASKED | {"min_p": 0.1, "temperature": 0.2}, make_route(), "chat", sampling="refuse")
    assert (refused.value.status, refused.value.param) == (400, "temperature")
    assert make_question(ASKED | {"temperature": 1.0, "top_p": 1.0}, make_route(), "chat", sampling="refuse")


def test_a_format_stays_where_plain_sampling_is_enforced_and_is_kept_with_the_answer() -> None:
    wanted = {"type": "json_schema", "json_schema": {"name": "order", "schema": {"type": "object"}}}
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "top_p": 0.5, "response_format": wanted}
    question = make_question(body, make_route(), "chat", sampling="enforce")
    assert question.body["response_format"] == wanted
    assert question.sampling["response_format"] == "json_schema"
    assert "top_p" not in question.sampling
