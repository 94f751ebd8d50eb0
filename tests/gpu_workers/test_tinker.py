"""The Tinker backend with the service's real client, against a service on loopback that really trains."""

import dataclasses
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

pytest.importorskip("tinker", reason="the client of Tinker is not installed: pip install 'tentalis[tinker]'")

from gpu_workers.artifacts import path_from_uri
from gpu_workers.backends.tinker import recipes
from gpu_workers.runner import run
from tentalis.core.contracts import RolloutRecord, TrainResult, TrainSpec
from tentalis.core.learning.recipes import Recipe
from tests.gpu_workers.learning.training_factory import make_rollouts, make_spec
from tests.gpu_workers.templated import (
    CONVERSATIONS,
    TOOLS,
    make_templated_model,
    make_templated_rollouts,
    serve_prompt,
)
from tests.gpu_workers.tinker_server import KEY, MODEL, TinkerServer, serve

pytestmark = pytest.mark.torch
WEIGHTS = "adapter_model.safetensors"
RECIPE = Recipe(lora_rank=4, lora_alpha=32.0, learning_rate=1e-3, weight_decay=0.01)
OUTCOME = dataclasses.replace(RECIPE, w_opd=0.0)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[TinkerServer]:
    with serve(TinkerServer()) as server:
        monkeypatch.setenv("TENTALIS_TINKER_URL", server.url)
        monkeypatch.setenv("TENTALIS_TINKER_API_KEY", KEY)
        yield server


def make_tinker_spec(directory: Path, recipe: Recipe = OUTCOME, **fields: Any) -> TrainSpec:
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
    for name in {"val_loss", "train_loss", "rollouts_held_out"} & set(here.summary):
        assert there.summary[name] == pytest.approx(here.summary[name], rel=1e-3, abs=1e-4), name
    assert ("val_loss" in here.summary) == (changes["algorithm"] == "reward_weighted_sft")
    for mine, other in zip(here.metrics, there.metrics, strict=True):
        for name in ("loss", "loss_rl", "loss_opd", "kl", "max_ratio", "grad_norm", "reward"):
            assert other[name] == pytest.approx(mine[name], rel=1e-3, abs=1e-4), name


def one_update(**changes: Any) -> Recipe:
    return dataclasses.replace(RECIPE, minibatches=1, **changes)


def test_what_is_sent_is_shifted_weighed_and_clipped_as_the_recipe_says(tmp_path: Path, server: TinkerServer) -> None:
    recipe = one_update(w_rl=0.5, w_opd=0.0, step_mix=0.0, clip_low=0.25, clip_high=0.5, std_floor=1.0)
    right, wrong = make_rollouts(groups=1, size=2, steps=(), hinted_messages=None)
    right = dataclasses.replace(right, sampled=[True] * (len(right.token_ids) - 1) + [False])
    right = dataclasses.replace(right, logprobs=[*right.logprobs[:-1], 0.0])
    result = train(make_tinker_spec(tmp_path, recipe, rollouts=[right, wrong]))
    assert result.ok, result.error_message
    (sent,) = server.passes
    assert (sent.loss, sent.config) == ("ppo", {"clip_low_threshold": 0.75, "clip_high_threshold": 1.5})
    total = sum(right.sampled) + sum(wrong.sampled)
    advantage = 0.5 / (0.5 + 1.0)  # (1 - 1/2) over the std of (1, 0) and the floor
    for rollout, datum, sign in ((right, sent.data[0], 1), (wrong, sent.data[1], -1)):
        whole = [*rollout.prompt_token_ids, *rollout.token_ids]
        before = [0.0] * (len(rollout.prompt_token_ids) - 1)
        each = [sign * 0.5 * advantage / total if counts else 0.0 for counts in rollout.sampled]
        assert datum.tokens == whole[:-1]
        assert datum.inputs["target_tokens"] == whole[1:]
        assert datum.inputs["logprobs"] == pytest.approx([*before, *rollout.logprobs], abs=1e-6)
        assert datum.inputs["advantages"] == pytest.approx([*before, *each], abs=1e-7)
    assert server.steps == [
        {
            "learning_rate": 1e-3,
            "beta1": 0.9,
            "beta2": 0.95,
            "eps": 1e-8,
            "weight_decay": 0.01,
            "grad_clip_norm": 1.0,
        }
    ]
    (asked,) = (sent for name, sent in server.requests if name == "create_model")
    assert (asked["base_model"], asked["lora_config"]["rank"], asked["lora_config"]["seed"]) == (MODEL, 4, 7)
    assert not asked["lora_config"]["train_unembed"]


@pytest.mark.parametrize("said", [{"weight": 0.5}, {"weight": 1.0, "hint_weight": 0.5}], ids=["of one", "of two"])
def test_a_hint_is_the_gap_of_the_teacher_who_reads_it(
    tmp_path: Path, server: TinkerServer, said: dict[str, Any]
) -> None:
    recipe = one_update(w_rl=0.0, w_opd=2.0, opd_clip=0.5)
    (rollout,) = make_rollouts(groups=1, size=1, reward=None, steps=(), **said)
    assert train(make_tinker_spec(tmp_path, recipe, rollouts=[rollout])).ok
    hinted = server.base.read_prompt(rollout.hinted_messages or [])
    (asked,) = (sent for name, sent in server.requests if name == "asample")
    assert [token for chunk in asked["prompt"]["chunks"] for token in chunk["tokens"]] == [*hinted, *rollout.token_ids]
    assert asked["prompt_logprobs_last_n"] == len(rollout.token_ids)
    (teacher,) = server.score([(list(hinted), list(rollout.token_ids))], None)
    gaps = [max(-0.5, min(0.5, float(t) - b)) for t, b in zip(teacher, rollout.logprobs, strict=True)]
    found = server.passes[0].data[0].inputs["advantages"][-len(gaps) :]
    assert found == pytest.approx([2.0 * 0.5 * gap / len(gaps) for gap in gaps], abs=1e-6)


def test_cispo_and_a_hint_are_two_requests_before_one_step(tmp_path: Path, server: TinkerServer) -> None:
    result = train(make_tinker_spec(tmp_path, one_update(algorithm="cispo")))
    assert result.ok, result.error_message
    assert [(sent.loss, sent.config["clip_low_threshold"]) for sent in server.passes] == [("cispo", 0.0), ("ppo", 0.8)]
    assert len(server.steps) == 1


def test_a_run_goes_on_from_the_services_state(tmp_path: Path, server: TinkerServer) -> None:
    recipe = dataclasses.replace(OUTCOME, epochs=2, importance_cap=2.0)
    whole = train(make_tinker_spec(tmp_path / "whole", recipe))
    spec = make_tinker_spec(tmp_path / "parts", recipe)

    def stop(metrics: Any) -> None:
        if metrics["update"] == 3:
            (tmp_path / "parts" / "out" / "pause").write_text("paused by the schedule")

    assert run(spec, stop).error_type == "PausedError"
    again = dataclasses.replace(
        spec,
        attempt=2,
        output_uri=(tmp_path / "again").as_uri(),
        resume_uri=(tmp_path / "parts" / "out" / "checkpoint").as_uri(),
    )
    result = train(again)
    ours, theirs = read_weights(result), read_weights(whole)
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert [metric["update"] for metric in result.metrics] == [1, 2, 3, 4]
    assert len(server.steps) == 8
    assert not (tmp_path / "again" / "checkpoint").exists()


def test_a_child_goes_on_from_its_parent_and_the_local_trainer_can_too(tmp_path: Path, server: TinkerServer) -> None:
    first = train(make_tinker_spec(tmp_path / "first"))
    parent = (first.adapter_uri, first.sha256)
    child = train(make_tinker_spec(tmp_path / "child", parent=parent))
    assert child.ok, child.error_message
    (loaded,) = (sent for name, sent in server.requests if name == "load_weights")
    left = json.loads((path_from_uri(first.adapter_uri) / "tinker.json").read_bytes())
    assert (loaded["path"], loaded["optimizer"]) == (left["state"], True)
    assert left["sampler"].startswith("tinker://model-1/sampler_weights/run-1-1-2")
    here = train(make_spec(tmp_path / "here", make_rollouts(), recipe=OUTCOME, parent=parent))
    assert here.ok, here.error_message


@pytest.mark.parametrize("alpha", [8.0, 64.0])
def test_an_adapter_of_another_scale_comes_home_as_the_same_function(
    tmp_path: Path, server: TinkerServer, alpha: float
) -> None:
    server.alpha = alpha
    result = train(make_tinker_spec(tmp_path))
    weights, trained = read_weights(result), server.adapters["model-1"].weights
    for name in (name for name in trained if "lora_B" in name):
        a = name.replace("lora_B", "lora_A")
        there = trained[name].detach() @ trained[a].detach() * alpha / 4
        here = weights[f"base_model.model.{name}"] @ weights[f"base_model.model.{a}"] * 32.0 / 4
        assert torch.allclose(here, there, atol=1e-7)


@pytest.mark.parametrize(
    ("kind", "words"),
    [("forward_backward", "the pass of ppo"), ("optim_step", "the step"), ("create_model", "a fresh adapter")],
)
def test_a_future_that_fails_is_a_failed_result_with_its_words(
    tmp_path: Path, server: TinkerServer, kind: str, words: str
) -> None:
    server.fails[kind] = f"the weights are too heavy for {KEY}"
    result = train(make_tinker_spec(tmp_path))
    assert (result.ok, result.error_type) == (False, "TinkerFailedError")
    assert words in result.error_message
    assert "the weights are too heavy" in result.error_message
    assert KEY not in result.error_message


def test_a_cancelled_run_stops_while_the_service_computes(tmp_path: Path, server: TinkerServer) -> None:
    server.holds.add("forward_backward")
    spec = make_tinker_spec(tmp_path)
    out = tmp_path / "out"
    out.mkdir()

    class Watch(threading.Thread):
        def run(self) -> None:
            while not server.passes:
                time.sleep(0.01)
            (out / "cancel").touch()

    watch = Watch()
    watch.start()
    result = train(spec)
    watch.join()
    assert (result.ok, result.error_type) == (False, "CancelledError")
    assert result.error_message == "cancelled while Tinker was at the pass of ppo"
    assert server.steps != []  # it was sent along; the next update was not
    assert len(server.passes) == 1
    (told,) = (sent for name, sent in server.requests if name.endswith("/finish"))
    assert told["reason"]["type"] == "interrupted"


def test_an_adapter_that_cannot_be_fetched_is_fetched_by_the_next_attempt(tmp_path: Path, server: TinkerServer) -> None:
    server.leaves_out.add(WEIGHTS)
    spec = make_tinker_spec(tmp_path)
    result = train(spec)
    assert (result.ok, result.error_type) == (False, "ExportNotAsAskedError")
    server.leaves_out.clear()
    again = dataclasses.replace(
        spec,
        attempt=2,
        output_uri=(tmp_path / "again").as_uri(),
        resume_uri=(tmp_path / "out" / "checkpoint").as_uri(),
    )
    result = train(again)
    assert result.ok, result.error_message
    assert len(server.steps) == 2


def test_the_key_is_sent_and_lies_nowhere(
    tmp_path: Path, server: TinkerServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    assert train(make_tinker_spec(tmp_path)).ok
    assert any(KEY in key for key in server.keys)
    assert KEY not in caplog.text
    assert "signed-for-the-tests" not in caplog.text
    written = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert len(written) >= 6
    assert not any(KEY.encode() in path.read_bytes() for path in written)
    assert not any(name == "telemetry" for name, _ in server.requests)


@pytest.mark.parametrize(
    ("changes", "fields", "message"),
    [
        ({"dual_clip": 3.0}, {}, "recipe.dual_clip must be null with Tinker, found 3.0"),
        ({"kl_coef": 0.1}, {}, "recipe.kl_coef must be 0 with Tinker, found 0.1: its losses have no reference policy"),
        ({"entropy_coef": 0.1}, {}, "recipe.entropy_coef must be 0 with Tinker"),
        ({"schedule": "linear"}, {}, "recipe.schedule must be constant with Tinker, found linear"),
        ({"warmup_updates": 4}, {}, "recipe.warmup_updates must be 0 with Tinker, found 4"),
        ({"algorithm": "gspo"}, {}, "recipe.algorithm must not be gspo with Tinker"),
        ({"algorithm": "kto"}, {}, "recipe.algorithm must learn from rewards with Tinker, found kto"),
        ({"opd_mode": "top_k"}, {}, "recipe.opd_mode must be logprobs or lightweight with Tinker, found top_k"),
        ({"teacher": "/models/large"}, {}, "recipe.teacher must be 'base' with Tinker, found '/models/large'"),
        ({"target_modules": ("q_proj", "v_proj")}, {}, "recipe.target_modules must be all of attention"),
        ({}, {"options": {}}, "options.model: wanted the service's name of the base model, like Qwen/Qwen3-8B"),
        ({}, {"options": {"model": MODEL, "colour": 1}}, "options: wanted fields of model,"),
        (
            {},
            {"options": {"model": MODEL, "keep_days": -1}},
            "options.keep_days: wanted a whole number from 0 to",
        ),
        ({}, {"purpose": "reward_model"}, "purpose must be policy with Tinker, found reward_model"),
        ({}, {"base_model": "/no/such/model"}, "the tokenizer and sizes of /no/such/model cannot be read"),
    ],
)
def test_what_tinker_cannot_do_is_refused_before_anything_is_sent(
    tmp_path: Path, server: TinkerServer, changes: dict[str, Any], fields: dict[str, Any], message: str
) -> None:
    result = train(make_tinker_spec(tmp_path, dataclasses.replace(RECIPE, **changes), **fields))
    assert not result.ok
    assert result.error_message.startswith(message)
    assert server.requests == []


def test_a_parent_that_was_trained_elsewhere_is_refused(tmp_path: Path, server: TinkerServer) -> None:
    here = train(make_spec(tmp_path / "here", make_rollouts(), recipe=RECIPE))
    result = train(make_tinker_spec(tmp_path / "there", parent=(here.adapter_uri, here.sha256)))
    assert result.error_type == "ParentMismatchError"
    assert "was not trained at Tinker" in result.error_message
    assert server.requests == []


@pytest.mark.parametrize(
    ("key", "message"),
    [("", "TENTALIS_TINKER_API_KEY must be a key of the Tinker service"), ("sk-1", "must begin with tml- or eyJ")],
)
def test_without_a_key_nothing_is_sent(
    tmp_path: Path, server: TinkerServer, monkeypatch: pytest.MonkeyPatch, key: str, message: str
) -> None:
    monkeypatch.setenv("TENTALIS_TINKER_API_KEY", key)
    monkeypatch.setenv("TINKER_API_KEY", "tml-of-somebody-else")
    result = train(make_tinker_spec(tmp_path))
    assert result.error_type == "TinkerOptionsError"
    assert message in result.error_message
    assert server.requests == []


def test_every_field_of_a_recipe_is_taken_refused_or_named() -> None:
    groups = [set(recipes.TAKEN), set(recipes.REFUSED), set(recipes.OTHERWISE)]
    assert set.union(*groups) == {item.name for item in dataclasses.fields(Recipe)}
    assert sum(map(len, groups)) == len(set.union(*groups))


def test_a_hinted_rollout_that_calls_tools_trains_on_policy_there_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, messages = make_templated_model("qwen3"), CONVERSATIONS["call without content"]
    prompt = serve_prompt(directory, messages, tools=TOOLS)
    rollouts = make_templated_rollouts(directory, messages, prompt, rendering={"tools": TOOLS})
    rollouts[0] = dataclasses.replace(rollouts[0], rendering={})
    with serve(TinkerServer(model=str(directory))) as server:
        monkeypatch.setenv("TENTALIS_TINKER_URL", server.url)
        monkeypatch.setenv("TENTALIS_TINKER_API_KEY", KEY)
        result = train(make_tinker_spec(tmp_path, one_update(), rollouts=rollouts, base_model=str(directory)))
    assert result.ok, result.error_message
    assert (result.summary["rollouts_hinted"], result.summary["refused_hint_does_not_replay"]) == (3, 1)
    assert result.summary["max_ratio"] == pytest.approx(1, abs=1e-3)
    assert "where the server read" in result.notes[0]
