"""Check on held-out tasks whether a policy made by preferences or demonstrations may be published."""

import statistics
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

from gpu_workers.artifacts import path_from_uri, write_file
from gpu_workers.backends.adapter_files import LoraTensors, describe_adapter, publish_adapter
from gpu_workers.backends.base_models import BaseModel
from gpu_workers.backends.examples import Example
from gpu_workers.engine.engine import Engine
from tentalis.core.canon import canonical_json
from tentalis.core.contracts import TrainSpec
from tentalis.core.learning.lengths import ASKED_WHERE_IT_SERVES, FILE, OPTION, LengthQuestion, Lengths
from tentalis.core.learning.pair_order import PairOrder, find_order
from tentalis.core.learning.recipes import Recipe

MOST_PROMPTS = 32
ANSWERS = 4
"""Answers sampled to each held-out prompt, by either policy."""
ASKED_HERE = (
    "lengths of answers: sampled by the built-in engine, on the CPU and in float32, since no model server that loads "
    "adapters was named to ask"
)


def is_asked_here(spec: TrainSpec) -> bool:
    """Whether the box samples answers itself: where the platform does not ask the model server afterwards."""
    return spec.options.get(OPTION) != ASKED_WHERE_IT_SERVES


def examine(
    spec: TrainSpec,
    recipe: Recipe,
    base: BaseModel,
    tensors: LoraTensors,
    held_out: Sequence[Example],
    measured: Mapping[str, float],
) -> dict[str, float]:
    """What the held-out tasks say of a policy.

    Args:
        tensors: the trained adapter, not published yet.
        measured: of the held-out examples: chosen_gain and loss_preference.
    Returns:
        chosen_logprob_change (nats a token) and val_loss; where the box asks itself also length_before_tokens,
        length_after_tokens and length_drift (relative). Else the question is written for whoever serves the adapter,
        see `tentalis.core.learning.lengths`.
    """
    question = ask_of(held_out, spec, recipe, base)
    lengths: dict[str, float] = {}
    if is_asked_here(spec):
        lengths = measure_lengths(spec, recipe, base, tensors, question).describe()
    else:
        write_file(path_from_uri(spec.output_uri) / FILE, canonical_json(question.to_json()))
    return {"chosen_logprob_change": measured["chosen_gain"], **lengths, "val_loss": measured["loss_preference"]}


def order_pairs(examples: Sequence[Example], chosen: Sequence[float], rejected: Sequence[float]) -> PairOrder | None:
    """How a policy orders held-out pairs; None where there are none.

    Answers that were judged one by one make pairs of a good and a bad one at the same task. Where no task has both,
    each is in one pair at most, with one of another task, so that nothing counts twice.

    Args:
        chosen, rejected: (E,) nats that each example's attempts gained since the reference; of none, anything.
    """
    margins, goods, bads = (defaultdict[int, list[float]](list) for _ in range(3))
    for one, good, bad in zip(examples, chosen, rejected, strict=True):
        if one.chosen and one.rejected:
            margins[one.group_id].append(good - bad)
        else:
            (goods if one.chosen else bads)[one.group_id].append(good if one.chosen else bad)
    for group in goods.keys() & bads.keys():
        margins[group] += [good - bad for good in goods[group] for bad in bads[group]]
    if not margins:
        apart = zip(chain(*goods.values()), chain(*bads.values()), strict=False)
        margins |= {place: [good - bad] for place, (good, bad) in enumerate(apart)}
    return find_order(margins)


def find_faults(findings: Mapping[str, float], recipe: Recipe, *, order: PairOrder | None) -> list[str]:
    """What keeps the adapter from being published, in words; [] when nothing does.

    Args:
        findings: see `examine`; order: see `order_pairs`.
    """
    faults = [fault] if order and (fault := order.find_fault(least=recipe.least_pair_accuracy)) else []
    change = findings["chosen_logprob_change"]
    if change < -recipe.most_logprob_drop:
        faults.append(
            f"held-out good answers lost {-change:.3f} nats a token, {recipe.most_logprob_drop:g} are allowed"
        )
    if "length_before_tokens" in findings:
        before, after = findings["length_before_tokens"], findings["length_after_tokens"]
        lengths = Lengths(before, after, findings.get("length_shown_tokens"))
        faults += [fault] if (fault := lengths.find_fault(most_drift=recipe.most_length_drift)) else []
    return faults


def ask_of(held_out: Sequence[Example], spec: TrainSpec, recipe: Recipe, base: BaseModel) -> LengthQuestion:
    """The prompts of the held-out tasks; an answer may have as many tokens as the recipe allows, or the context."""
    prompts = sorted({answer.prompt for example in held_out for answer in example.answers})[:MOST_PROMPTS]
    return LengthQuestion(
        prompts=prompts,
        answers=ANSWERS,
        max_tokens=max(1, min(recipe.answer_tokens, base.context_length - max(map(len, prompts)))),
        seed=spec.seed,
        most_drift=recipe.most_length_drift,
        shown=statistics.fmean(example.chosen_tokens for example in held_out) if recipe.algorithm == "sft" else None,
    )


def measure_lengths(
    spec: TrainSpec, recipe: Recipe, base: BaseModel, tensors: LoraTensors, question: LengthQuestion
) -> Lengths:
    """Of answers by the policy the run started from and by the trained one, as the built-in engine samples them."""
    engine = Engine.open(spec.base_model)
    names: list[str | None] = [None, "after"]
    if spec.parent_adapter_uri is not None:
        engine.load_adapter("before", path_from_uri(spec.parent_adapter_uri))
        names[0] = "before"
    with tempfile.TemporaryDirectory() as directory:
        fields = describe_adapter(spec, recipe, base.sha256)
        trial, _ = publish_adapter(tensors, fields, parent=Path(directory))
        engine.load_adapter("after", trial)
        lengths = [
            statistics.fmean(
                len(sample.token_ids)
                for group in engine.generate(
                    question.prompts, question.answers, adapter=name, max_tokens=question.max_tokens, seed=question.seed
                )
                for sample in group
            )
            for name in names
        ]
    return Lengths(lengths[0], lengths[1], question.shown)
