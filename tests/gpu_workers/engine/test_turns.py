"""Turns of a chat model at our engine: what it is asked with, token for token, and what the trainer reads of it."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import torch

from apps.inference.client import ModelClient
from apps.workers.agents.chat import ChatAgent
from gpu_workers.backends.base_models import load_base
from tentalis.core.conversations.joining import Call, join_calls
from tentalis.core.worlds import AttemptDraft, TurnAsked
from tests.apps.workers.test_turns import ASKED, LAMP, LOOK, PRESS, see, take
from tests.engine_process import run_engine
from tests.gpu_workers.hugging_face import module_of
from tests.gpu_workers.templated import TEMPLATES, make_templated_model, serve_prompt
from tests.plugged.doors_package import TOOLS

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module", params=["qwen2.5", "llama3"])
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def client(family: str) -> Iterator[ModelClient]:
    # the end that the template writes is the model's end token here
    template = (
        (TEMPLATES / f"{family}.jinja").read_text().replace("<|im_end|>", "<|end|>").replace("<|eot_id|>", "<|end|>")
    )
    directory = make_templated_model(family, template)
    with run_engine(str(directory)) as address:
        yield ModelClient(address, allow_private=True, api_key=str(directory))


def test_each_turn_goes_on_from_the_tokens_before_it_and_the_trainer_reads_the_same_log_probs(
    client: ModelClient,
) -> None:
    directory = client.api_key
    model = directory.rpartition("/")[2]
    agent, drafts = ChatAgent(client, max_tokens=900, temperature=1.3), list[AttemptDraft]()
    messages: list[Mapping[str, Any]] = list(ASKED)
    for turn, call in enumerate((LOOK, PRESS, LOOK)):
        last = drafts[-1] if drafts else AttemptDraft()
        asked = [
            TurnAsked(
                messages=messages,
                prompt_token_ids=last.prompt_token_ids,
                token_ids=last.token_ids,
                seed=seed,
                turn=turn,
            )
            for seed in range(8)
        ]
        found = [one.draft for one in take(agent, *asked, model=model)]
        draft = next(one for one in found if one.ended and one.token_ids)  # some never say their end
        if drafts:
            size = len(last.prompt_token_ids) + len(last.token_ids)
            assert [*draft.prompt_token_ids[:size]] == [*last.prompt_token_ids, *last.token_ids]
            whole = serve_prompt(directory, messages, tools=TOOLS)  # type: ignore[arg-type]
            tail = draft.prompt_token_ids[size:]
            assert tuple(tail) == whole[len(whole) - len(tail) :]
            assert whole[len(whole) - len(tail) - 1] == last.token_ids[-1]  # what the template ends an answer with
            assert LAMP in "".join(client.spell(tail, model=model) or ())
        else:
            assert tuple(draft.prompt_token_ids) == serve_prompt(directory, messages, tools=TOOLS)  # type: ignore[arg-type]
            assert draft.request["tools"] == list(TOOLS)
        drafts.append(draft)
        messages = see(messages, call, LAMP)
    joined = join_calls([Call(one.prompt_token_ids, one.token_ids, one.logprobs, one.sampled) for one in drafts])
    assert sum(joined.sampled) == sum(len(one.token_ids) for one in drafts) < len(joined.tokens)
    base = load_base(directory)
    with torch.no_grad():
        logits = module_of(base)(input_ids=torch.tensor([[*joined.prompt, *joined.tokens]])).logits[
            0, len(joined.prompt) - 1 : -1
        ]
    read = (logits / 1.3).log_softmax(-1).gather(-1, torch.tensor(joined.tokens)[:, None])[:, 0]
    read_at_1 = logits.log_softmax(-1).gather(-1, torch.tensor(joined.tokens)[:, None])[:, 0]
    own, told = torch.tensor(joined.sampled), torch.tensor(joined.logprobs)
    closest = min((one[own] - told[own]).abs().max() for one in (read, read_at_1))
    assert closest < 1e-3


def test_a_text_is_scored_as_its_tokens_are(client: ModelClient) -> None:
    model = client.list_models()[0]
    texts = ["Total of two mugs?", "Be kind."]
    found = client.score_texts(texts, model=model)
    for text, scores in zip(texts, found, strict=True):
        (wanted,) = client.score([client.tokenize(text, model=model)], model=model)
        assert scores[-len(wanted) :] == pytest.approx(wanted, abs=1e-4)
        assert len(scores) - len(wanted) in {0, 1}  # a token that begins texts goes before it
