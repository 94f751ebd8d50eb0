"""Learning from answers whoever wrote them: pairs, single judged answers and demonstrations, update by update.

The policy is held to the one the run starts from: its log-probs come with the record, or are computed once.
"""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from gpu_workers.backends.adapter_files import LoraTensors
from gpu_workers.backends.base_models import BaseModel, Batch
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
from gpu_workers.backends.micro_batches import pack_items, score_answers
from gpu_workers.backends.optimizer import Optimizer
from gpu_workers.backends.publication_checks import ASKED_HERE, examine, find_faults, is_asked_here
from gpu_workers.learning.preferences import (
    balance_sides,
    count_right,
    dpo,
    estimate_drift,
    imitation,
    ipo,
    kto,
    sum_answers,
)
from tentalis.core.contracts import TrainSpec
from tentalis.core.learning.batching import split_minibatches
from tentalis.core.learning.recipes import Recipe

MOST_MISMATCHED = 64
"""Answers to other prompts by which KTO's drift is estimated at an update."""


class Totals(NamedTuple):
    """What an update's sums are divided by, and what all its micro-batches share.

    Args:
        examples: of the update; tokens: counted ones of its chosen answers.
        sides: KTO's weight of good answers and of bad ones.
        drift: KTO's z_0, nats.
    """

    examples: float
    tokens: float
    sides: tuple[float, float]
    drift: float


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
        self._examples = self._refer(found.learnt)
        self._held_out = self._refer(found.held_out)
        self._refused = found.refused
        self._findings: dict[str, float] = {}
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
        """Why what was not learnt from was not, and who sampled the answers whose lengths were compared, in words."""
        return [*self._refused.notes, *([ASKED_HERE] if is_asked_here(self._spec) else [])]

    def run_update(self, number: int, optimizer: Optimizer) -> dict[str, float]:
        """Make update `number`, from 1; its metrics. The last one is followed by the check on held-out tasks."""
        started = time.perf_counter()
        examples = [self._examples[index] for index in self._plan[number - 1]]
        sheet = gather(examples)
        tokens = sum(answer.size_tokens for answer in sheet.answers)
        totals = Totals(
            float(len(examples)),
            float(max(1, sum(one.chosen.size_tokens for one in examples if one.chosen is not None))),
            self._weigh_sides(),
            self._measure_drift(examples, optimizer) if self._recipe.algorithm == "kto" else 0.0,
        )
        sums: defaultdict[str, float] = defaultdict(float)
        for batch, members in pack_items(sheet.items, self._base, keeps_together=True):
            for name, value in self._backward(batch, members, sheet, examples, totals, optimizer).items():
                sums[name] += value
        grad_norm = optimizer.step(sums["loss"])
        metrics = {
            **sums,
            "grad_norm": grad_norm,
            "examples": float(len(examples)),
            "tokens_per_s": tokens / (time.perf_counter() - started),
        }
        if self._recipe.algorithm == "kto":
            metrics["drift"] = totals.drift
        if number == self.updates:
            held_out = self._measure(self._held_out, optimizer)
            self._findings = examine(
                self._spec, self._recipe, self._base, optimizer.tensors(), self._held_out, held_out
            )
        return metrics

    def summarise(self, metrics: Sequence[Mapping[str, float]]) -> dict[str, float]:
        """The whole run in a few numbers, those of the held-out check among them."""
        last = metrics[-(len(self._plan) // self._recipe.epochs) :]
        return {
            "examples": float(len(self._examples) + len(self._held_out) + self._refused.counts.total()),
            "examples_learned": float(len(self._examples)),
            "examples_held_out": float(len(self._held_out)),
            "tasks_learned": float(len({one.group_id for one in self._examples})),
            "tasks_held_out": float(len({one.group_id for one in self._held_out})),
            "updates": float(len(metrics)),
            "train_loss": sum(metric["loss_preference"] for metric in last) / len(last),
            **self._findings,
            **count_reasons(self._refused.counts),
        }

    def find_faults(self) -> list[str]:
        """What the held-out tasks object to, in words; [] when nothing."""
        return find_faults(self._findings, self._recipe, examples=len(self._held_out))

    def _refer(self, examples: Sequence[Example]) -> list[Example]:
        """The examples with log-probs of the policy the run starts from, where they came without."""
        wanted = {answer.item for one in examples for answer in one.answers if answer.reference is None}
        items = sorted(wanted)
        scored: dict[Item, list[float]] = dict(zip(items, self._score(items, self._start), strict=True))

        def refer(answer: Answer) -> Answer:
            return answer if answer.reference is not None else replace(answer, reference=tuple(scored[answer.item]))

        return map_answers(examples, refer)

    def _score(self, items: Sequence[Item], optimizer: Optimizer) -> list[list[float]]:
        return score_answers(self._base, items, optimizer.changes(self._modules, self._recipe.lora_scale))

    def _weigh_sides(self) -> tuple[float, float]:
        """KTO's two weights: the same in every update, for the sides are balanced over the run."""
        recipe = self._recipe
        sides = [one.chosen is not None for one in self._examples]
        return balance_sides(sides, desirable=recipe.kto_desirable, undesirable=recipe.kto_undesirable)

    def _measure_drift(self, examples: Sequence[Example], optimizer: Optimizer) -> float:
        """KTO's z_0: each answer after the prompt of the next example that has another one."""
        mixed: list[tuple[Item, Answer]] = []
        for place, example in enumerate(examples):
            (answer,) = example.answers
            others = (other.answers[0].prompt for other in (*examples[place + 1 :], *examples[:place]))
            prompt = next((other for other in others if other != answer.prompt), None)
            if prompt is not None and len(prompt) + len(answer.tokens) <= self._base.context_length:
                mixed.append(((prompt, answer.tokens), answer))
        mixed = mixed[:: max(1, -(-len(mixed) // MOST_MISMATCHED))]
        items = [item for item, _ in mixed]
        gains = [
            sum(new - old for new, old, counts in zip(now, before, answer.counts, strict=True) if counts)
            for now, before, (_, answer) in zip(
                self._score(items, optimizer), self._score(items, self._start), mixed, strict=True
            )
        ]
        return estimate_drift(torch.tensor(gains))

    def _backward(
        self,
        batch: Batch,
        members: Sequence[int],
        sheet: Sheet,
        examples: Sequence[Example],
        totals: Totals,
        optimizer: Optimizer,
    ) -> dict[str, float]:
        """Add one micro-batch's gradients; its share of the update's mean terms."""
        places = {member: place for place, member in enumerate(members)}
        mine = [index for index in range(len(examples)) if sheet.first_place(index) in places]
        found = self._base.score(batch, optimizer.changes(self._modules, self._recipe.lora_scale))
        answers = [sheet.answers[member] for member in members]
        sums = Sums(found.logprobs, answers, batch.sizes)
        loss, terms = self._weigh(
            sums,
            [examples[index] for index in mine],
            [_find(sheet.chosen[index], places) for index in mine],
            [_find(sheet.rejected[index], places) for index in mine],
            totals,
        )
        torch.autograd.backward(loss)
        return terms | {"loss": float(loss.detach())}

    @torch.inference_mode()
    def _measure(self, examples: Sequence[Example], optimizer: Optimizer) -> dict[str, float]:
        """The same terms over examples that are not learnt from, as sums are."""
        sheet = gather(examples)
        scored = self._score(sheet.items, optimizer)
        flat = torch.tensor([value for values in scored for value in values])
        sums = Sums(flat, sheet.answers, [len(values) for values in scored])
        tokens = float(max(1, sum(one.chosen.size_tokens for one in examples if one.chosen is not None)))
        drift = self._measure_drift(examples, optimizer) if self._recipe.algorithm == "kto" else 0.0
        totals = Totals(float(len(examples)), tokens, self._weigh_sides(), drift)
        _, terms = self._weigh(sums, examples, sheet.chosen, sheet.rejected, totals)
        if self._recipe.algorithm == "kto":
            terms |= _compare_sides(sums.gains, examples, sheet)
        return terms

    def _weigh(
        self,
        sums: "Sums",
        examples: Sequence[Example],
        chosen: Sequence[int | None],
        rejected: Sequence[int | None],
        totals: Totals,
    ) -> tuple[Tensor, dict[str, float]]:
        """The loss of some examples, and what to tell of them; shares of the update's means.

        Args:
            chosen, rejected: place in `sums` of each example's answer.
        """
        recipe, device = self._recipe, sums.gains.device
        weights = torch.tensor([example.weight for example in examples], device=device)
        has_chosen = [place is not None for place in chosen]
        good = torch.tensor([place for place in chosen if place is not None], device=device, dtype=torch.long)
        bad = torch.tensor([place for place in rejected if place is not None], device=device, dtype=torch.long)
        terms = {"chosen_gain": float(sums.gains[good].detach().sum()) / totals.tokens}
        if recipe.algorithm == "sft":
            loss = imitation(sums.logprobs[good], weights, total=totals.tokens)
            return loss, terms | {"loss_preference": float(loss.detach())}
        if recipe.algorithm == "kto":
            is_good = torch.tensor(has_chosen, device=device)
            order = torch.tensor(
                [c if c is not None else r for c, r in zip(chosen, rejected, strict=True)], device=device
            )
            sides = torch.where(is_good, totals.sides[0], totals.sides[1])
            loss = kto(
                sums.gains[order],
                is_good,
                weights * sides,
                drift=totals.drift,
                beta=recipe.beta,
                total=totals.examples,
            )
            return loss, terms | {"loss_preference": float(loss.detach())}
        preferred = dpo if recipe.algorithm == "dpo" else ipo
        chosen_gains, rejected_gains = sums.gains[good], sums.gains[bad]
        preference = preferred(chosen_gains, rejected_gains, weights, beta=recipe.beta, total=totals.examples)
        likelihood = imitation(sums.logprobs[good] / sums.sizes[good], weights, total=totals.examples)
        margin = chosen_gains.detach() - rejected_gains.detach()
        return preference + recipe.nll_coef * likelihood, terms | {
            "loss_preference": float(preference.detach()),
            "nll_chosen": float(likelihood.detach()),
            "margin": float(margin.sum()) / totals.examples,
            "pair_accuracy": count_right(chosen_gains.detach(), rejected_gains.detach()) / totals.examples,
        }


class Sums:
    """Sums over the counted tokens of each of C answers.

    Args:
        logprobs: (C,) nats; gains: (C,) nats since the reference; sizes: (C,) counted tokens.
    """

    def __init__(self, logprobs: Tensor, answers: Sequence[Answer], sizes: Sequence[int]) -> None:
        """Take log-probs (N,) of all answers end to end."""
        device = logprobs.device
        counts = torch.tensor([flag for answer in answers for flag in answer.counts], device=device)
        known = [value for answer in answers for value in answer.reference or ()]
        reference = torch.tensor(known, device=device, dtype=logprobs.dtype)
        self.logprobs = sum_answers(logprobs, counts, sizes)
        self.gains = self.logprobs - sum_answers(reference, counts, sizes)
        self.sizes = torch.tensor([answer.size_tokens for answer in answers], device=device)


def _find(place: int | None, places: Mapping[int, int]) -> int | None:
    return None if place is None else places[place]


def _compare_sides(gains: Tensor, examples: Sequence[Example], sheet: Sheet) -> dict[str, float]:
    """Share of (good, bad) answers of one task that the gains order right; of all tasks where none has both."""
    by_group: defaultdict[int, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for example, good, bad in zip(examples, sheet.chosen, sheet.rejected, strict=True):
        by_group[example.group_id][0].extend([] if good is None else [good])
        by_group[example.group_id][1].extend([] if bad is None else [bad])
    pairs = [(good, bad) for goods, bads in by_group.values() for good in goods for bad in bads]
    if not pairs:
        goods = [place for place in sheet.chosen if place is not None]
        pairs = [(good, bad) for good in goods for bad in sheet.rejected if bad is not None]
    if not pairs:
        return {}
    chosen, rejected = torch.tensor(pairs).T
    return {"pair_accuracy": count_right(gains[chosen], gains[rejected]) / len(pairs)}
