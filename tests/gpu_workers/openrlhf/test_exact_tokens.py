"""Exact tokens through OpenRLHF's own data sets and preference trainer: what is learnt is what was said, and counts."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from gpu_workers.backends.errors import NothingToLearnError
from gpu_workers.backends.openrlhf.plugin import exact_tokens, head
from gpu_workers.backends.openrlhf.read_back import AdapterNotAsAskedError, read_saved_head
from gpu_workers.backends.openrlhf.records import (
    BaseTokens,
    write_demonstrations,
    write_pairs,
    write_step_pairs,
)
from tentalis.core.contracts import AnswerRecord, DemonstrationRecord, LabelledStep, LabelledStepsRecord, PairRecord
from tests.gpu_workers.openrlhf.real_classes import import_openrlhf

PROMPT = [3, 9, 1]
MESSAGES = [{"role": "user", "content": "Order: 2 mug at 2 EUR, new client. Total?"}]


@pytest.fixture(scope="module")
def openrlhf() -> Iterator[SimpleNamespace]:
    with import_openrlhf() as modules:
        exact_tokens.read_demonstrations(modules.shown)
        exact_tokens.read_pairs(modules.pairs)
        exact_tokens.count_some(modules.dpo)
        yield modules


@pytest.fixture(scope="module")
def base() -> BaseTokens:
    return BaseTokens.open("desk")


class Rows(list[dict[str, Any]]):
    """As much of `datasets.Dataset` as a data set asks for."""

    column_names = ()

    def map(self, function: Any, **_: Any) -> "Rows":
        return Rows(function(row) for row in self)

    def filter(self, function: Any) -> "Rows":
        return Rows(row for row in self if function(row))

    def __getitem__(self, name: Any) -> Any:
        return [row[name] for row in self] if isinstance(name, str) else list.__getitem__(self, name)


def open_data(kind: type, path: Path, *, is_dpo: bool = False) -> Any:
    names = {"input_key": "prompt", "output_key": "answer", "prompt_key": "prompt", "chosen_key": "chosen"}
    strategy = SimpleNamespace(args=SimpleNamespace(data=SimpleNamespace(**names, rejected_key="rejected")))
    rows = Rows(json.loads(line) for line in path.read_text().splitlines())
    tokenizer = SimpleNamespace(pad_token_id=0, eos_token="</s>", eos_token_id=1)
    return kind(rows, tokenizer, 64, strategy, **({"is_dpo": True} if is_dpo else {}))


def show(tokens: list[int], counts: list[bool], *, answer: str = "") -> DemonstrationRecord:
    return DemonstrationRecord(
        demonstration_id=1, group_id=1, source="attempt", messages=[] if tokens else MESSAGES, answer=answer,
        prompt_token_ids=PROMPT if tokens else [], token_ids=tokens, counts=counts,
    )  # fmt: skip


def pair(number: int = 1, **changes: Any) -> PairRecord:
    values: dict[str, Any] = {
        "pair_id": number, "group_id": number, "source": "attempts", "messages": [], "prompt_token_ids": PROMPT,
        "chosen": [AnswerRecord(token_ids=[7, 8, 1], counts=[True, False, True])],
        "rejected": [AnswerRecord(token_ids=[6, 1], counts=[True, True])],
    }  # fmt: skip
    return PairRecord(**values | changes)


def test_a_demonstration_is_its_tokens_and_a_tools_result_does_not_count(
    openrlhf: SimpleNamespace, base: BaseTokens, tmp_path: Path
) -> None:
    shown = [show([7, 8, 8, 1], [True, False, False, True]), show([7, 1], [True, True])]
    assert write_demonstrations(tmp_path / "d", shown, base, max_tokens=64) == 2
    data = open_data(openrlhf.shown.SFTDataset, tmp_path / "d")
    ids, attended, counted = data[0]
    assert ids.tolist() == [[3, 9, 1, 7, 8, 8, 1]]
    assert attended.tolist() == [[1] * 7]
    assert counted.tolist() == [[0, 0, 1, 0, 0, 1, 0]], "at each place, whether the next token counts"
    whole, _, losses = data.collate_fn([data[0], data[1]])
    assert whole.shape == losses.shape == (2, 7)


def test_an_answer_that_nobody_sampled_is_written_as_the_model_would_have_ended_it(
    openrlhf: SimpleNamespace, base: BaseTokens, tmp_path: Path
) -> None:
    write_demonstrations(tmp_path / "d", [show([], [], answer="4 EUR")], base, max_tokens=64)
    ids, _, counted = open_data(openrlhf.shown.SFTDataset, tmp_path / "d")[0]
    answer = ids[0][counted[0].bool().roll(1)].tolist()
    assert answer[-1] == base.end
    assert base.codec.decode(answer[:-1], skip_special=False) == "4 EUR"


def test_a_pair_is_its_tokens_and_the_sum_is_of_those_that_count(
    openrlhf: SimpleNamespace, base: BaseTokens, tmp_path: Path
) -> None:
    edited = pair(2, prompt_token_ids=[], messages=MESSAGES, chosen=[AnswerRecord(text="4")])
    assert write_pairs(tmp_path / "p", [pair(), edited], base, max_tokens=64) == 2
    data = open_data(openrlhf.pairs.RewardDataset, tmp_path / "p", is_dpo=True)
    batch = data.collate_fn([data[0], data[1]])
    trainer = object.__new__(openrlhf.dpo.DPOTrainer)
    trainer.tokenizer, trainer.strategy = SimpleNamespace(pad_token_id=0), SimpleNamespace(ring_attn_group=None)
    seen: list[Tensor] = []

    def model(ids: Tensor, **_: Any) -> tuple[Tensor, dict[str, Any]]:
        seen.append(ids)
        return -ids[:, 1:].float(), {}  # the log-prob of a token is its number, below zero

    chosen, rejected, _, nll = trainer.concatenated_forward(model, *(each.squeeze(1) for each in batch[:4]), batch[4])
    assert seen[0][0, :6].tolist() == [3, 9, 1, 7, 8, 1]
    ended = data[1][0][0, -2:].tolist()
    assert ended[1] == base.end
    assert chosen.tolist() == [-(7 + 1), -float(sum(ended))]
    assert rejected.tolist() == [-(6 + 1), -(6 + 1)]
    assert float(nll) == pytest.approx((8 / 2 + sum(ended) / 2) / 2)


def test_what_does_not_fit_or_says_nothing_is_left_out_and_nothing_is_said_so(base: BaseTokens, tmp_path: Path) -> None:
    same = pair(chosen=pair().rejected)
    assert write_pairs(tmp_path / "p", [pair(), same], base, max_tokens=64) == 1
    with pytest.raises(NothingToLearnError, match="none of 1 records says anything within 4 tokens"):
        write_pairs(tmp_path / "p", [pair()], base, max_tokens=4)
    with pytest.raises(NothingToLearnError, match="none of 1 records"):
        write_demonstrations(tmp_path / "d", [show([8], [False])], base, max_tokens=64)


def label(attempt: int, tokens: list[int], *steps: tuple[int, int, float | None, float]) -> LabelledStepsRecord:
    return LabelledStepsRecord(
        attempt_id=attempt, group_id=1, split="train", prompt_token_ids=PROMPT, token_ids=tokens,
        steps=[
            LabelledStep(step_id=number, start=start, end=end, label=said, weight=weight)
            for number, (start, end, said, weight) in enumerate(steps)
        ],
    )  # fmt: skip


def test_steps_become_pairs_that_end_where_the_steps_do_drawn_by_trust(tmp_path: Path) -> None:
    records = [
        label(1, [7, 7, 8, 8], (0, 2, 1.0, 1.0), (2, 4, 0.0, 1.0)),
        label(2, [5, 5, 5], (0, 1, 0.9, 0.0), (1, 3, 0.2, 0.25), (0, 2, None, 1.0)),
    ]
    drawn = write_step_pairs(tmp_path / "s", records, updates=9, batch=400, max_tokens=64, seed=1)
    assert drawn == 400, "no more batches than different pairs fill"
    lines = [json.loads(line) for line in (tmp_path / "s").read_text().splitlines()]
    assert {line["prompt"] for line in lines} == {"[3, 9, 1]"}
    assert {tuple(json.loads(line["chosen"])["ids"]) for line in lines} == {(7, 7)}
    rejected = [tuple(json.loads(line["rejected"])["ids"]) for line in lines]
    share = rejected.count((5, 5, 5)) / len(rejected)
    assert set(rejected) == {(7, 7, 8, 8), (5, 5, 5)}
    assert share == pytest.approx(0.2 / 1.2, abs=0.06), "0.8 apart at a quarter of the trust, beside 1 apart at all"
    with pytest.raises(NothingToLearnError, match="found none among 1 attempts"):
        write_step_pairs(tmp_path / "s", records[1:], updates=9, batch=4, max_tokens=64, seed=1)


class RewardModel(torch.nn.Module):
    value_head_prefix = "score"

    def __init__(self) -> None:
        super().__init__()
        self.model = torch.nn.Linear(4, 4)
        self.score = torch.nn.Linear(4, 1, bias=False)


def test_a_reward_model_trains_and_saves_its_head_alone_and_it_scores_the_same_here(tmp_path: Path) -> None:
    module: Any = ModuleType("model")
    module.get_llm_for_sequence_regression = RewardModel
    head.train_head_alone(module)
    model: Any = module.get_llm_for_sequence_regression()
    assert [name for name, parameter in model.named_parameters() if parameter.requires_grad] == ["score.weight"]
    weights = {name: tensor.to(torch.bfloat16) for name, tensor in model.state_dict().items()}
    model.save_pretrained(str(tmp_path), state_dict=weights)
    assert list(load_file(tmp_path / head.HEAD_FILE)) == ["weight"]
    found = read_saved_head(tmp_path)
    states = torch.randn(5, 12)  # a step's last state, and two means that a linear head does not look at
    wanted = states[:, :4] @ weights["score.weight"].float()[0]
    torch.testing.assert_close(found.logits(states), wanted)


def test_what_is_no_head_is_refused(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    save_file({"weight": torch.ones(2, 4)}, tmp_path / head.HEAD_FILE)
    with pytest.raises(AdapterNotAsAskedError, match=r"weight of shape \(1, width\), found .*\(2, 4\)"):
        read_saved_head(tmp_path)
