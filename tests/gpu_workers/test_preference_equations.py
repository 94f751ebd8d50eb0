"""An update of the preference trainer against its equations: each answer alone, token by token, in float64."""

import dataclasses
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import functional_call
from transformers import AutoModelForCausalLM

from gpu_workers.backends.adapter_files import LoraTensors, start_adapter
from gpu_workers.backends.base_models import BaseModel, load_base
from gpu_workers.backends.held_out import choose_held_out
from gpu_workers.backends.micro_batches import ROOM_BYTES
from gpu_workers.backends.optimizer import Optimizer
from gpu_workers.backends.preference import PreferenceTrainingLoop
from tentalis.core.contracts import DemonstrationRecord, PairRecord, RolloutRecord
from tentalis.core.learning.recipes import Recipe
from tests.gpu_workers.learning.training_factory import make_rollouts, make_spec, tiny_model

pytestmark = pytest.mark.torch
RECIPE = Recipe(
    lora_rank=4, lora_alpha=8.0, minibatches=1, epochs=2, max_grad_norm=1000.0, beta=0.3, nll_coef=0.2,
    held_out_share=0.25,
)  # fmt: skip
Record = RolloutRecord | PairRecord | DemonstrationRecord
Answer = tuple[Sequence[int], Sequence[int], Sequence[bool]]
"""Prompt, tokens, which of them count."""


def make_tensors(base: BaseModel, seed: int) -> LoraTensors:
    generator = torch.Generator().manual_seed(seed)
    fresh = start_adapter(base.find_linears(RECIPE.target_modules), rank=RECIPE.lora_rank, seed=seed)
    return LoraTensors(
        {
            name: torch.randn(tensor.shape, generator=generator) * 0.2 if "lora_B" in name else tensor
            for name, tensor in fresh.weights.items()
        },
        {},
    )


class Policy:
    """Hugging Face's model in float64 with an adapter added, an answer at a time."""

    def __init__(self, model: Any, base: BaseModel, tensors: LoraTensors) -> None:
        self.leaves = {name: tensor.double().requires_grad_() for name, tensor in tensors.weights.items()}
        self._model, frozen = model, dict(model.named_parameters())
        self._changes = {
            f"{name}.weight": frozen[f"{name}.weight"]
            + RECIPE.lora_scale * self.leaves[f"{name}.lora_B.weight"] @ self.leaves[f"{name}.lora_A.weight"]
            for name in base.find_linears(RECIPE.target_modules)
        }

    def sum_up(self, answer: Answer) -> Tensor:
        """log pi of the tokens that count."""
        prompt, tokens, counts = answer
        ids = torch.tensor([[*prompt, *tokens]])
        logits = functional_call(self._model, self._changes, (), {"input_ids": ids}).logits[0, len(prompt) - 1 : -1]
        told = torch.log_softmax(logits, -1).gather(-1, torch.tensor(tokens)[:, None])[:, 0]
        return torch.stack([value for value, each in zip(told, counts, strict=True) if each]).sum()


@pytest.fixture(scope="module")
def model() -> Any:
    return AutoModelForCausalLM.from_pretrained(tiny_model(), dtype=torch.float64).requires_grad_(False)


def answer_of(one: RolloutRecord) -> Answer:
    return one.prompt_token_ids, one.token_ids, one.sampled


def make_attempts() -> list[RolloutRecord]:
    """Three attempts at each of six tasks, in each second one a token of a tool's; the third one says what the first
    does, and of another trust."""
    found: list[RolloutRecord] = []
    for one in make_rollouts(groups=6, size=3, steps=()):
        first = found[-2] if one.rollout_id % 3 == 2 else one
        sampled = [not (one.rollout_id % 2 and place == 1) for place in range(len(first.token_ids))]
        found.append(
            dataclasses.replace(
                one,
                token_ids=first.token_ids,
                logprobs=first.logprobs,
                sampled=sampled,
                weight=(1.0, 0.5, 0.25)[one.rollout_id % 3],
                reward=(1.0, 0.1, 0.8)[one.rollout_id % 3],
            )
        )
    return found


def make_pairs(attempts: Sequence[RolloutRecord]) -> list[PairRecord]:
    """First over second, third over second; of some pairs a side came with the reference's log-probs."""
    rng = random.Random(1)
    found: list[PairRecord] = []
    for group in range(6):
        good, bad, other = attempts[3 * group : 3 * group + 3]
        for chosen in (good, other):
            stored = [rng.uniform(-4, -1) for _ in chosen.token_ids] if group % 2 and chosen is other else None
            found.append(
                PairRecord(
                    pair_id=len(found),
                    group_id=group,
                    source="attempts",
                    messages=[],
                    prompt_token_ids=good.prompt_token_ids,
                    chosen_token_ids=chosen.token_ids,
                    chosen_sampled=chosen.sampled,
                    chosen_logprobs=stored,
                    rejected_token_ids=bad.token_ids,
                    rejected_sampled=bad.sampled,
                    weight=chosen.weight,
                )
            )
    return found


def work_out_pairs(pairs: Sequence[PairRecord], now: Policy, before: Policy, algorithm: str) -> Tensor:
    losses = []
    for pair in pairs:
        chosen = pair.prompt_token_ids, pair.chosen_token_ids, pair.chosen_sampled
        rejected = pair.prompt_token_ids, pair.rejected_token_ids, pair.rejected_sampled
        known = before.sum_up(chosen).detach()
        if pair.chosen_logprobs is not None:
            known = torch.tensor(
                sum(value for value, each in zip(pair.chosen_logprobs, pair.chosen_sampled, strict=True) if each)
            )
        margin = now.sum_up(chosen) - known - (now.sum_up(rejected) - before.sum_up(rejected).detach())
        if algorithm == "dpo":
            loss = torch.log(1 + torch.exp(-RECIPE.beta * margin))
        else:
            loss = (margin - 1 / (2 * RECIPE.beta)) ** 2
        likelihood = -now.sum_up(chosen) / sum(pair.chosen_sampled)
        losses.append(pair.weight * (loss + RECIPE.nll_coef * likelihood))
    return torch.stack(losses).sum() / len(losses)


def work_out_judged(attempts: Sequence[RolloutRecord], now: Policy, before: Policy) -> Tensor:
    """KTO, equations 7 and 8: z_0 from answers after the prompt of the next attempt at another task."""
    gaps = []
    for place, one in enumerate(attempts):
        others = [*attempts[place + 1 :], *attempts[:place]]
        prompt = next(each.prompt_token_ids for each in others if each.prompt_token_ids != one.prompt_token_ids)
        mixed = prompt, one.token_ids, one.sampled
        gaps.append(float((now.sum_up(mixed) - before.sum_up(mixed)).detach()))
    drift = max(0.0, sum(gaps) / len(gaps))
    good = sum((one.reward or 0) >= 0.5 for one in attempts)
    losses = []
    for one in attempts:
        gain = now.sum_up(answer_of(one)) - before.sum_up(answer_of(one)).detach()
        is_good = (one.reward or 0) >= 0.5
        side = len(attempts) / (2 * (good if is_good else len(attempts) - good))
        trust = one.weight * abs(2 * (one.reward or 0) - 1)
        value = 1 / (1 + torch.exp(-RECIPE.beta * (gain - drift if is_good else drift - gain)))
        losses.append(side * trust * (1 - value))
    return torch.stack(losses).sum() / len(losses)


def work_out_shown(attempts: Sequence[RolloutRecord], now: Policy) -> Tensor:
    total = sum(sum(one.sampled) for one in attempts)
    return torch.stack([-one.weight * now.sum_up(answer_of(one)) for one in attempts]).sum() / total


def show(one: RolloutRecord) -> DemonstrationRecord:
    return DemonstrationRecord(
        demonstration_id=one.rollout_id, group_id=one.group_id, source="attempt", messages=[], answer="",
        prompt_token_ids=one.prompt_token_ids, token_ids=one.token_ids, counts=one.sampled, weight=one.weight,
    )  # fmt: skip


@pytest.mark.parametrize("algorithm", ["dpo", "ipo", "kto", "sft"])
@pytest.mark.parametrize("room", [None, 20], ids=["one batch", "micro-batches"])
def test_an_update_is_what_the_equations_say(tmp_path: Path, model: Any, algorithm: str, room: int | None) -> None:
    recipe = dataclasses.replace(RECIPE, algorithm=algorithm)
    base = dataclasses.replace(load_base(str(tiny_model())))
    if room is not None:
        base.__dict__["activation_bytes"] = ROOM_BYTES // room  # what is computed once and kept: so many tokens fit
    start, moved = make_tensors(base, 1), make_tensors(base, 2)
    now, before = Policy(model, base, moved), Policy(model, base, start)
    attempts = make_attempts()
    held_out = choose_held_out({one.group_id for one in attempts}, share=recipe.held_out_share)
    learnt = [one for one in attempts if one.group_id not in held_out]
    pairs = make_pairs(attempts)
    records: Sequence[Record]
    work_out: Callable[[], Tensor]
    if algorithm in ("dpo", "ipo"):
        records = pairs
        mine = [pair for pair in pairs if pair.group_id not in held_out]
        work_out = lambda: work_out_pairs(mine, now, before, algorithm)  # noqa: E731
    elif algorithm == "kto":
        records, work_out = attempts, lambda: work_out_judged(learnt, now, before)
    else:
        records, work_out = [show(one) for one in attempts], lambda: work_out_shown(learnt, now)
    wanted = work_out()
    gradients = torch.autograd.grad(wanted, list(now.leaves.values()))
    course = PreferenceTrainingLoop(make_spec(tmp_path, records, recipe=recipe), recipe, base, start)
    optimizer = Optimizer(moved, recipe, base.device)
    found = course.run_update(1, optimizer)
    assert found["loss"] == pytest.approx(float(wanted.detach()), rel=1e-4)
    moments = optimizer.tensors().moments
    largest = max(float(gradient.abs().max()) for gradient in gradients)
    for name, gradient in zip(now.leaves, gradients, strict=True):
        ours = moments[f"{name}.exp_avg"] / (1 - recipe.beta1)
        assert float((ours - gradient).abs().max()) < 1e-4 * largest, name
