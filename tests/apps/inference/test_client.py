"""The client of model servers, against a fake one over real HTTP."""

import socket
from types import SimpleNamespace
from typing import Any

import pytest

from apps.inference import transport
from apps.inference.client import ModelClient
from apps.inference.errors import (
    ModelNotServedError,
    ProviderAnswerError,
    ProviderBusyError,
    ProviderRefusedError,
)
from tentalis.outbound.addresses import check_url
from tests.fakes import FakeModelServer


def test_many_prompts_and_tries_come_back_in_order_from_one_request() -> None:
    with FakeModelServer(reply=lambda prompt, index: f"{prompt} {index}") as server:
        groups = ModelClient(server.url, allow_private=True).sample(["one", "two"], model="desk", n=3, max_tokens=9)
    assert [[sample.text for sample in group] for group in groups] == [
        ["one 0", "one 1", "one 2"],
        ["two 0", "two 1", "two 2"],
    ]
    assert len(server.requests) == 1


def test_a_sample_has_its_exact_tokens_with_the_end_mark() -> None:
    with FakeModelServer(reply=lambda prompt, index: "hi there") as server:
        [[sample]] = ModelClient(server.url, allow_private=True).sample(["say hi"], model="desk", max_tokens=9)
        assert sample.token_texts == ["hi", " there", "<|end|>"]
        assert server.decode(sample.token_ids) == "hi there<|end|>"
        assert server.decode(sample.prompt_token_ids) == "say hi"
    assert sample.logprobs == [-0.5, -0.5, -0.5]
    assert sample.has_exact_tokens
    assert (sample.finish_reason, sample.served_by) == ("stop", "desk")


def test_prompts_of_token_ids_are_sent_as_they_are() -> None:
    with FakeModelServer() as server:
        ids = server.encode("<|user|>hello")
        [[sample]] = ModelClient(server.url, allow_private=True).sample([ids], model="desk", max_tokens=9)
    assert server.requests[0].body["prompt"] == [ids]
    assert sample.prompt_token_ids == ids


def test_vllm_is_told_to_sample_from_the_whole_distribution_whatever_the_model_recommends() -> None:
    """Its server takes what a request leaves open from the model's generation_config.json."""
    whole = {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
    with FakeModelServer() as server:
        client = ModelClient(server.url, kind="vllm", allow_private=True)
        client.sample(["one"], model="desk", max_tokens=9)
        client.chat([{"role": "user", "content": "one"}], model="desk", max_tokens=9, top_p=0.9)
    sampled, chatted = (request.body for request in server.requests)
    assert {**whole, "top_p": 1.0}.items() <= sampled.items()
    assert {**whole, "top_p": 0.9}.items() <= chatted.items()


def test_no_prompts_ask_nothing() -> None:
    with FakeModelServer() as server:
        assert ModelClient(server.url, allow_private=True).sample([], model="desk", max_tokens=9) == []
    assert server.requests == []


def test_a_chat_answer_has_its_exact_tokens() -> None:
    with FakeModelServer(reply=lambda prompt, index: "yes") as server:
        [sample] = ModelClient(server.url, allow_private=True).chat(
            [{"role": "user", "content": "ok?"}], model="desk", max_tokens=9
        )
    assert sample.has_exact_tokens
    assert sample.token_texts == ["yes", "<|end|>"]


def test_a_plain_server_is_sent_no_field_that_it_does_not_know() -> None:
    with FakeModelServer(is_plain=True, models=["gpt"]) as server:
        client = ModelClient(server.url, kind="openai", allow_private=True)
        [sample] = client.chat([{"role": "user", "content": "ok?"}], model="gpt", max_tokens=9)
    assert not sample.has_exact_tokens
    assert server.requests[0].body["max_completion_tokens"] == 9


def test_every_token_of_a_row_but_the_first_is_scored() -> None:
    with FakeModelServer() as server:
        rows = [server.encode("a b c"), server.encode("c b")]
        scores = ModelClient(server.url, allow_private=True).score(rows, model="desk")
    assert scores == [[-token / 8 for token in row[1:]] for row in rows]


def test_a_text_is_tokenised_once_per_process() -> None:
    with FakeModelServer() as server:
        client = ModelClient(server.url, allow_private=True)
        assert client.tokenize("<result> 7", model="desk") == client.tokenize("<result> 7", model="desk")
    assert len(server.requests) == 1


def test_an_adapter_loaded_twice_is_loaded() -> None:
    with FakeModelServer() as server:
        client = ModelClient(server.url, allow_private=True)
        client.load_adapter("clerk@v1-ab", "/adapters/1")
        client.load_adapter("clerk@v1-ab", "/adapters/1")
        assert client.list_models() == ["desk", "clerk@v1-ab"]
        client.unload_adapter("clerk@v1-ab")
        client.unload_adapter("clerk@v1-ab")
        assert client.list_models() == ["desk"]


def test_another_adapter_under_a_taken_name_is_refused() -> None:
    with FakeModelServer() as server:
        client = ModelClient(server.url, allow_private=True)
        client.load_adapter("clerk@v1-ab", "/adapters/1")
        with pytest.raises(ProviderRefusedError, match="already been loaded"):
            client.load_adapter("clerk@v1-ab", "/adapters/2")


def test_an_adapter_that_somebody_else_is_loading_is_worth_another_try() -> None:
    class Loading(FakeModelServer):
        def _serve(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
            if path == "/v1/load_lora_adapter":
                return 400, {"error": {"message": "the name is taken", "code": "adapter_name_taken"}}
            return super()._serve(path, body)

    with Loading() as server, pytest.raises(ProviderBusyError, match="is being loaded"):
        ModelClient(server.url, allow_private=True).load_adapter("clerk@v1-ab", "/adapters/1")


def test_a_server_that_lets_another_model_answer_is_not_believed() -> None:
    class Impostor(FakeModelServer):
        def _complete(self, body: dict[str, Any]) -> dict[str, Any]:
            return super()._complete(body) | {"model": "desk"}

    with (
        Impostor(models=["desk", "clerk@v1"]) as server,
        pytest.raises(ProviderAnswerError, match=r"wanted 'clerk@v1' to answer, found 'desk'"),
    ):
        ModelClient(server.url, allow_private=True).sample(["x"], model="clerk@v1", max_tokens=9)


@pytest.mark.parametrize(
    "choice",
    [
        {"message": "hi"},
        {"message": {"content": 7}},
        {"message": {"content": "hi"}, "logprobs": {"content": [{"token": "hi"}]}},
    ],
)
def test_a_choice_of_another_shape_is_an_unreadable_answer(choice: dict[str, Any]) -> None:
    class Odd(FakeModelServer):
        def _chat(self, body: dict[str, Any]) -> dict[str, Any]:
            return {"model": "desk", "choices": [choice]}

    with Odd() as server, pytest.raises(ProviderAnswerError, match="unreadable choice"):
        ModelClient(server.url, allow_private=True).chat([{"role": "user", "content": "x"}], model="desk", max_tokens=9)


def test_a_message_in_parts_is_read_as_their_text() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "image", "url": "x"}, {"type": "text", "text": "b"}]

    class Parted(FakeModelServer):
        def _chat(self, body: dict[str, Any]) -> dict[str, Any]:
            return {"model": "desk", "choices": [{"message": {"content": parts}}]}

    with Parted() as server:
        [sample] = ModelClient(server.url, allow_private=True).chat(
            [{"role": "user", "content": "x"}], model="desk", max_tokens=9
        )
    assert sample.text == "ab"


def test_a_missing_choice_is_an_unreadable_answer() -> None:
    with (
        FakeModelServer(knows_n=False) as server,
        pytest.raises(ProviderAnswerError, match="wanted 4 choices, found 1"),
    ):
        ModelClient(server.url, allow_private=True).sample(["x"], model="desk", n=4, max_tokens=9)


def test_too_many_requests_is_busy_and_keeps_the_wait_the_server_asked_for() -> None:
    with FakeModelServer(mode="busy") as server, pytest.raises(ProviderBusyError, match="slow down") as raised:
        ModelClient(server.url, allow_private=True).sample(["x"], model="desk", max_tokens=9)
    assert raised.value.retry_after_s == 7.0
    assert not raised.value.is_final


@pytest.mark.parametrize(
    ("header", "wait_s"), [("Wed, 21 Oct 2015 07:28:00 GMT", 0.0), ("-3", 0.0), ("soon", None), ("nan", None)]
)
def test_a_wait_in_the_past_is_none_and_an_unreadable_one_is_unknown(header: str, wait_s: float | None) -> None:
    with FakeModelServer(mode="busy", retry_after=header) as server, pytest.raises(ProviderBusyError) as raised:
        ModelClient(server.url, allow_private=True).list_models()
    assert raised.value.retry_after_s == wait_s


@pytest.mark.parametrize("answer", [[], {}, {"data": [7]}, {"tokens": "x"}])
def test_an_answer_of_another_shape_is_unreadable_whatever_was_asked(answer: Any) -> None:
    class Odd(FakeModelServer):
        def _serve(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
            return 200, answer

    with Odd() as server:
        client = ModelClient(server.url, allow_private=True)
        for ask in (
            client.list_models,
            lambda: client.tokenize("a", model="desk"),
            lambda: client.sample(["a"], model="desk", max_tokens=1),
            lambda: client.score([[1, 2]], model="desk"),
        ):
            with pytest.raises(ProviderAnswerError, match="wanted"):
                ask()


def test_answers_are_scored_behind_their_prompts_whatever_the_server_tells_of_those() -> None:
    with FakeModelServer() as server:
        server.encode("a b c d e f g h i")
        found = ModelClient(server.url, allow_private=True).score_answers([([1, 2], [8, 4]), ([3], [])], model="desk")
        assert found == [[-1.0, -0.5], []]
        assert server.requests[-1].body["logprob_start_len"] == [2, 1]


def test_prompt_log_probs_of_other_tokens_are_unreadable() -> None:
    class Odd(FakeModelServer):
        def _complete(self, body: dict[str, Any]) -> dict[str, Any]:
            return {"model": "desk", "choices": [{"prompt_logprobs": [None, {"9": {"logprob": -1.0}}]}]}

    with Odd() as server, pytest.raises(ProviderAnswerError, match="do not name the prompt's tokens"):
        ModelClient(server.url, allow_private=True).score([[1, 2]], model="desk")


def test_a_broken_server_is_busy() -> None:
    with FakeModelServer(mode="broken") as server, pytest.raises(ProviderBusyError, match="500: the engine died"):
        ModelClient(server.url, allow_private=True).sample(["x"], model="desk", max_tokens=9)


def test_a_silent_server_is_busy_after_the_timeout() -> None:
    with FakeModelServer(mode="silent") as server, pytest.raises(ProviderBusyError, match="did not answer in time"):
        ModelClient(server.url, timeout_s=0.05, allow_private=True).sample(["x"], model="desk", max_tokens=9)


def test_a_server_that_is_not_there_is_busy() -> None:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unheard.getsockname()[1]}"
        with pytest.raises(ProviderBusyError, match="cannot be reached"):
            ModelClient(url, allow_private=True).list_models()


def test_a_proxys_page_in_place_of_json_is_an_unreadable_answer_worth_another_try() -> None:
    with FakeModelServer(mode="garbage") as server, pytest.raises(ProviderAnswerError, match="wanted JSON") as raised:
        ModelClient(server.url, allow_private=True).sample(["x"], model="desk", max_tokens=9)
    assert not raised.value.is_final


def test_a_refusal_is_final_and_keeps_the_servers_words() -> None:
    with FakeModelServer(mode="refusing") as server, pytest.raises(ProviderRefusedError, match="policy") as raised:
        ModelClient(server.url, allow_private=True).sample(["x"], model="desk", max_tokens=9)
    assert raised.value.is_final


def test_a_model_nobody_serves_is_told_apart_from_other_refusals() -> None:
    with FakeModelServer() as server, pytest.raises(ModelNotServedError, match="clerk@v9"):
        ModelClient(server.url, allow_private=True).sample(["x"], model="clerk@v9", max_tokens=9)


def test_a_redirect_is_refused_and_not_followed() -> None:
    with FakeModelServer(mode="redirecting") as server, pytest.raises(ProviderRefusedError, match="redirect"):
        ModelClient(server.url, "secret", allow_private=True).sample(["x"], model="desk", max_tokens=9)


def test_the_key_is_sent_and_never_shown() -> None:
    with FakeModelServer(mode="refusing") as server:
        client = ModelClient(server.url, "sk-very-secret", allow_private=True)
        with pytest.raises(ProviderRefusedError) as raised:
            client.list_models()
    assert server.requests[0].headers["Authorization"] == "Bearer sk-very-secret"
    assert "sk-very-secret" not in f"{raised.value} {client!r}"


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/"])
def test_an_address_is_taken_with_and_without_the_apis_prefix(suffix: str) -> None:
    with FakeModelServer() as server:
        client = ModelClient(server.url + suffix, allow_private=True)
        assert client.list_models() == ["desk"]
        assert len(client.tokenize("a b", model="desk")) == 2


def test_an_address_that_is_none_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(ProviderRefusedError, match="like http://host:port, found 'ftp://models'"):
        ModelClient("ftp://models").list_models()


def test_a_connection_that_nobody_uses_any_more_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000.0
    monkeypatch.setattr(transport, "time", SimpleNamespace(monotonic=lambda: now))
    connections = transport._Connections(check_url("http://127.0.0.1:9"), allow_private=True)
    with connections.lend(1.0) as used, connections.lend(1.0) as other:
        pass
    now += transport._UNUSED_S
    with connections.lend(1.0) as again:
        assert again is used
    assert not other.is_closed
    now += 1.0
    with connections.lend(1.0):
        pass
    assert (other.is_closed, used.is_closed) == (True, False)


def test_connections_to_a_server_that_nobody_asks_any_more_are_closed_by_who_asks_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1_000.0
    monkeypatch.setattr(transport, "time", SimpleNamespace(monotonic=lambda: now))
    servers = transport._Servers()
    left, asked = check_url("http://127.0.0.1:9"), check_url("http://127.0.0.1:10")
    with servers.find(left, allow_private=True).lend(1.0) as client:
        pass
    now += 2 * transport._UNUSED_S
    assert servers.find(asked, allow_private=True) is servers.find(asked, allow_private=True)
    assert client.is_closed
