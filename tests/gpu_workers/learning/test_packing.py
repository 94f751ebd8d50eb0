import random

import pytest
import torch
from torch import Tensor
from transformers import Qwen2Config, Qwen2ForCausalLM

from gpu_workers.learning.packing import PackedRow, pack_rows, split_blocks

pytestmark = pytest.mark.torch


def make_model() -> Qwen2ForCausalLM:
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=40,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        initializer_range=0.3,
    )
    return Qwen2ForCausalLM(config)


def make_rows(seed: int) -> list[PackedRow]:
    rng = random.Random(seed)
    return [
        PackedRow(
            [rng.randrange(40) for _ in range(rng.randint(1, 9))],
            [[rng.randrange(40) for _ in range(rng.randint(1, 7))] for _ in range(rng.randint(1, 4))],
        )
        for _ in range(3)
    ]


def packed_logprobs(model: Qwen2ForCausalLM, rows: list[PackedRow], padding_id: int = 0) -> Tensor:
    batch = pack_rows(rows, padding_id=padding_id)
    attends = torch.zeros(batch.attends.shape).masked_fill_(~batch.attends, torch.finfo(torch.float32).min)
    hidden = model.model(
        input_ids=batch.token_ids, attention_mask=attends, position_ids=batch.positions
    ).last_hidden_state
    return read_off(model.lm_head(hidden[batch.rows, batch.columns]), batch.targets)


def read_off(logits: Tensor, token_ids: Tensor) -> Tensor:
    return logits.log_softmax(-1).gather(-1, token_ids[:, None])[:, 0]


def single_logprobs(model: Qwen2ForCausalLM, rows: list[PackedRow]) -> Tensor:
    found = []
    for row in rows:
        for completion in row.completions:
            ids = torch.tensor([[*row.prompt, *completion]])
            logits = model(input_ids=ids).logits[0, len(row.prompt) - 1 : -1]
            found.append(read_off(logits, torch.tensor(completion)))
    return torch.cat(found)


@pytest.mark.parametrize("seed", range(4))
def test_packed_rows_give_the_log_probs_of_each_answer_alone(seed: int) -> None:
    model, rows = make_model(), make_rows(seed)
    with torch.no_grad():
        difference = packed_logprobs(model, rows) - single_logprobs(model, rows)
    assert difference.abs().max().item() < 1e-5


def test_packed_rows_give_the_gradients_of_each_answer_alone() -> None:
    model, rows = make_model(), make_rows(7)
    gradients = []
    for logprobs in (packed_logprobs(model, rows), single_logprobs(model, rows)):
        found = torch.autograd.grad(logprobs.sin().sum(), list(model.parameters()))
        gradients.append(torch.cat([gradient.flatten() for gradient in found]))
    assert (gradients[0] - gradients[1]).abs().max().item() < 1e-4


def test_the_padding_token_and_the_order_of_rows_do_not_matter() -> None:
    model, rows = make_model(), make_rows(3)
    with torch.no_grad():
        straight = packed_logprobs(model, rows)
        assert torch.equal(straight, packed_logprobs(model, rows, padding_id=17))
        backwards = packed_logprobs(model, rows[::-1])
    sizes = [sum(map(len, row.completions)) for row in rows]
    reordered = torch.cat(torch.split(backwards, sizes[::-1])[::-1])
    assert torch.allclose(straight, reordered, atol=1e-6)


def test_a_row_worked_by_hand() -> None:
    batch = pack_rows([PackedRow([5, 6], [[7], [8, 9]])])
    assert batch.token_ids.tolist() == [[5, 6, 7, 8, 9]]
    assert batch.positions.tolist() == [[0, 1, 2, 2, 3]]
    assert batch.columns.tolist() == [1, 1, 3]
    assert batch.targets.tolist() == [7, 8, 9]
    assert batch.sizes == (1, 2)
    assert batch.attends[0, 0].int().tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 1, 1, 0, 0],
        [1, 1, 0, 1, 0],
        [1, 1, 0, 1, 1],
    ]


@pytest.mark.parametrize("row", [PackedRow([], [[1]]), PackedRow([1], []), PackedRow([1], [[1], []])])
def test_an_empty_prompt_or_completion_is_refused(row: PackedRow) -> None:
    with pytest.raises(ValueError, match="row 0 wants a prompt and completions"):
        pack_rows([row])
    with pytest.raises(ValueError, match="at least one row"):
        pack_rows([])


def test_micro_batches_hold_every_row_once_within_the_budget() -> None:
    rows = [PackedRow([1] * size, [[1]]) for size in (3, 9, 4, 30, 5)]
    parts = split_blocks([[row] for row in rows], budget_tokens=20)
    assert sorted(index for part in parts for index in part) == [0, 1, 2, 3, 4]
    assert parts[0] == [3]
    for part in parts[1:]:
        assert len(part) * max(rows[index].size_tokens for index in part) <= 20
