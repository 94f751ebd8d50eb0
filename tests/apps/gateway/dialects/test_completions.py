"""Legacy completions of models that can only chat, by hand."""

import pytest
from openai.types import Completion

from apps.gateway.dialects import DIALECTS, BadRequestError
from tests.apps.gateway.dialects.conversations import ID, Json, make_answer

DIALECT = DIALECTS["completions"]


def test_a_prompt_is_what_a_user_says() -> None:
    body = {"model": "m", "prompt": ["hi"], "n": 2, "stop": "END", "logprobs": 3, "stream": True, "seed": 1}
    assert DIALECT.to_chat(body) == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 16,
        "n": 2,
        "stop": "END",
        "seed": 1,
        "logprobs": True,
        "top_logprobs": 3,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": [1, 2]}, "prompt"),
        ({"prompt": ["a", "b"]}, "prompt"),
        ({"echo": True}, "echo"),
        ({"suffix": "x"}, "suffix"),
        ({"best_of": 3}, "best_of"),
        ({"model": None}, "model"),
    ],
)
def test_what_chat_cannot_do_is_refused(fields: Json, param: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        DIALECT.to_chat({"model": "m", "prompt": "hi", **fields})
    assert caught.value.param == param


def test_every_choice_and_its_log_probs_are_there() -> None:
    tops = [{"token": "H", "logprob": -0.1}, {"token": "Y", "logprob": -2.0}]
    content = [{"token": "H", "logprob": -0.1, "top_logprobs": tops}, {"token": "i!", "logprob": -0.2}]
    answer = make_answer({"content": "Hi!"}, finish="length", logprobs={"content": content})
    answer["choices"].append({"index": 1, "message": {"content": "Yo"}, "finish_reason": "tool_calls"})
    completion = DIALECT.from_chat(answer, {"model": "m"}, id=ID)
    Completion.model_validate(completion)
    first, second = completion["choices"]
    assert (first["text"], first["finish_reason"]) == ("Hi!", "length")
    assert first["logprobs"] == {
        "tokens": ["H", "i!"],
        "token_logprobs": [-0.1, -0.2],
        "top_logprobs": [{"H": -0.1, "Y": -2.0}, {}],
        "text_offset": [0, 1],
    }
    assert (second["text"], second["finish_reason"], second["logprobs"]) == ("Yo", "stop", None)
