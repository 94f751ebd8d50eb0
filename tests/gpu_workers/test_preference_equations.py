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
from gpu_workers.backends.examples import gather, read_examples
from gpu_workers.backends.held_out import choose_held_out
from gpu_workers.backends.micro_batches import pack_bundles
from gpu_workers.backends.optimizer import Optimizer
from gpu_workers.backends.preference import PreferenceTrainingLoop
from tentalis.core.contracts import AnswerRecord, DemonstrationRecord, PairRecord, RolloutRecord
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
Attempt = list[RolloutRecord]
"""Its sequences."""


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

    def sum_up(self, answers: Sequence[Answer]) -> Tensor:
        """log pi of the tokens that count, of all answers."""
        values = []
        for prompt, tokens, counts in answers:
            ids = torch.tensor([[*prompt, *tokens]])
            logits = functional_call(self._model, self._changes, (), {"input_ids": ids}).logits[0, len(prompt) - 1 : -1]
            told = torch.log_softmax(logits, -1).gather(-1, torch.tensor(tokens)[:, None])[:, 0]
            values += [value for value, each in zip(told, counts, strict=True) if each]
        return torch.stack(values).sum()


@pytest.fixture(scope="module")
def model() -> Any:
    return AutoModelForCausalLM.from_pretrained(tiny_model(), dtype=torch.float64).requires_grad_(False)


def answers_of(parts: Sequence[RolloutRecord]) -> list[Answer]:
    return [(one.prompt_token_ids, one.token_ids, one.sampled) for one in parts]


def count(parts: Sequence[RolloutRecord]) -> int:
    return sum(sum(one.sampled) for one in parts)


def make_attempts() -> list[Attempt]:
    """Three attempts at each of six tasks, in each second one a token of a tool's; the third one says what the first
    does, and of another trust. At every second task they are of two sequences, the second one's prompt their own."""
    found: list[Attempt] = []
    for one in make_rollouts(groups=6, size=3, steps=()):
        place = one.rollout_id % 3
        first = found[-2][0] if place == 2 else one
        sampled = [not (one.rollout_id % 2 and index == 1) for index in range(len(first.token_ids))]
        part = dataclasses.replace(
            one,
            token_ids=first.token_ids,
            logprobs=first.logprobs,
            sampled=sampled,
            weight=(1.0, 0.5, 0.25)[place],
            reward=(1.0, 0.1, 0.8)[place],
        )
        said = [20 + place, 5, 1]
        later = dataclasses.replace(
            part,
            prompt_token_ids=[2, 4 + place, 8 + one.group_id, 3],
            token_ids=said,
            logprobs=[-1.0] * 3,
            sampled=[True, place == 1, True],
        )
        found.append([part, later] if one.group_id % 2 else [part])
    return found


def make_pairs(attempts: Sequence[Attempt]) -> list[PairRecord]:
    """First over second, third over second; of some pairs a side came with log-probs, another model's."""
    rng = random.Random(1)
    found: list[PairRecord] = []
    for group in range(6):
        good, bad, other = attempts[3 * group : 3 * group + 3]
        for chosen in (good, other):
            is_told = group % 2 == 1 and chosen is other
            found.append(
                PairRecord(
                    pair_id=len(found),
                    group_id=group,
                    source="attempts",
                    messages=[],
                    prompt_token_ids=good[0].prompt_token_ids,
                    chosen=[tell(one, place, rng if is_told else None) for place, one in enumerate(chosen)],
                    rejected=[tell(one, place, None) for place, one in enumerate(bad)],
                    weight=chosen[0].weight,
                )
            )
    return found


def tell(one: RolloutRecord, place: int, rng: random.Random | None) -> AnswerRecord:
    return AnswerRecord(
        prompt_token_ids=one.prompt_token_ids if place else (),
        token_ids=one.token_ids,
        counts=one.sampled,
        logprobs=None if rng is None else [rng.uniform(-4, -1) for _ in one.token_ids],
    )


def work_out_pairs(pairs: Sequence[PairRecord], now: Policy, before: Policy, algorithm: str) -> Tensor:
    losses = []
    for pair in pairs:
        chosen, rejected = (
            [(one.prompt_token_ids or pair.prompt_token_ids, one.token_ids, one.counts) for one in side]
            for side in (pair.chosen, pair.rejected)
        )
        known = before.sum_up(chosen).detach()
        margin = now.sum_up(chosen) - known - (now.sum_up(rejected) - before.sum_up(rejected).detach())
        if algorithm == "dpo":
            loss = torch.log(1 + torch.exp(-RECIPE.beta * margin))
        else:
            loss = (margin - 1 / (2 * RECIPE.beta)) ** 2
        likelihood = -now.sum_up(chosen) / sum(sum(one.counts) for one in pair.chosen)
        losses.append(pair.weight * (loss + RECIPE.nll_coef * likelihood))
    return torch.stack(losses).sum() / len(losses)


def work_out_judged(attempts: Sequence[Attempt], now: Policy, before: Policy) -> Tensor:
    """KTO, equations 7 and 8: z_0 from answers after the prompts of the next attempt at another task, one by one."""
    gaps = []
    for place, parts in enumerate(attempts):
        others = [*attempts[place + 1 :], *attempts[:place]]
        other = next(each for each in others if each[0].prompt_token_ids != parts[0].prompt_token_ids)
        prompts = [*other, *[other[-1]] * len(parts)]
        mixed = [
            (prompt.prompt_token_ids, one.token_ids, one.sampled) for prompt, one in zip(prompts, parts, strict=False)
        ]
        gaps.append(float((now.sum_up(mixed) - before.sum_up(mixed)).detach()))
    drift = max(0.0, sum(gaps) / len(gaps))
    lambdas = dict(zip((True, False), find_lambdas(attempts), strict=True))
    losses = []
    for parts in attempts:
        reward = parts[0].reward or 0
        gain = now.sum_up(answers_of(parts)) - before.sum_up(answers_of(parts)).detach()
        is_good = reward >= 0.5
        trust = find_trust(parts)
        value = 1 / (1 + torch.exp(-RECIPE.beta * (gain - drift if is_good else drift - gain)))
        losses.append(lambdas[is_good] * trust * (1 - value))
    return torch.stack(losses).sum() / len(losses)


def tell_judged(attempts: Sequence[Attempt], now: Policy, before: Policy) -> dict[str, float]:
    """What people read a KTO run by: of good and bad attempts the number, implicit reward and log-prob."""
    told: dict[str, float] = {}
    for kind, is_good in (("chosen", True), ("rejected", False)):
        mine = [answers_of(parts) for parts in attempts if ((parts[0].reward or 0) >= 0.5) is is_good]
        logps = [float(now.sum_up(one).detach()) for one in mine]
        gains = [logp - float(before.sum_up(one).detach()) for logp, one in zip(logps, mine, strict=True)]
        told[f"examples_{kind}"] = float(len(mine))
        told[f"logp_{kind}"] = sum(logps) / len(mine)
        told[f"reward_{kind}"] = RECIPE.beta * sum(gains) / len(mine)
    margin = told["reward_chosen"] - told["reward_rejected"]
    told["weight_chosen"], told["weight_rejected"] = find_lambdas(attempts)
    return told | {"reward_margin": margin, "share_chosen": 0.5}


def find_trust(parts: Attempt) -> float:
    return parts[0].weight * abs(2 * (parts[0].reward or 0) - 1)


def find_lambdas(attempts: Sequence[Attempt]) -> list[float]:
    """Of good and of bad ones: what either side is trusted, in sum, comes to half of all."""
    trusted = [
        sum(find_trust(parts) for parts in attempts if ((parts[0].reward or 0) >= 0.5) is is_good)
        for is_good in (True, False)
    ]
    return [sum(trusted) / (2 * of_side) for of_side in trusted]


def work_out_shown(attempts: Sequence[Attempt], now: Policy) -> Tensor:
    total = sum(map(count, attempts))
    return torch.stack([-parts[0].weight * now.sum_up(answers_of(parts)) for parts in attempts]).sum() / total


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
        base.__dict__["activation_bytes"] = base.room // room  # what is computed once and kept: so many tokens fit
    start, moved = make_tensors(base, 1), make_tensors(base, 2)
    now, before = Policy(model, base, moved), Policy(model, base, start)
    attempts = make_attempts()
    held_out = choose_held_out({parts[0].group_id for parts in attempts}, share=recipe.held_out_share)
    learnt = [parts for parts in attempts if parts[0].group_id not in held_out]
    sequences = [one for parts in attempts for one in parts]
    pairs = make_pairs(attempts)
    records: Sequence[Record]
    work_out: Callable[[], Tensor]
    if algorithm in ("dpo", "ipo"):
        records = pairs
        mine = [pair for pair in pairs if pair.group_id not in held_out]
        work_out = lambda: work_out_pairs(mine, now, before, algorithm)  # noqa: E731
    elif algorithm == "kto":
        records, work_out = sequences, lambda: work_out_judged(learnt, now, before)
    else:
        records, work_out = [show(one) for one in sequences], lambda: work_out_shown(learnt, now)
    wanted = work_out()
    gradients = torch.autograd.grad(wanted, list(now.leaves.values()))
    course = PreferenceTrainingLoop(make_spec(tmp_path, records, recipe=recipe), recipe, base, start)
    optimizer = Optimizer(moved, recipe, base.device)
    found = course.run_update(1, optimizer)
    assert found["loss"] == pytest.approx(float(wanted.detach()), rel=1e-4)
    if algorithm == "kto":
        told = tell_judged(learnt, now, before)
        assert {name: found[name] for name in told} == pytest.approx(told, rel=1e-4)
    moments = optimizer.tensors().moments
    largest = max(float(gradient.abs().max()) for gradient in gradients)
    for name, gradient in zip(now.leaves, gradients, strict=True):
        ours = moments[f"{name}.exp_avg"] / (1 - recipe.beta1)
        assert float((ours - gradient).abs().max()) < 1e-4 * largest, name


@pytest.mark.parametrize("algorithm", ["dpo", "kto"])
def test_attempts_that_fit_into_no_micro_batch_have_the_gradient_of_one_graph(tmp_path: Path, algorithm: str) -> None:
    """Sums without a gradient first, then how the loss changes with each, then every answer for itself."""
    attempts = make_attempts()
    records: Sequence[Record] = make_pairs(attempts) if algorithm == "dpo" else [one for of in attempts for one in of]
    recipe = dataclasses.replace(RECIPE, algorithm=algorithm)
    found = []
    for number, room in enumerate((4_000, 12)):
        base = dataclasses.replace(load_base(str(tiny_model())))
        base.__dict__["activation_bytes"] = base.room // room
        spec = make_spec(tmp_path / str(number), records, recipe=recipe)
        loop = PreferenceTrainingLoop(spec, recipe, base, make_tensors(base, 1))
        sheet = gather(read_examples(spec, algorithm, base, held_out_share=recipe.held_out_share).learnt)
        parts = pack_bundles(sheet.items, sheet.places, base)
        assert any(len(part) > 1 for part in parts) == (room == 12)
        optimizer = Optimizer(make_tensors(base, 2), recipe, base.device)
        told = loop.run_update(1, optimizer)
        found.append((told, optimizer.tensors().moments))
    (whole, wanted), (spread, moments) = found
    for name in {"loss", "loss_preference", "grad_norm"}:
        assert spread[name] == pytest.approx(whole[name], rel=1e-5)
    for name, moment in wanted.items():
        assert float((moments[name] - moment).abs().max()) <= 1e-5 * float(moment.abs().max()), name
