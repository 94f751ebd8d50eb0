"""OpenRLHF's stock trainers for real, on a machine without a GPU: imitation, preferences and a step scorer.

Runs when asked for by name (`pytest -m openrlhf`) where `python -m tests.integrations.openrlhf.install` was run.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpu_workers.backends.openrlhf.ray_jobs import RayJobs
from gpu_workers.desk.attempts import Attempt, attempt_tickets, judge_attempt
from gpu_workers.engine import Engine
from gpu_workers.engine.reward_heads import AnsweredSteps
from gpu_workers.head_files import read_head
from gpu_workers.runner import run
from tentalis.core.canon import canonical_json
from tentalis.core.contracts import (
    AdapterManifest,
    AnswerRecord,
    DemonstrationRecord,
    LabelledStep,
    LabelledStepsRecord,
    PairRecord,
    TrainResult,
    TrainSpec,
)
from tentalis.core.desk import make_tickets, read_pieces
from tentalis.core.learning.head_recipes import HeadRecipe
from tentalis.core.learning.recipes import Recipe
from tentalis.core.scoring.ranking import area_under_curve
from tests.integrations.openrlhf.install import PYTHON
from tests.integrations.openrlhf.nodes import ray_cluster

pytestmark = [
    pytest.mark.openrlhf,
    pytest.mark.torch,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(not PYTHON.exists(), reason="no environment: python -m tests.integrations.openrlhf.install"),
]
OPTIONS: Mapping[str, Any] = {
    "micro_batch": 8, "max_tokens": 160, "max_new_tokens": 44, "zero_stage": 0, "attention": "eager", "save_every": 2,
}  # fmt: skip
RECIPE = Recipe(learning_rate=4e-3, minibatches=4, epochs=2, lora_rank=8, lora_alpha=16.0)


@pytest.fixture(scope="module")
def ray_url() -> Iterator[str]:
    with ray_cluster() as url:
        yield url


@pytest.fixture(scope="module")
def desk() -> Engine:
    return Engine.open("desk")


@pytest.fixture(scope="module")
def groups(desk: Engine) -> list[list[Attempt]]:
    """Tickets with four attempts each, tools' results in them."""
    return attempt_tickets(desk, make_tickets(5, 64, held_out=False), n=4, seed=7)


def train(
    folder: Path, url: str, records: Sequence[Any], recipe: Recipe | HeadRecipe, monkeypatch: Any, **changes: Any
) -> TrainResult:
    """Train through the box's own door, and show what the cluster said where it failed."""
    data = b"\n".join(canonical_json(record.to_json()) for record in records)
    (folder / "records.jsonl").write_bytes(data)
    (folder / "out").mkdir()
    monkeypatch.setenv("TENTALIS_RAY_URL", url)
    values: dict[str, Any] = {
        "attempt": 1,
        "worker": "clerk",
        "base_model": "desk",
        "parent_adapter_uri": None,
        "parent_sha256": None,
        "policy_version": 0,
        "rollouts_uri": (folder / "records.jsonl").as_uri(),
        "rollouts_sha256": hashlib.sha256(data).hexdigest(),
        "recipe": recipe.to_json(),
        "seed": 1,
        "output_uri": (folder / "out").as_uri(),
        "backend": "openrlhf",
        "options": dict(OPTIONS),
    }
    result = run(TrainSpec(**values | changes), lambda _: None)
    log = folder / "out" / "cluster.log"
    assert result.ok, f"{result.error_message}\n{log.read_text()[-6000:] if log.exists() else ''}"
    return result


def open_adapter(engine: Engine, result: TrainResult, name: str) -> AdapterManifest:
    directory = Path(result.adapter_uri.removeprefix("file://"))
    manifest = AdapterManifest.from_json(json.loads((directory / "manifest.json").read_bytes()))
    engine.load_adapter(name, directory)
    return manifest


def sum_counted(engine: Engine, attempts: Sequence[Attempt], adapter: str | None = None) -> list[float]:
    """Log-prob of each attempt's own tokens."""
    found = engine.score([one.prompt_ids for one in attempts], [one.token_ids for one in attempts], adapter)
    return [float(row[np.array(one.sampled)].sum()) for row, one in zip(found, attempts, strict=True)]


def test_what_is_shown_becomes_likelier(
    ray_url: str, desk: Engine, groups: list[list[Attempt]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = [min(group, key=lambda one: sum(one.logprobs)) for group in groups]  # what it would seldom do itself
    records = [
        DemonstrationRecord(
            demonstration_id=place, group_id=place, source="attempt", messages=[], answer="",
            prompt_token_ids=one.prompt_ids, token_ids=one.token_ids, counts=one.sampled,
        )
        for place, one in enumerate(shown)
    ]  # fmt: skip
    recipe = Recipe.from_json({**RECIPE.to_json(), "algorithm": "sft"})
    result = train(tmp_path, ray_url, records, recipe, monkeypatch, run_id=11)
    manifest = open_adapter(desk, result, "shown")
    assert (manifest.rank, manifest.recipe_hash, manifest.run_id) == (8, recipe.hash, 11)
    assert [update["update"] for update in result.metrics] == [float(number) for number in range(1, 9)]
    assert result.metrics[-1]["loss"] < result.metrics[0]["loss"]
    counted = sum(sum(one.sampled) for one in shown)
    before = sum(sum_counted(desk, shown)) / counted
    after = sum(sum_counted(desk, shown, "shown")) / counted
    assert result.metrics[0]["loss"] == pytest.approx(-before, abs=0.1), "it learns the very tokens that count"
    assert after > 0.8 * before, "a fifth of the surprise is gone"


def test_what_is_preferred_becomes_likelier_than_what_is_not(
    ray_url: str, desk: Engine, groups: list[list[Attempt]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = [(one, other) for group in groups for one, other in pairwise(group) if one.token_ids != other.token_ids]
    pairs = [(one, other) for one, other in pairs if len(one.token_ids) < len(other.token_ids)][:64]
    records = [
        PairRecord(
            pair_id=place, group_id=place, source="attempts", messages=[], prompt_token_ids=one.prompt_ids,
            chosen=[AnswerRecord(token_ids=one.token_ids, counts=one.sampled)],
            rejected=[AnswerRecord(token_ids=other.token_ids, counts=other.sampled)],
        )
        for place, (one, other) in enumerate(pairs)
    ]  # fmt: skip
    recipe = Recipe.from_json({**RECIPE.to_json(), "algorithm": "dpo", "beta": 0.1, "minibatches": 2, "kl_coef": 0.0})
    result = train(tmp_path, ray_url, records, recipe, monkeypatch, run_id=12)
    open_adapter(desk, result, "preferred")
    assert result.metrics[0]["loss"] == pytest.approx(np.log(2), abs=0.02), "it starts at its reference"
    assert result.metrics[-1]["loss"] < result.metrics[0]["loss"]

    def margin(adapter: str | None) -> float:
        chosen = sum_counted(desk, [one for one, _ in pairs], adapter)
        rejected = sum_counted(desk, [other for _, other in pairs], adapter)
        return float(np.mean(np.array(chosen) - np.array(rejected)))

    assert margin("preferred") > margin(None) + 1.0


def test_a_step_scorer_is_trained_calibrated_and_served(
    ray_url: str, desk: Engine, groups: list[list[Attempt]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [
        describe_steps(desk, one, group_id=place, split="calibrate" if place % 4 == 0 else "train")
        for place, group in enumerate(groups)
        for one in group
    ]
    recipe = HeadRecipe(steps=40, batch=32, learning_rate=2e-2, weight_decay=0.0)
    options = {**OPTIONS, "micro_batch": 32}
    result = train(tmp_path, ray_url, records, recipe, monkeypatch, run_id=13, purpose="reward_model", options=options)
    directory = Path(result.adapter_uri.removeprefix("file://"))
    stored = read_head(directory)
    assert (stored.manifest.run_id, stored.manifest.hidden, stored.manifest.recipe_hash) == (13, 2, recipe.hash)
    assert stored.sha256 == result.sha256
    assert stored.manifest.slope > 0
    assert not list((tmp_path / "out" / "saved").glob("model*.safetensors")), "the base is not saved again"
    head = desk.load_head("compared", directory)
    tried = attempt_tickets(desk, make_tickets(9, 48, held_out=True), seed=3)
    fresh = [describe_steps(desk, one, group_id=0, split="train") for (one,) in tried]
    asked = [
        AnsweredSteps(one.prompt_token_ids, one.token_ids, [(step.start, step.end) for step in one.steps])
        for one in fresh
    ]
    logits = [logit for row in desk.score_steps(head, asked) for logit in row]
    found = area_under_curve(logits, [float(step.truth or 0) for one in fresh for step in one.steps])
    assert found is not None
    assert found > 0.7, "good steps score above bad ones on tickets it never saw"
    assert RayJobs(ray_url).find("run-13-1") is not None


def describe_steps(engine: Engine, attempt: Attempt, *, group_id: int, split: str) -> LabelledStepsRecord:
    """An attempt whose steps are labelled by the rule book."""
    reading = read_pieces(engine.codec.split_pieces(attempt.token_ids))
    scores = judge_attempt(engine, attempt).step_scores
    steps = [
        LabelledStep(
            step_id=place, start=segment.start, end=segment.end, label=float(score == 1.0), truth=float(score == 1.0)
        )
        for place, (segment, score) in enumerate(zip(reading.segments, scores, strict=True))
    ]
    return LabelledStepsRecord(
        attempt_id=group_id, group_id=group_id, split=split, prompt_token_ids=attempt.prompt_ids,
        token_ids=attempt.token_ids, steps=steps,
    )  # fmt: skip
