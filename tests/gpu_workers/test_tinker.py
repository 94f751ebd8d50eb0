"""The Tinker backend with the service's real client, against a service on loopback that really trains."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

pytest.importorskip("tinker", reason="the client of Tinker is not installed: pip install 'tentalis[tinker]'")

from gpu_workers.artifacts import path_from_uri
from gpu_workers.runner import run
from tentalis.core.contracts import RolloutRecord, TrainResult, TrainSpec
from tentalis.core.learning.recipes import Recipe
from tests.gpu_workers.learning.training_factory import make_rollouts, make_spec
from tests.gpu_workers.tinker_server import KEY, MODEL, TinkerServer, serve

pytestmark = pytest.mark.torch
WEIGHTS = "adapter_model.safetensors"
RECIPE = Recipe(lora_rank=4, lora_alpha=32.0, learning_rate=1e-3, weight_decay=0.01)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[TinkerServer]:
    with serve(TinkerServer()) as server:
        monkeypatch.setenv("TENTALIS_TINKER_URL", server.url)
        monkeypatch.setenv("TENTALIS_TINKER_API_KEY", KEY)
        yield server


def make_tinker_spec(directory: Path, recipe: Recipe = RECIPE, **fields: Any) -> TrainSpec:
    values: dict[str, Any] = {"backend": "tinker", "options": {"model": MODEL}}
    return make_spec(directory, fields.pop("rollouts", None) or make_rollouts(), recipe=recipe, **(values | fields))


def train(spec: TrainSpec) -> TrainResult:
    return run(spec, lambda _: None)


def read_weights(result: TrainResult) -> dict[str, torch.Tensor]:
    assert result.ok, f"{result.error_type}: {result.error_message}"
    return dict(load_file(path_from_uri(result.adapter_uri) / WEIGHTS))


def agreeing_rollouts() -> list[RolloutRecord]:
    """Rollouts whose hints and rewards never disagree in sign on a token: half are rewarded only, half hinted only."""
    rollouts = make_rollouts(groups=4)
    return [
        dataclasses.replace(rollout, hinted_messages=None)
        if rollout.group_id % 2
        else dataclasses.replace(rollout, reward=None, steps=())
        for rollout in rollouts
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {"algorithm": "grpo"},
        {"algorithm": "dr_grpo", "importance_cap": 2.0},
        {"algorithm": "cispo"},
        {"algorithm": "reward_weighted_sft"},
    ],
    ids=lambda changes: changes["algorithm"],
)
def test_the_adapter_is_the_standalone_trainers(tmp_path: Path, server: TinkerServer, changes: dict[str, Any]) -> None:
    rollouts = make_rollouts() if changes["algorithm"] == "cispo" else agreeing_rollouts()
    recipe = dataclasses.replace(RECIPE, epochs=2, **changes)
    here = train(make_spec(tmp_path / "here", rollouts, recipe=recipe))
    there = train(make_tinker_spec(tmp_path / "there", recipe, rollouts=rollouts))
    ours, theirs = read_weights(here), read_weights(there)
    assert ours.keys() == theirs.keys()
    moved = max(float(tensor.abs().max()) for name, tensor in ours.items() if "lora_B" in name)
    gap = max(float((ours[name] - theirs[name]).abs().max()) for name in ours)
    assert moved > 1e-3
    assert gap < 1e-2 * moved
    for mine, other in zip(here.metrics, there.metrics, strict=True):
        for name in ("loss", "loss_rl", "loss_opd", "kl", "max_ratio", "grad_norm", "reward"):
            assert other[name] == pytest.approx(mine[name], rel=1e-3, abs=1e-4), name
