"""An update of the trainer against its equations, written out slowly: each answer alone, token by token, in float64.

What is compared is the loss, each of its terms and the gradient of every low-rank tensor. Nothing of ours is called on
the reference's side but the reading of the model's files by Hugging Face.
"""

import dataclasses
import math
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.func import functional_call
from transformers import AutoModelForCausalLM

from gpu_workers.backends.adapter_files import LoraTensors, start_adapter
from gpu_workers.backends.base_models import BaseModel, load_base
from gpu_workers.backends.optimizer import Optimizer
from gpu_workers.backends.policy import PolicyTrainingLoop
from tentalis.core.contracts import RolloutRecord
from tentalis.core.learning.recipes import Recipe
from tests.gpu_workers.learning.training_factory import make_rollouts, make_spec, tiny_model

pytestmark = pytest.mark.torch
PLAIN = Recipe(
    lora_rank=4, lora_alpha=8.0, minibatches=1, step_mix=0.0, max_grad_norm=1000.0, w_rl=0.6, w_opd=0.4, singles="off"
)
Reference = Any
"""Hugging Face's model in float64."""


@pytest.fixture(scope="module")
def reference() -> Reference:
    return AutoModelForCausalLM.from_pretrained(tiny_model(), dtype=torch.float64).requires_grad_(False)


def make_start(base: BaseModel, recipe: Recipe) -> LoraTensors:
    """An adapter that changes something, so that both of its factors have gradients."""
    fresh = start_adapter(base.find_linears(recipe.target_modules), rank=recipe.lora_rank, seed=3)
    generator = torch.Generator().manual_seed(5)
    return LoraTensors(
        {
            name: torch.randn(tensor.shape, generator=generator) * 0.1 if "lora_B" in name else tensor
            for name, tensor in fresh.weights.items()
        },
        {},
    )


def make_batch(rewards: Sequence[Sequence[float | None]], *, seed: int = 0) -> list[RolloutRecord]:
    """Attempts at tasks with these rewards: off the policy by some noise, each second one with a tool's result in it,
    hints on every third, trust by turns, and prompts that groups share."""
    rng = random.Random(seed)
    found: list[RolloutRecord] = []
    for group, members in enumerate(rewards):
        for one, reward in zip(make_rollouts(groups=1, size=len(members), seed=seed + group), members, strict=True):
            place = len(found)
            sampled = [not (place % 2 and index == 1) for index in range(len(one.token_ids))]
            found.append(
                dataclasses.replace(
                    one,
                    rollout_id=place,
                    group_id=group,
                    sampled=sampled,
                    logprobs=[
                        min(0.0, value + rng.gauss(0, 0.4)) if counts else 0.0
                        for value, counts in zip(one.logprobs, sampled, strict=True)
                    ],
                    reward=reward,
                    steps=(),
                    weight=(1.0, 0.5)[place % 2],
                    hint_weight=(0.25, None)[place % 2],
                    hinted_messages=one.hinted_messages if place % 3 == 0 else None,
                )
            )
    return found


def predict(model: Reference, prompt: Sequence[int], answer: Sequence[int], changes: dict[str, Tensor]) -> Tensor:
    """(T, V) log-probs at an answer's tokens, of this one row without padding."""
    ids = torch.tensor([[*prompt, *answer]])
    logits = functional_call(model, changes, (), {"input_ids": ids}).logits[0, len(prompt) - 1 : -1]
    return torch.log_softmax(logits, -1)


def score_alone(
    model: Reference,
    prompt: Sequence[int],
    answer: Sequence[int],
    changes: dict[str, Tensor],
    temperature: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """(T,) log-probs and entropies of an answer's tokens."""
    logprobs = torch.log_softmax(predict(model, prompt, answer, changes) / temperature, -1)
    return logprobs.gather(-1, torch.tensor(answer)[:, None])[:, 0], -(logprobs.exp() * logprobs).sum(-1)


def outcome_advantages(batch: Sequence[RolloutRecord], recipe: Recipe) -> dict[int, float]:
    """Place -> A of the papers, of every rewarded attempt; each counts in mean and std as far as it is trusted."""

    def trust(places: Iterable[int]) -> Tensor:
        return torch.tensor([batch[place].weight for place in places], dtype=torch.float64)

    def measure(values: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        mean = (weights * values).sum() / weights.sum()
        return mean, ((weights * (values - mean) ** 2).sum() / weights.sum()).sqrt()

    by_group: dict[int, list[int]] = {}
    for place, one in enumerate(batch):
        if one.reward is not None:
            by_group.setdefault(one.group_id, []).append(place)
    found: dict[int, float] = {}
    for members in by_group.values():
        values = torch.tensor([batch[place].reward for place in members], dtype=torch.float64)
        if recipe.algorithm == "dapo" and values.max() == values.min():
            continue
        mean, std = measure(values, trust(members))
        advantages = values - mean
        if recipe.algorithm not in ("dr_grpo", "reinforce_pp"):
            advantages = advantages / (std + recipe.std_floor)
        found.update(zip(members, advantages.tolist(), strict=True))
    if recipe.algorithm == "reinforce_pp":
        everyone = torch.tensor([*found.values()], dtype=torch.float64)
        mean, std = measure(everyone, trust(found))
        found = dict(zip(found, ((everyone - mean) / (std + recipe.std_floor)).tolist(), strict=True))
    return found


def surrogate(ratio: Tensor, advantage: float, recipe: Recipe, *, dual: bool) -> Tensor:
    low, high = 1 - recipe.clip_low, 1 + recipe.clip_high
    if advantage >= 0:
        return -advantage * torch.clamp(ratio, max=high)
    loss = -advantage * torch.clamp(ratio, min=low)
    return torch.clamp(loss, max=-advantage * recipe.dual_clip) if dual and recipe.dual_clip is not None else loss


def adapt(
    model: Reference, recipe: Recipe, start: LoraTensors, base: BaseModel
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The adapter's tensors in float64, and the weights they make: W + alpha / r * B A."""
    leaves = {name: tensor.double().requires_grad_() for name, tensor in start.weights.items()}
    frozen = dict(model.named_parameters())
    changes = {}
    for module in base.find_linears(recipe.target_modules):
        a, b = leaves[f"{module}.lora_A.weight"], leaves[f"{module}.lora_B.weight"]
        changes[f"{module}.weight"] = frozen[f"{module}.weight"] + recipe.lora_alpha / recipe.lora_rank * b @ a
    return leaves, changes


def work_out(
    model: Reference, batch: Sequence[RolloutRecord], recipe: Recipe, start: LoraTensors, base: BaseModel
) -> tuple[dict[str, float], dict[str, Tensor]]:
    """The update's loss and terms, and the gradient of each low-rank tensor."""
    leaves, changes = adapt(model, recipe, start, base)
    advantages = outcome_advantages(batch, recipe)
    zero = torch.zeros((), dtype=torch.float64)
    reward, hint, entropy, divergence = zero, zero, zero, zero
    rewarded = hinted = tokens = 0
    for place, one in enumerate(batch):
        now, entropies = score_alone(model, one.prompt_token_ids, one.token_ids, changes, one.temperature)
        plain, _ = score_alone(model, one.prompt_token_ids, one.token_ids, {}, one.temperature)
        begin = now.detach()
        told = None
        if one.hinted_messages and recipe.w_opd > 0:
            asked = base.read_prompt(one.hinted_messages)
            told, _ = score_alone(model, asked, one.token_ids, {}, one.temperature)
        if place not in advantages and told is None:
            continue
        for index, counts in enumerate(one.sampled):
            if not counts:
                continue
            tokens += 1
            entropy = entropy + entropies[index]
            gap = plain[index] - now[index]
            divergence = divergence + torch.exp(gap) - gap - 1
            old, weight = one.logprobs[index], 1.0
            if recipe.importance_cap is not None:
                weight = min(math.exp(float(begin[index]) - old), recipe.importance_cap)
                old = float(begin[index])
            ratio = torch.exp(now[index] - old)
            if place in advantages:
                rewarded += 1
                value = advantages[place] * one.weight
                if recipe.algorithm == "gspo":
                    pass  # below, an answer at a time
                elif recipe.algorithm == "cispo":
                    reward = reward - torch.clamp(ratio, max=1 + recipe.clip_high).detach() * value * now[index]
                else:
                    reward = reward + weight * surrogate(ratio, value, recipe, dual=True)
            if told is not None:
                hinted += 1
                value = max(-recipe.opd_clip, min(recipe.opd_clip, float(told[index]) - one.logprobs[index]))
                trust = one.weight if one.hint_weight is None else one.hint_weight
                hint = hint + weight * surrogate(ratio, value * trust, recipe, dual=False)
        if recipe.algorithm == "gspo" and place in advantages:
            drawn = torch.tensor(one.sampled)
            ratio = torch.exp((now - torch.tensor(one.logprobs, dtype=torch.float64))[drawn].mean())
            whole = dataclasses.replace(recipe, clip_low=recipe.sequence_clip_low, clip_high=recipe.sequence_clip_high)
            reward = reward + surrogate(ratio, advantages[place] * one.weight, whole, dual=False)
    if recipe.algorithm == "gspo":
        rewarded = len(advantages)
    if recipe.algorithm == "dr_grpo":
        rewarded = len(advantages) * recipe.answer_tokens
    terms = {
        "loss_rl": reward / max(1, rewarded),
        "loss_opd": hint / max(1, hinted),
        "entropy": entropy / tokens,
        "kl_base": divergence / tokens,
    }
    loss = recipe.w_rl * terms["loss_rl"] + recipe.w_opd * terms["loss_opd"]
    loss = loss - recipe.entropy_coef * terms["entropy"] + recipe.kl_coef * terms["kl_base"]
    gradients = torch.autograd.grad(loss, list(leaves.values()))
    numbers = {name: float(value.detach()) for name, value in (terms | {"loss": loss}).items()}
    return numbers, dict(zip(leaves, gradients, strict=True))


def update(
    directory: Path, batch: Sequence[RolloutRecord], recipe: Recipe, start: LoraTensors, base: BaseModel
) -> tuple[dict[str, float], dict[str, Tensor]]:
    """The same by the trainer; the gradient is read off AdamW's first moment, which begins at zero."""
    course = PolicyTrainingLoop(make_spec(directory, batch, recipe=recipe, policy_version=1), recipe, base, start)
    optimizer = Optimizer(start, recipe, base.device)
    metrics = course.run_update(1, optimizer)
    moments = optimizer.tensors().moments
    return metrics, {name: moments[f"{name}.exp_avg"] / (1 - recipe.beta1) for name in start.weights}


REWARDS: list[list[float | None]] = [[1.0, 0.0, 0.5, 0.2], [1.0, 1.0, 1.0], [0.0, 1.0, None, 0.5, 0.5], [0.0, 0.0]]
"""Groups that differ, that agree, with one nobody could judge, and with attempts exactly as good as the mean."""


@pytest.mark.parametrize(
    "changes",
    [
        {"algorithm": "grpo"},
        {"algorithm": "grpo", "dual_clip": 1.2, "importance_cap": 1.1},
        {"algorithm": "grpo", "kl_coef": 0.3, "entropy_coef": 0.2},
        {"algorithm": "dr_grpo", "answer_tokens": 9},
        {"algorithm": "dapo"},
        {"algorithm": "dapo", "kl_coef": 0.3, "w_opd": 0.0},
        {"algorithm": "cispo"},
        {"algorithm": "gspo"},
        {"algorithm": "gspo", "sequence_clip_low": 0.1, "sequence_clip_high": 0.2, "kl_coef": 0.1},
        {"algorithm": "reinforce_pp"},
        {"algorithm": "grpo", "w_rl": 0.0},
    ],
    ids=lambda changes: "-".join(f"{name}={value}" for name, value in changes.items()),
)
@pytest.mark.parametrize("room", [None, 24], ids=["one batch", "micro-batches"])
def test_an_update_is_what_the_equations_say(
    tmp_path: Path, reference: Reference, changes: dict[str, Any], room: int | None
) -> None:
    recipe = dataclasses.replace(PLAIN, **changes)
    base = dataclasses.replace(load_base(str(tiny_model())))
    if room is not None:
        base.__dict__["activation_bytes"] = base.room // room  # what is computed once and kept: so many tokens fit
    start, batch = make_start(base, recipe), make_batch(REWARDS)
    if recipe.w_rl == 0:
        batch = [one if one.hinted_messages else dataclasses.replace(one, reward=None) for one in batch]
    wanted, gradients = work_out(reference, batch, recipe, start, base)
    found, ours = update(tmp_path, batch, recipe, start, base)
    if recipe.entropy_coef == 0 == recipe.kl_coef:
        del wanted["entropy"]  # told of the tokens that are computed: those that teach
    for name in {*wanted} & {*found}:
        assert found[name] == pytest.approx(wanted[name], rel=1e-4, abs=1e-6), name
    largest = max(float(gradient.abs().max()) for gradient in gradients.values())
    for name, gradient in gradients.items():
        assert float((ours[name] - gradient).abs().max()) < 1e-4 * largest, name


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rewards=st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=2, max_size=4), min_size=2, max_size=3),
    order=st.randoms(use_true_random=False),
    room=st.sampled_from([10, 40, 10_000]),
)
def test_neither_the_order_of_attempts_nor_micro_batches_change_an_update(
    tmp_path: Path, rewards: list[list[float]], order: random.Random, room: int
) -> None:
    recipe = dataclasses.replace(PLAIN, kl_coef=0.1)
    batch = make_batch([[1.0, 0.0], *rewards])
    whole = load_base(str(tiny_model()))
    parted = dataclasses.replace(whole)
    parted.__dict__["activation_bytes"] = parted.room // room
    start = make_start(whole, recipe)
    straight, one = update(tmp_path, batch, recipe, start, whole)
    shuffled, other = update(tmp_path, order.sample(batch, len(batch)), recipe, start, parted)
    assert shuffled["loss"] == pytest.approx(straight["loss"], rel=1e-4, abs=1e-6)
    largest = max(float(gradient.abs().max()) for gradient in one.values())
    assert all(float((one[name] - other[name]).abs().max()) < 1e-4 * largest for name in one)


def test_tasks_that_everybody_solves_make_an_update_smaller_and_turn_it_nowhere(tmp_path: Path) -> None:
    """GRPO and Dr. GRPO take the mean over all answers; only DAPO leaves groups out whose rewards agree."""
    base = load_base(str(tiny_model()))
    two = [dataclasses.replace(one, hinted_messages=None) for one in make_batch([[1.0, 0.0], [1.0, 1.0]])]
    share = sum(map(sum, (one.sampled for one in two[:2]))) / sum(map(sum, (one.sampled for one in two)))
    for algorithm, factor in (("grpo", share), ("dr_grpo", 0.5), ("dapo", 1.0)):
        recipe = dataclasses.replace(PLAIN, algorithm=algorithm)
        start = make_start(base, recipe)
        _, alone = update(tmp_path, two[:2], recipe, start, base)
        _, beside = update(tmp_path, two, recipe, start, base)
        for name, gradient in alone.items():
            assert torch.allclose(beside[name], factor * gradient, rtol=1e-3, atol=1e-8), algorithm


def test_a_hint_on_an_attempt_as_good_as_the_mean_leaves_the_rewards_loss_as_it_is(tmp_path: Path) -> None:
    base = load_base(str(tiny_model()))
    start = make_start(base, PLAIN)
    plain = [dataclasses.replace(one, hinted_messages=None) for one in make_batch([[1.0, 0.5, 0.0]])]
    hint = [{"role": "user", "content": "w0 w1 w9"}]
    hinted = [plain[0], dataclasses.replace(plain[1], hinted_messages=hint), plain[2]]
    losses = [update(tmp_path, batch, PLAIN, start, base)[0]["loss_rl"] for batch in (plain, hinted)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    assert losses[0] != 0


def add_likeliest(model: Reference, batch: Sequence[RolloutRecord], k: int) -> list[RolloutRecord]:
    """The batch with what the policy found likeliest, off by some noise, and three hints to choose from."""
    rng = random.Random(4)
    found = []
    for one in batch:
        values, ids = predict(model, one.prompt_token_ids, one.token_ids, {}).topk(k, -1)
        noisy = [
            sorted((min(0.0, value + rng.gauss(0, 0.3)) for value in row), reverse=True) for row in values.tolist()
        ]
        text = one.messages[0]["content"]
        hints = [[{"role": "user", "content": f"{text} {hint}"}] for hint in ("w9", "w9 w20", "w25")]
        found.append(
            dataclasses.replace(
                one,
                hinted_messages=hints[0] if one.hinted_messages else None,
                candidate_hints=hints if one.hinted_messages else (),
                top_token_ids=[ids if counts else [] for ids, counts in zip(ids.tolist(), one.sampled, strict=True)],
                top_logprobs=[row if counts else [] for row, counts in zip(noisy, one.sampled, strict=True)],
            )
        )
    return found


def work_out_hybrid(
    model: Reference, batch: Sequence[RolloutRecord], recipe: Recipe, start: LoraTensors, base: BaseModel
) -> tuple[Tensor, list[Tensor]]:
    """The top-K hybrid's loss and its gradient: arXiv:2603.10165 v2."""
    leaves, changes = adapt(model, recipe, start, base)
    loss, hinted = torch.zeros((), dtype=torch.float64), 0
    for one in batch:
        if not one.candidate_hints:
            continue
        now = predict(model, one.prompt_token_ids, one.token_ids, changes)
        places = [place for place, counts in enumerate(one.sampled) if counts]
        best, told = -1, torch.empty(0)
        for hint in one.candidate_hints:
            teacher = predict(model, base.read_prompt(hint), one.token_ids, {})
            likeliest = teacher.topk(recipe.opd_top_k, -1).indices.tolist()
            overlap = sum(len({*likeliest[place]} & {*(one.top_token_ids or [])[place]}) for place in places)
            if overlap > best:
                best, told = overlap, teacher
        for place in places:
            hinted += 1
            ids, old = (one.top_token_ids or [])[place], (one.top_logprobs or [])[place]
            total = sum(math.exp(value) for value in old)
            for token, before in zip(ids, old, strict=True):
                gap = max(-recipe.opd_top_k_clip, min(recipe.opd_top_k_clip, float(told[place, token]) - before))
                trust = one.weight if one.hint_weight is None else one.hint_weight
                value = trust * gap * math.exp(before) / total
                begin, weight = before, 1.0
                if recipe.importance_cap is not None:
                    begin = float(now[place, token].detach())
                    weight = min(math.exp(begin - before), recipe.importance_cap)
                loss = loss + weight * surrogate(torch.exp(now[place, token] - begin), value, recipe, dual=False)
    loss = recipe.w_opd * loss / hinted
    return loss, list(torch.autograd.grad(loss, list(leaves.values())))


@pytest.mark.parametrize("cap", [None, 1.1], ids=["to the behaviour", "to the start"])
@pytest.mark.parametrize("room", [None, 24], ids=["one batch", "micro-batches"])
def test_the_hybrid_is_what_its_equation_says(
    tmp_path: Path, reference: Reference, room: int | None, cap: float | None
) -> None:
    recipe = dataclasses.replace(PLAIN, opd_mode="top_k", w_rl=0.0, opd_top_k=4, opd_top_k_clip=0.5, importance_cap=cap)
    base = dataclasses.replace(load_base(str(tiny_model())))
    if room is not None:
        base.__dict__["activation_bytes"] = base.room // room
    start, batch = make_start(base, recipe), add_likeliest(reference, make_batch(REWARDS), 4)
    wanted, gradients = work_out_hybrid(reference, batch, recipe, start, base)
    found, ours = update(tmp_path, batch, recipe, start, base)
    assert found["loss"] == pytest.approx(float(wanted.detach()), rel=1e-4)
    largest = max(float(gradient.abs().max()) for gradient in gradients)
    for name, gradient in zip(start.weights, gradients, strict=True):
        assert float((ours[name] - gradient).abs().max()) < 1e-4 * largest, name


def test_one_hinted_answer_of_many_weighs_four_times_a_mean_over_all_and_no_more(tmp_path: Path) -> None:
    base = load_base(str(tiny_model()))
    start = make_start(base, PLAIN)
    batch = [dataclasses.replace(one, hinted_messages=None) for one in make_batch([[1.0, 0.0, 0.5, 0.2]] * 8)]
    batch[0] = dataclasses.replace(batch[0], hinted_messages=[{"role": "user", "content": "w0 w1 w9"}])
    lost = {
        share: update(tmp_path / str(share), batch, dataclasses.replace(PLAIN, opd_least_share=share), start, base)[0]
        for share in (0.0, 0.25, 1.0)
    }
    tokens, hinted = (sum(sum(one.sampled) for one in part) for part in (batch, batch[:1]))
    assert lost[1.0]["loss_opd"] * tokens == pytest.approx(lost[0.0]["loss_opd"] * hinted, rel=1e-5)
    assert lost[0.25]["loss_opd"] == pytest.approx(4 * lost[1.0]["loss_opd"], rel=1e-5)
    assert lost[0.0]["loss_opd"] != 0


@pytest.mark.parametrize(
    "changes", [{"kl_coef": 0.3, "importance_cap": 1.1}, {"algorithm": "cispo", "entropy_coef": 0.2}]
)
def test_what_was_sampled_at_another_temperature_is_learnt_at_that(
    tmp_path: Path, reference: Reference, changes: dict[str, Any]
) -> None:
    recipe, base = dataclasses.replace(PLAIN, **changes), load_base(str(tiny_model()))
    start = make_start(base, recipe)
    batch = [
        dataclasses.replace(one, temperature=(0.7, 1.0, 1.4)[place % 3])
        for place, one in enumerate(make_batch([[1.0, 0.0, 0.5], [0.0, 1.0, 0.2]]))
    ]
    wanted, gradients = work_out(reference, batch, recipe, start, base)
    found, ours = update(tmp_path, batch, recipe, start, base)
    assert found["loss"] == pytest.approx(wanted["loss"], rel=1e-4)
    largest = max(float(gradient.abs().max()) for gradient in gradients.values())
    for name, gradient in gradients.items():
        assert float((ours[name] - gradient).abs().max()) < 1e-4 * largest, name
