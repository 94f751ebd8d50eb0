"""Whether what preferences or demonstrations made of a policy may be published: asked of tasks that were held out."""

import statistics
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpu_workers.artifacts import path_from_uri
from gpu_workers.backends.adapter_files import LoraTensors, describe_adapter, publish_adapter
from gpu_workers.backends.base_models import BaseModel
from gpu_workers.backends.examples import Example
from gpu_workers.engine.engine import Engine
from tentalis.core.contracts import TrainSpec
from tentalis.core.learning.recipes import Recipe

MOST_PROMPTS = 32
ANSWERS = 4
"""Answers sampled to each held-out prompt, by either policy."""


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
        measured: of the held-out examples: pair_accuracy (where there are pairs), chosen_gain and loss_preference.
    Returns:
        held_out_pair_accuracy, chosen_logprob_change (nats a token), length_before_tokens, length_after_tokens,
        length_drift (relative) and val_loss.
    """
    prompts = sorted({answer.prompt for example in held_out for answer in example.answers})[:MOST_PROMPTS]
    before, after = measure_lengths(spec, recipe, base, tensors, prompts)
    findings = {
        "chosen_logprob_change": measured["chosen_gain"],
        "length_before_tokens": before,
        "length_after_tokens": after,
        "length_drift": abs(after / before - 1),
        "val_loss": measured["loss_preference"],
    }
    if "pair_accuracy" in measured:
        findings["held_out_pair_accuracy"] = measured["pair_accuracy"]
    return findings


def find_faults(findings: Mapping[str, float], recipe: Recipe, *, examples: int) -> list[str]:
    """What keeps the adapter from being published, in words; [] when nothing does.

    Args:
        findings: see `examine`; examples: held-out ones they were measured on.
    """
    faults = []
    accuracy = findings.get("held_out_pair_accuracy")
    if accuracy is not None and accuracy <= recipe.least_pair_accuracy:
        faults.append(
            f"{accuracy:.1%} of the held-out pairs ({examples} examples) are ordered right, more than "
            f"{recipe.least_pair_accuracy:.0%} are wanted"
        )
    change = findings["chosen_logprob_change"]
    if change < -recipe.most_logprob_drop:
        faults.append(
            f"held-out good answers lost {-change:.3f} nats a token, {recipe.most_logprob_drop:g} are allowed"
        )
    if findings["length_drift"] > recipe.most_length_drift:
        faults.append(
            f"answers have {findings['length_after_tokens']:.1f} tokens where they had "
            f"{findings['length_before_tokens']:.1f}: {findings['length_drift']:.0%} off, "
            f"{recipe.most_length_drift:.0%} are allowed"
        )
    return faults


def measure_lengths(
    spec: TrainSpec, recipe: Recipe, base: BaseModel, tensors: LoraTensors, prompts: Sequence[Sequence[int]]
) -> tuple[float, float]:
    """Mean tokens of sampled answers to these prompts, by the policy the run started from and by the trained one.

    An answer that does not end has as many as `recipe.answer_tokens` allows, or the context.
    """
    room = min(recipe.answer_tokens, base.context_length - max(map(len, prompts)))
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
                for group in engine.generate(prompts, ANSWERS, adapter=name, max_tokens=max(1, room), seed=spec.seed)
                for sample in group
            )
            for name in names
        ]
    return lengths[0], lengths[1]
