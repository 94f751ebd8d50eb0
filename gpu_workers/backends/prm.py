"""The trainer of step scorers: labelled steps in, a calibrated reward head on the frozen base model out.

States are read by the very engine that serves the head, so that what it learns from is what it will see.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from gpu_workers.artifacts import path_from_uri
from gpu_workers.backends import TrainedAdapter
from gpu_workers.backends.errors import (
    BaseModelError,
    CancelledError,
    DivergedError,
    NothingToLearnError,
)
from gpu_workers.backends.rollout_files import read_records
from gpu_workers.engine.engine import Engine
from gpu_workers.engine.errors import EngineError
from gpu_workers.engine.reward_heads import AnsweredSteps
from gpu_workers.head_files import publish_head
from gpu_workers.learning.reward_head import Head, fit_head
from tentalis.core.contracts import LabelledStepsRecord, TrainSpec
from tentalis.core.learning.head_recipes import HeadRecipe
from tentalis.core.scoring.platt import PlattCurve, fit_platt
from tentalis.core.scoring.protocol import ScoringError
from tentalis.core.scoring.ranking import area_under_curve

_PAGE = 256
"""Attempts whose states are read at once."""


def train(
    spec: TrainSpec,
    *,
    output: Path,
    report: Callable[[Mapping[str, float]], None],
    is_cancelled: Callable[[], bool],
) -> TrainedAdapter:
    """Train one head; the same spec gives the same bytes on the same machine with one thread.

    Raises:
        TrainingError, ContractError, ArtifactError: see `gpu_workers.backends.errors`; nothing is published then.
    """
    started = time.perf_counter()
    recipe = HeadRecipe.from_json(spec.recipe)
    read = read_steps(spec, is_cancelled)
    learned, _ = _sort(read.records)
    metrics: list[Mapping[str, float]] = []

    def note(step: int, loss: float) -> None:
        if is_cancelled():
            raise CancelledError(f"cancelled after {step} of {recipe.steps} updates")
        if not math.isfinite(loss):
            raise DivergedError(f"the loss is {loss} after {step} updates")
        metrics.append({"update": float(step), "updates": float(recipe.steps), "loss": loss})
        report(metrics[-1])

    labels, weights = _columns(read.records, learned)
    try:
        head = fit_head(
            read.features[learned],
            labels,
            weights,
            hidden=recipe.hidden,
            steps=recipe.steps,
            batch=recipe.batch,
            learning_rate=recipe.learning_rate,
            weight_decay=recipe.weight_decay,
            seed=spec.seed,
            report=note,
        )
    except ValueError as error:
        raise NothingToLearnError(str(error)) from error
    return publish_calibrated(spec, head, read, output=output, metrics=metrics, started=started)


class Read(NamedTuple):
    """What a head was trained on: attempts, and the features (N, F) of all their steps as this engine reads them."""

    engine: Engine
    records: Sequence[LabelledStepsRecord]
    features: Tensor


def read_steps(spec: TrainSpec, is_cancelled: Callable[[], bool]) -> Read:
    """Read a spec's labelled steps and their features.

    Raises:
        TrainingError, ArtifactError: they cannot be read, or there are none. CancelledError: nobody wants them.
    """
    records = read_labelled_steps(path_from_uri(spec.rollouts_uri), sha256=spec.rollouts_sha256)
    try:
        engine = Engine.open(spec.base_model)
        return Read(engine, records, torch.cat(list(_read_states(engine, records, is_cancelled))))
    except EngineError as error:
        raise BaseModelError(f"{spec.base_model}: {error}") from error


def publish_calibrated(
    spec: TrainSpec,
    head: Head,
    read: Read,
    *,
    output: Path,
    metrics: list[Mapping[str, float]],
    started: float,
) -> TrainedAdapter:
    """Fit a trained head's calibration and publish it.

    Args:
        metrics: of its updates. started: when the work began, by `time.perf_counter`.
    Raises:
        NothingToLearnError: no step's truth is known. ArtifactError: the disk refuses.
    """
    recipe = HeadRecipe.from_json(spec.recipe)
    engine, records, features = read
    learned, checked = _sort(records)
    labels, _ = _columns(records, learned)
    try:
        curve, truths, logits = _calibrate(head, features, records, checked)
    except (ValueError, ScoringError) as error:
        raise NothingToLearnError(str(error)) from error
    directory, sha256 = publish_head(
        head,
        {
            "base_model": spec.base_model,
            "base_sha256": engine.base.fingerprint,
            "run_id": spec.run_id,
            "attempt": spec.attempt,
            "recipe_hash": recipe.hash,
            "steps_sha256": spec.rollouts_sha256,
            "width": engine.base.model.width,
            "slope": curve.slope,
            "offset": curve.offset,
        },
        parent=output,
    )
    said = [curve.probability(logit) for logit in logits]
    summary = {
        "attempts": float(len(records)),
        "steps_learned": float(len(learned)),
        "steps_calibrated": float(len(checked)),
        "share_good": float(labels.mean()),
        **({"loss": metrics[-1]["loss"]} if metrics else {}),
        "calibration_auc": area_under_curve(logits, truths) or 0.0,
        "calibration_brier": sum((p - (truth >= 0.5)) ** 2 for p, truth in zip(said, truths, strict=True)) / len(said),
        "wall_s": time.perf_counter() - started,
    }
    return TrainedAdapter(
        directory,
        sha256,
        metrics,
        summary,
        {package: version(package) for package in ("torch", "safetensors", "tokenizers")},
    )


def read_labelled_steps(path: Path, *, sha256: str) -> list[LabelledStepsRecord]:
    """Every attempt of the file, in its order.

    Raises:
        ArtifactError: the file cannot be read or is another one.
        RolloutsUnreadableError: a line is no record; the message numbers it, from 1.
        NothingToLearnError: there is no step in it.
    """
    records = read_records(path, LabelledStepsRecord, sha256=sha256)
    if not any(record.steps for record in records):
        raise NothingToLearnError(f"wanted labelled steps, found {len(records)} attempts without any")
    return records


def _read_states(
    engine: Engine, records: Sequence[LabelledStepsRecord], is_cancelled: Callable[[], bool]
) -> Iterator[Tensor]:
    for start in range(0, len(records), _PAGE):
        if is_cancelled():
            raise CancelledError(f"cancelled after reading {start} of {len(records)} attempts")
        asked = [
            AnsweredSteps(record.prompt_token_ids, record.token_ids, [(step.start, step.end) for step in record.steps])
            for record in records[start : start + _PAGE]
        ]
        yield from engine.read_features(asked)


def _sort(records: Sequence[LabelledStepsRecord]) -> tuple[list[int], list[int]]:
    """Places (in the order of all steps) of those to learn from, and of those that calibrate."""
    learned, checked, place = [], [], 0
    for record in records:
        for step in record.steps:
            if record.split == "train" and step.label is not None:
                learned.append(place)
            elif record.split == "calibrate" and step.truth is not None:
                checked.append(place)
            place += 1
    return learned, checked


def _columns(records: Sequence[LabelledStepsRecord], learned: Sequence[int]) -> tuple[Tensor, Tensor]:
    steps = [step for record in records for step in record.steps]
    labels = [steps[place].label for place in learned]
    weights = [steps[place].weight for place in learned]
    return torch.tensor(labels, dtype=torch.float32), torch.tensor(weights, dtype=torch.float32)


def _calibrate(
    head: Head, features: Tensor, records: Sequence[LabelledStepsRecord], checked: Sequence[int]
) -> tuple[PlattCurve, list[float], list[float]]:
    steps = [step for record in records for step in record.steps]
    truths = [float(steps[place].truth or 0.0) for place in checked]
    logits = [float(logit) for logit in head.logits(features[list(checked)])] if checked else []
    return fit_platt(logits, truths), truths, logits
