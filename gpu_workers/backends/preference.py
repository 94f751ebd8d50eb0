"""Learning from answers whoever wrote them: pairs, single judged answers and demonstrations, update by update.

The policy is held to the one the run starts from, whose log-probs are computed once: those that a model server told are
another model's where the worker's base was changed. An attempt is as likely as all of its answers together. Where these
do not fit into one micro-batch, their sums are computed first, then how the loss changes with each sum, and then each
answer's gradient for itself: the same gradient in less memory.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from gpu_workers.backends.adapter_files import LoraTensors
from gpu_workers.backends.base_models import BaseModel
from gpu_workers.backends.examples import (
    Answer,
    Example,
    Item,
    Sheet,
    count_reasons,
    gather,
    map_answers,
    read_examples,
)
from gpu_workers.backends.memory import require_memory
from gpu_workers.backends.micro_batches import Packed, pack_bundles, plan_items, score_answers
from gpu_workers.backends.optimizer import Optimizer
from gpu_workers.backends.publication_checks import ASKED_HERE, examine, find_faults, is_asked_here, order_pairs
from gpu_workers.backends.ranks import ask_first, gather_all, is_first
from gpu_workers.backends.rehearsal import write_texts
from gpu_workers.learning.preferences import (
    balance_sides,
    count_right,
    dpo,
    estimate_drift,
    imitation,
    ipo,
    kto,
    share_of_good,
    sum_answers,
)
from tentalis.core.contracts import TrainSpec
from tentalis.core.learning.batching import split_minibatches
from tentalis.core.learning.pair_order import PairOrder
from tentalis.core.learning.recipes import Recipe
from tentalis.core.learning.schedules import rate_share

MOST_MISMATCHED = 64
"""Answers to other prompts by which KTO's drift is estimated at an update."""


class Totals(NamedTuple):
    """What an update's sums are divided by, and what all its micro-batches share.

    Args:
        examples: of the update; chosen, rejected: of those, how many have such an attempt.
        tokens: counted ones of its chosen answers.
        sides: KTO's weight of good answers and of bad ones.
        drift: KTO's z_0, nats.
    """

    examples: float
    chosen: float
    rejected: float
    tokens: float
    sides: tuple[float, float]
    drift: float

    @classmethod
    def of(cls, examples: Sequence[Example], *, sides: tuple[float, float], drift: float) -> "Totals":
        """Totals of these examples."""
        return cls(
            examples=float(len(examples)),
            chosen=float(sum(bool(one.chosen) for one in examples)),
            rejected=float(sum(bool(one.rejected) for one in examples)),
            tokens=float(max(1, sum(example.chosen_tokens for example in examples))),
            sides=sides,
            drift=drift,
        )


class PreferenceTrainingLoop:
    """A run over pairs, judged answers or demonstrations. Its last update ends with the check on held-out tasks."""

    def __init__(self, spec: TrainSpec, recipe: Recipe, base: BaseModel, start: LoraTensors) -> None:
        """Read the examples and score them under the policy the run starts from.

        Args:
            start: the adapter the run starts from.
        Raises:
            TrainingError, ContractError, ArtifactError: see `gpu_workers.backends.errors`.
        """
        self._spec, self._recipe, self._base = spec, recipe, base
        self._modules = sorted(base.find_linears(recipe.target_modules))
        self._start = Optimizer(start, recipe, base.device)
        found = read_examples(spec, recipe.algorithm, base, held_out_share=recipe.held_out_share)
        texts = recipe.rehearsal_texts if recipe.algorithm == "sft" else 0
        rehearsed = ask_first(lambda: write_texts(spec, base, count=texts))
        items = gather([*found.learnt, *rehearsed, *found.held_out]).items
        self._memory = plan_items(items, base, modules=recipe.target_modules, rank=recipe.lora_rank, in_bundles=True)
        require_memory(self._memory, base.device)
        is_compared = recipe.algorithm != "sft"  # imitation looks at nothing but the answers themselves
        self._examples = self._refer(found.learnt) if is_compared else [*found.learnt, *rehearsed]
        self._rehearsed = len(rehearsed)
        self._held_out = self._refer(found.held_out)
        self._refused = found.refused
        self._findings: dict[str, float] = {}
        self._order: PairOrder | None = None
        # KTO's two weights are the same in every update, for the sides are balanced over the run
        good, bad = (sum(one.weight for one in self._examples if bool(one.chosen) is side) for side in (True, False))
        self._weights = balance_sides(good, bad, desirable=recipe.kto_desirable, undesirable=recipe.kto_undesirable)
        self._sides: dict[str, float] = {}
        if recipe.algorithm == "kto":
            of_good, of_bad = self._weights
            share = share_of_good(good, bad, weights=self._weights)
            self._sides = {"weight_chosen": of_good, "weight_rejected": of_bad, "share_chosen": share}
        groups = [example.group_id for example in self._examples]
        self._plan = [
            part
            for epoch in range(recipe.epochs)
            for part in split_minibatches(groups, minibatches=recipe.minibatches, seed=spec.seed + epoch)
        ]

    @property
    def updates(self) -> int:
        """How many updates the run has."""
        return len(self._plan)

    @property
    def notes(self) -> list[str]:
        """Why what was not learnt from was not, how held-out pairs are ordered, and who sampled the answers whose
        lengths were compared, in words."""
        ordered = [self._order.words] if self._order else []
        return [*self._refused.notes, *ordered, *([ASKED_HERE] if is_asked_here(self._spec) else [])]

    def run_update(self, number: int, optimizer: Optimizer) -> dict[str, float]:
        """Make update `number`, from 1; its metrics. The last one is followed by the check on held-out tasks."""
        started = time.perf_counter()
        examples = [self._examples[index] for index in self._plan[number - 1]]
        sheet = gather(examples)
        tokens = sum(answer.size_tokens for answer in sheet.answers)
        totals = self._count(examples, optimizer)
        sums: defaultdict[str, float] = defaultdict(float)
        parts = pack_bundles(sheet.items, sheet.places, self._base)
        for terms in gather_all([self._backward(part, sheet, totals, optimizer) for part in parts]):
            for name, value in terms.items():
                sums[name] += value
        share = rate_share(self._recipe, number=number, updates=self.updates, made=optimizer.updates_made)
        grad_norm = optimizer.step(sums["loss"], share=share)
        metrics = {
            **sums,
            "grad_norm": grad_norm,
            "learning_rate": share * self._recipe.learning_rate,
            "examples": float(len(examples)),
            "tokens_per_s": tokens / (time.perf_counter() - started),
        }
        if {"reward_chosen", "reward_rejected"} <= sums.keys():
            metrics["reward_margin"] = sums["reward_chosen"] - sums["reward_rejected"]
        if self._recipe.algorithm == "kto":
            metrics |= {"drift": totals.drift, "examples_chosen": totals.chosen, "examples_rejected": totals.rejected}
            metrics |= self._sides
        if number == self.updates:
            held_out, self._order = self._measure(self._held_out, optimizer)
            if is_first():
                self._findings = examine(
                    self._spec, self._recipe, self._base, optimizer.tensors(), self._held_out, held_out
                )
        return metrics

    def summarise(self, metrics: Sequence[Mapping[str, float]]) -> dict[str, float]:
        """The whole run in a few numbers, those of the held-out check among them."""
        learned = len(self._examples) - self._rehearsed
        last = metrics[-(len(self._plan) // self._recipe.epochs) :]
        return {
            "examples": float(learned + len(self._held_out) + self._refused.counts.total()),
            "examples_learned": float(learned),
            "examples_held_out": float(len(self._held_out)),
            "tasks_learned": float(len({one.group_id for one in self._examples}) - self._rehearsed),
            "tasks_held_out": float(len({one.group_id for one in self._held_out})),
            **({"texts_rehearsed": float(self._rehearsed)} if self._rehearsed else {}),
            **self._sides,
            "updates": float(len(metrics)),
            "train_loss": sum(metric["loss_preference"] for metric in last) / len(last),
            "memory_planned_mib": self._memory.total / 2**20,
            **self._findings,
            **(self._order.describe() if self._order else {}),
            **count_reasons(self._refused.counts),
        }

    def find_faults(self) -> list[str]:
        """What the held-out tasks object to, in words; [] when nothing."""
        return find_faults(self._findings, self._recipe, order=self._order)

    def _refer(self, examples: Sequence[Example]) -> list[Example]:
        """The examples with log-probs of the policy the run starts from."""
        items = sorted({answer.item for one in examples for answer in one.answers})
        scored: dict[Item, list[float]] = dict(zip(items, self._score(items, self._start), strict=True))

        def refer(answer: Answer) -> Answer:
            return replace(answer, reference=tuple(scored[answer.item]))

        return map_answers(examples, refer)

    def _score(self, items: Sequence[Item], optimizer: Optimizer) -> list[list[float]]:
        return score_answers(self._base, items, optimizer.changes(self._modules, self._recipe.lora_scale))

    def _count(self, examples: Sequence[Example], optimizer: Optimizer) -> Totals:
        drift = self._measure_drift(examples, optimizer) if self._recipe.algorithm == "kto" else 0.0
        return Totals.of(examples, sides=self._weights, drift=drift)

    def _measure_drift(self, examples: Sequence[Example], optimizer: Optimizer) -> float:
        """KTO's z_0: each attempt after the prompts of the next example that answered others."""
        mixed = [
            crossed
            for place, example in enumerate(examples)
            if (crossed := _cross(example, (*examples[place + 1 :], *examples[:place])))
            and all(len(one.prompt) + len(one.tokens) <= self._base.context_length for one in crossed)
        ]
        mixed = mixed[:: max(1, -(-len(mixed) // MOST_MISMATCHED))]
        answers = [answer for crossed in mixed for answer in crossed]
        items = [answer.item for answer in answers]
        scored = zip(self._score(items, optimizer), self._score(items, self._start), answers, strict=True)
        gains = iter(
            [
                sum(new - old for new, old, counts in zip(now, before, answer.counts, strict=True) if counts)
                for now, before, answer in scored
            ]
        )
        return estimate_drift(torch.tensor([sum(next(gains) for _ in crossed) for crossed in mixed]))

    def _backward(self, part: Sequence[Packed], sheet: Sheet, totals: Totals, optimizer: Optimizer) -> dict[str, float]:
        """Add the gradients of the examples whose answers are in these micro-batches; their share of the update's mean
        terms."""
        mine = sheet.take([member for packed in part for member in packed.members])
        with torch.set_grad_enabled(len(part) == 1):
            sums = torch.cat([self._sum_batch(packed, sheet, optimizer) for packed in part])
        if len(part) > 1:
            sums.requires_grad_()
        loss, terms = self._weigh(mine, sums, totals)
        if len(part) == 1:
            torch.autograd.backward(loss)
        else:
            (slopes,) = torch.autograd.grad(loss, sums)
            for packed, slope in zip(part, torch.split(slopes, [len(packed.members) for packed in part]), strict=True):
                torch.autograd.backward((slope * self._sum_batch(packed, sheet, optimizer)).sum())
        return terms | {"loss": float(loss.detach())}

    def _sum_batch(self, packed: Packed, sheet: Sheet, optimizer: Optimizer) -> Tensor:
        """Log-probs of a micro-batch's answers (A,), nats, summed over the tokens that count."""
        batch, members = packed
        found = self._base.score(batch, optimizer.changes(self._modules, self._recipe.lora_scale)).logprobs
        return sum_answers(found, _join_counts([sheet.answers[one] for one in members], found.device), batch.sizes)

    @torch.inference_mode()
    def _measure(self, examples: Sequence[Example], optimizer: Optimizer) -> tuple[dict[str, float], PairOrder | None]:
        """The same terms over examples that are not learnt from, as sums are, and how their pairs are ordered."""
        sheet = gather(examples)
        sums = _sum_up(sheet.answers, self._score(sheet.items, optimizer))
        _, terms = self._weigh(sheet, sums, self._count(examples, optimizer))
        gains = (Sums(sums, sheet.answers, side).gains.tolist() for side in (sheet.chosen, sheet.rejected))
        return terms, order_pairs(examples, *gains)

    def _weigh(self, sheet: Sheet, answers: Tensor, totals: Totals) -> tuple[Tensor, dict[str, float]]:
        """The loss of some examples, and what to tell of them; shares of the update's means.

        Args:
            answers: (A,) nats, of the sheet's answers.
        """
        recipe, device = self._recipe, answers.device
        weights = torch.tensor([example.weight for example in sheet.examples], device=device)
        chosen, rejected = (Sums(answers, sheet.answers, side) for side in (sheet.chosen, sheet.rejected))
        is_referred = all(answer.reference is not None for answer in sheet.answers)
        terms = {"chosen_gain": float(chosen.gains.detach().sum()) / totals.tokens} if is_referred else {}
        if recipe.algorithm == "sft":
            loss = imitation(chosen.logprobs, weights, total=totals.tokens)
            return loss, terms | {"loss_preference": float(loss.detach())}
        terms |= self._tell_rewards(chosen, rejected, totals)
        if recipe.algorithm == "kto":
            is_good = torch.tensor([bool(places) for places in sheet.chosen], device=device)
            sides = torch.where(is_good, totals.sides[0], totals.sides[1])
            loss = kto(
                chosen.gains + rejected.gains,  # one of the two is nobody's, and 0
                is_good,
                weights * sides,
                drift=totals.drift,
                beta=recipe.beta,
                total=totals.examples,
            )
            return loss, terms | {"loss_preference": float(loss.detach())}
        preferred = dpo if recipe.algorithm == "dpo" else ipo
        preference = preferred(chosen.gains, rejected.gains, weights, beta=recipe.beta, total=totals.examples)
        likelihood = imitation(chosen.logprobs / chosen.sizes, weights, total=totals.examples)
        margin = chosen.gains.detach() - rejected.gains.detach()
        return preference + recipe.nll_coef * likelihood, terms | {
            "loss_preference": float(preference.detach()),
            "nll_chosen": float(likelihood.detach()),
            "margin": float(margin.sum()) / totals.examples,
            "pair_accuracy": count_right(chosen.gains.detach(), rejected.gains.detach()) / totals.examples,
        }

    def _tell_rewards(self, chosen: "Sums", rejected: "Sums", totals: Totals) -> dict[str, float]:
        """Mean implicit reward, beta times the gain, and log-prob of either kind of attempt; nothing of one that the
        update has none of.

        Source:
            Direct preference optimization, arXiv:2305.18290, section 4: the reward that a policy stands for.
        """
        return {
            name: float(values.detach().sum()) / count
            for kind, side, count in (("chosen", chosen, totals.chosen), ("rejected", rejected, totals.rejected))
            if count
            for name, values in ((f"reward_{kind}", self._recipe.beta * side.gains), (f"logp_{kind}", side.logprobs))
        }


class Sums:
    """Sums over all counted tokens of each of E attempts.

    Args:
        logprobs: (E,) nats; gains: (E,) nats since the reference; sizes: (E,) counted tokens.
    """

    def __init__(self, logprobs: Tensor, answers: Sequence[Answer], attempts: Sequence[Sequence[int]]) -> None:
        """Add up log-probs (A,) of answers, nats.

        Args:
            attempts: places of each attempt's answers; () for nobody's, whose sums are 0.
        """
        device = logprobs.device
        places = torch.tensor([place for of in attempts for place in of], device=device, dtype=torch.long)
        owners = torch.tensor([index for index, of in enumerate(attempts) for _ in of], device=device, dtype=torch.long)

        def add_up(values: Tensor) -> Tensor:
            return values.new_zeros(len(attempts)).index_add(0, owners, values[places])

        reference = torch.tensor([answer.reference_nats for answer in answers], device=device, dtype=logprobs.dtype)
        self.logprobs = add_up(logprobs)
        self.gains = add_up(logprobs - reference)
        self.sizes = add_up(torch.tensor([answer.size_tokens for answer in answers], device=device))


def _cross(example: Example, others: Iterable[Example]) -> list[Answer]:
    """An attempt's answers, each after the prompt in its place of the first attempt that was asked something else, or
    after that one's last; [] where all were asked the same."""
    mine = example.answers
    asked = ([answer.prompt for answer in other.answers] for other in others)
    prompts = next((prompts for prompts in asked if prompts[0] != mine[0].prompt), None)
    if prompts is None:
        return []
    return [replace(answer, prompt=prompts[min(place, len(prompts) - 1)]) for place, answer in enumerate(mine)]


def _sum_up(answers: Sequence[Answer], scored: Sequence[Sequence[float]]) -> Tensor:
    """(A,) nats, of the tokens of each answer that count."""
    values = torch.tensor([value for values in scored for value in values])
    return sum_answers(values, _join_counts(answers, values.device), [len(values) for values in scored])


def _join_counts(answers: Sequence[Answer], device: torch.device) -> Tensor:
    """(N,) which tokens count, of all answers end to end."""
    return torch.tensor([flag for answer in answers for flag in answer.counts], device=device)
