import dataclasses
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, PeftConfig, PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from gpu_workers.artifacts import path_from_uri
from gpu_workers.backends.adapter_files import LoraTensors, describe_adapter, publish_adapter, start_adapter
from gpu_workers.backends.base_models import load_base
from gpu_workers.engine import Engine
from gpu_workers.runner import require_numbers, run
from tentalis.core.contracts import AdapterManifest, Outcome, RolloutRecord, TrainResult, TrainSpec
from tentalis.core.learning.recipes import ALGORITHMS, ALL_LINEAR, PREFERENCES, Recipe
from tests.gpu_workers.learning.training_factory import RECIPE, make_rollouts, make_spec, tiny_model

pytestmark = pytest.mark.torch


def train(spec: TrainSpec) -> TrainResult:
    return run(spec, lambda _: None)


def train_well(spec: TrainSpec) -> tuple[TrainResult, Path]:
    result = train(spec)
    assert result.ok, f"{result.error_type}: {result.error_message}"
    return result, path_from_uri(result.adapter_uri)


def test_a_training_leaves_an_adapter_a_manifest_and_a_result(tmp_path: Path) -> None:
    seen: list[Mapping[str, float]] = []
    spec = make_spec(tmp_path, make_rollouts())
    result = run(spec, seen.append)
    assert result.ok, result.error_message
    directory = path_from_uri(result.adapter_uri)
    assert sorted(path.name for path in directory.iterdir()) == [
        "adapter_config.json",
        "adapter_model.safetensors",
        "manifest.json",
        "optimizer.safetensors",
    ]
    manifest = AdapterManifest.from_json(json.loads((directory / "manifest.json").read_bytes()))
    assert directory.name == result.sha256
    assert (manifest.worker, manifest.rank, manifest.recipe_hash) == ("tester", 4, RECIPE.hash)
    assert TrainResult.from_json(json.loads((tmp_path / "out" / "result.json").read_bytes())) == result
    assert list(result.metrics) == seen
    assert [metric["update"] for metric in seen] == [1, 2]
    assert seen[0]["max_ratio"] == pytest.approx(1.0, abs=1e-4)
    assert {"reward", "accuracy", "kl", "entropy", "clip_fraction", "grad_norm", "tokens_per_s"} <= set(seen[0])
    assert result.summary["rollouts_hinted"] == 12


def test_its_config_says_to_peft_what_peft_would_have_said(tmp_path: Path) -> None:
    _, directory = train_well(make_spec(tmp_path, make_rollouts()))
    own = LoraConfig(
        r=4, lora_alpha=8, target_modules=list(ALL_LINEAR), base_model_name_or_path=str(tiny_model()),
        task_type="CAUSAL_LM", bias="none", lora_dropout=0.0, inference_mode=True,
    )  # fmt: skip
    assert PeftConfig.from_pretrained(str(directory)) == own


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")
def test_peft_and_the_engine_read_the_adapter_and_agree_with_the_trainer(tmp_path: Path) -> None:
    rollouts = make_rollouts()
    _, directory = train_well(make_spec(tmp_path, rollouts, recipe=dataclasses.replace(RECIPE, epochs=3)))
    model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(tiny_model()), directory)
    engine = Engine("tiny", tiny_model())
    engine.load_adapter("trained", directory)
    first = rollouts[0]
    (scored,) = engine.score([first.prompt_token_ids], [first.token_ids], "trained")
    ids = torch.tensor([[*first.prompt_token_ids, *first.token_ids]])
    with torch.no_grad():
        logits = model(input_ids=ids).logits[0, len(first.prompt_token_ids) - 1 : -1]
    by_peft = logits.log_softmax(-1).gather(-1, torch.tensor(first.token_ids)[:, None])[:, 0]
    assert scored.tolist() == pytest.approx(by_peft.tolist(), abs=1e-5)
    assert scored.tolist() != pytest.approx(list(first.logprobs), abs=1e-2)


def mean_logprob(directory: Path | None, rollouts: list[Any]) -> float:
    engine = Engine("tiny", tiny_model())
    if directory is not None:
        engine.load_adapter("trained", directory)
    scores = engine.score(
        [rollout.prompt_token_ids for rollout in rollouts],
        [rollout.token_ids for rollout in rollouts],
        "trained" if directory else None,
    )
    return float(sum(score.sum() for score in scores))


@pytest.mark.parametrize("algorithm", sorted({*ALGORITHMS} - PREFERENCES))
def test_right_answers_become_likelier_and_wrong_ones_less(tmp_path: Path, algorithm: str) -> None:
    rollouts = make_rollouts()
    recipe = dataclasses.replace(RECIPE, algorithm=algorithm, w_rl=1.0, w_opd=0.0, epochs=4)
    _, directory = train_well(make_spec(tmp_path, rollouts, recipe=recipe))
    right = [rollout for rollout in rollouts if rollout.reward == 1]
    wrong = [rollout for rollout in rollouts if rollout.reward == 0]
    gain_right = mean_logprob(directory, right) - mean_logprob(None, right)
    gain_wrong = mean_logprob(directory, wrong) - mean_logprob(None, wrong)
    assert gain_right > 0.1
    assert gain_right > gain_wrong


def test_a_hint_alone_moves_the_worker_towards_the_hinted_teacher(tmp_path: Path) -> None:
    rollouts = make_rollouts(reward=None)
    recipe = dataclasses.replace(RECIPE, w_rl=0.0, w_opd=1.0, epochs=4)
    result, directory = train_well(make_spec(tmp_path, rollouts, recipe=recipe))
    base = load_base(str(tiny_model()))
    engine = Engine("tiny", tiny_model())
    engine.load_adapter("trained", directory)
    plain = [rollout.prompt_token_ids for rollout in rollouts]
    tokens = [rollout.token_ids for rollout in rollouts]
    hinted = [base.read_prompt(rollout.hinted_messages or []) for rollout in rollouts]
    scores = engine.score(hinted, tokens), engine.score(plain, tokens), engine.score(plain, tokens, "trained")
    agreement = sum(
        float(((teacher - before).clip(-3, 3) * (after - before)).sum())
        for teacher, before, after in zip(*scores, strict=True)
    )
    assert agreement > 0
    assert result.summary["rollouts_learned"] == len(rollouts)


def test_the_same_spec_gives_the_same_bytes_and_another_seed_others(tmp_path: Path) -> None:
    rollouts = make_rollouts()
    found = []
    for name, seed in (("one", 7), ("two", 7), ("three", 8)):
        _, directory = train_well(make_spec(tmp_path / name, rollouts, seed=seed))
        found.append((directory / "adapter_model.safetensors").read_bytes())
    assert found[0] == found[1]
    assert found[0] != found[2]


def test_a_run_continues_its_parent_with_the_optimisers_state(tmp_path: Path) -> None:
    rollouts = make_rollouts()
    recipe = dataclasses.replace(RECIPE, minibatches=1)
    first, parent = train_well(make_spec(tmp_path / "first", rollouts, recipe=recipe))
    spec = make_spec(tmp_path / "second", rollouts, recipe=recipe, parent=(first.adapter_uri, first.sha256))
    _, child = train_well(spec)
    _, whole = train_well(make_spec(tmp_path / "whole", rollouts, recipe=dataclasses.replace(recipe, epochs=2)))
    in_two, in_one = load_file(child / "adapter_model.safetensors"), load_file(whole / "adapter_model.safetensors")
    assert all(torch.allclose(in_two[name], in_one[name], atol=1e-7) for name in in_one)
    manifest = AdapterManifest.from_json(json.loads((child / "manifest.json").read_bytes()))
    assert manifest.parent_sha256 == first.sha256
    assert load_file(parent / "optimizer.safetensors").keys() == load_file(child / "optimizer.safetensors").keys()


def test_stale_and_unreadable_rollouts_are_counted_by_reason(tmp_path: Path) -> None:
    usable = make_rollouts(policy_version=9)
    stale = make_rollouts(groups=1, policy_version=3)
    long = make_rollouts(groups=1, policy_version=9, prompt_token_ids=[2] * 63)
    foreign = make_rollouts(groups=1, policy_version=9, prompt_token_ids=[400])
    replayed = make_rollouts(groups=1, policy_version=9, messages=[{"role": "user", "content": "w20"}])
    spec = make_spec(tmp_path, [*usable, *stale, *long, *foreign, *replayed], policy_version=9)
    summary = train_well(spec)[0].summary
    assert {name: value for name, value in summary.items() if name.startswith("refused")} == {
        "refused_stale": 4.0,
        "refused_longer_than_the_context": 4.0,
        "refused_unknown_token": 4.0,
        "refused_hint_does_not_replay": 4.0,
    }


def test_answers_that_were_cut_are_compared_and_do_not_teach_where_the_recipe_says_so(tmp_path: Path) -> None:
    rollouts = [
        dataclasses.replace(one, is_cut=place % 4 == 3) for place, one in enumerate(make_rollouts(hinted_messages=None))
    ]
    recipe = dataclasses.replace(RECIPE, cut_answers_teach=False)
    whole, masked = (
        train_well(make_spec(tmp_path / name, rollouts, recipe=one))[0].summary
        for name, one in (("whole", RECIPE), ("masked", recipe))
    )
    assert (whole["rollouts_learned"], whole.get("refused_cut")) == (12.0, None)
    assert (masked["rollouts_learned"], masked["refused_cut"]) == (9.0, 3.0)


def test_the_learning_rate_rises_over_the_first_updates_of_an_adapter_and_falls_over_a_run(tmp_path: Path) -> None:
    recipe = dataclasses.replace(RECIPE, minibatches=1, epochs=3, warmup_updates=4, schedule="linear")
    first = train_well(make_spec(tmp_path / "first", make_rollouts(), recipe=recipe))[0]
    rates = [metrics["learning_rate"] / recipe.learning_rate for metrics in first.metrics]
    assert rates == pytest.approx([1 / 4, 2 / 4 * 2 / 3, 3 / 4 * 1 / 3])
    second = make_spec(tmp_path / "second", make_rollouts(), recipe=recipe, parent=(first.adapter_uri, first.sha256))
    rates = [metrics["learning_rate"] / recipe.learning_rate for metrics in train_well(second)[0].metrics]
    assert rates == pytest.approx([1.0, 2 / 3, 1 / 3])


def test_a_batch_with_nothing_to_learn_says_so(tmp_path: Path) -> None:
    result = train(make_spec(tmp_path, make_rollouts(reward=1.0, steps=(), hinted_messages=None)))
    assert (result.ok, result.error_type) == (False, "NothingToLearnError")
    assert result.error_message == "none of 12 rollouts would move a weight: 12 no_advantage"
    assert (tmp_path / "out" / "result.json").exists()


def test_a_lightweight_hint_is_stored_and_makes_no_loss(tmp_path: Path) -> None:
    recipe = dataclasses.replace(RECIPE, opd_mode="lightweight")
    result, _ = train_well(make_spec(tmp_path, make_rollouts(), recipe=recipe))
    assert result.summary["rollouts_hinted"] == 0
    assert all(metric["loss_opd"] == 0 for metric in result.metrics)


def test_a_cancel_file_stops_the_run_between_updates(tmp_path: Path) -> None:
    spec = make_spec(tmp_path, make_rollouts())
    result = run(spec, lambda _: (tmp_path / "out" / "cancel").touch())
    assert (result.ok, result.error_type) == (False, "CancelledError")
    assert result.error_message == "cancelled after 1 of 2 updates"
    assert [(row["update"], row["updates"]) for row in result.metrics] == [(1, 2)], "what was measured stays"
    left = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert left == ["cancel", "checkpoint", "result.json", "spec.json"]


def test_a_second_message_for_the_same_spec_trains_nothing_again(tmp_path: Path) -> None:
    spec = make_spec(tmp_path, make_rollouts())
    first = train(spec)
    seen: list[Mapping[str, float]] = []
    assert run(spec, seen.append) == first
    assert seen == []


def test_an_output_directory_of_another_spec_is_refused(tmp_path: Path) -> None:
    rollouts = make_rollouts()
    train(make_spec(tmp_path, rollouts))
    result = train(make_spec(tmp_path, rollouts, seed=8))
    assert (result.ok, result.error_type) == (False, "ArtifactError")
    assert "wanted an empty directory" in result.error_message


@pytest.mark.parametrize(
    ("change", "error_type", "message"),
    [
        ({"rollouts_sha256": "0" * 64}, "ArtifactError", "must hash to 000"),
        ({"rollouts_uri": "s3://bucket/rollouts"}, "ArtifactError", "wanted a URI like file:///dir/name"),
        ({"rollouts_uri": "file:///no/such/rollouts.jsonl"}, "ArtifactError", "cannot read /no/such/rollouts.jsonl"),
        (
            {"base_model": "/no/such/model"},
            "BaseModelError",
            "found none at /no/such/model. A worker's base directory (base_directory) stands under the same path",
        ),
        ({"backend": "openrlhf"}, "ClusterOptionsError", "TENTALIS_RAY_URL must name the dashboard"),
        ({"backend": "wishes"}, "BackendNotInstalledError", "no backend is named 'wishes'; there are standalone"),
        ({"recipe": {"clip_low": 7}}, "RecipeError", "recipe.clip_low: wanted a number above 0 and at most 1, found 7"),
        ({"recipe": {"target_modules": ["q_projj"]}}, "BaseModelError", "no linear module named q_projj"),
        ({"parent_adapter_uri": "file:///no/adapter"}, "ParentMismatchError", "wants parent_sha256"),
        (
            {"parent_adapter_uri": "file:///no/adapter", "parent_sha256": "0" * 64},
            "ArtifactError",
            "cannot read /no/adapter/manifest.json",
        ),
        ({"output_uri": "file:///proc/no/out"}, "ArtifactError", "cannot write /proc/no/out"),
    ],
)
def test_bad_input_is_a_result_that_names_it(
    tmp_path: Path, change: dict[str, Any], error_type: str, message: str
) -> None:
    result = train(dataclasses.replace(make_spec(tmp_path, make_rollouts()), **change))
    assert (result.ok, result.error_type) == (False, error_type)
    assert message in result.error_message
    leftovers = list((tmp_path / "out").glob("*")) if (tmp_path / "out").exists() else []
    assert {path.name for path in leftovers} <= {"spec.json", "result.json"}


def test_a_broken_line_of_rollouts_is_named_by_its_number(tmp_path: Path) -> None:
    rollouts = make_rollouts()
    spec = make_spec(tmp_path, rollouts)
    lines = (tmp_path / "rollouts.jsonl").read_bytes().splitlines()
    lines[3] = b'{"schema": "tentalis.rollout/1"}'
    content = b"\n".join(lines)
    (tmp_path / "rollouts.jsonl").write_bytes(content)
    result = train(dataclasses.replace(spec, rollouts_sha256=hashlib.sha256(content).hexdigest()))
    assert (result.ok, result.error_type) == (False, "RolloutsUnreadableError")
    assert result.error_message.startswith("rollouts.jsonl line 4: RolloutRecord lacks")


def test_a_parent_of_another_shape_or_a_changed_one_is_refused(tmp_path: Path) -> None:
    rollouts = make_rollouts()
    first, directory = train_well(make_spec(tmp_path / "first", rollouts))
    parent = (first.adapter_uri, first.sha256)
    other = dataclasses.replace(RECIPE, lora_rank=2)
    result = train(make_spec(tmp_path / "rank", rollouts, recipe=other, parent=parent))
    assert result.error_type == "ParentMismatchError"
    assert result.error_message == "parent adapter: rank must be 2, found 4"
    weights = directory / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-8])
    result = train(make_spec(tmp_path / "cut", rollouts, parent=parent))
    assert (result.ok, result.error_type) == (False, "ArtifactError")
    assert "adapter_model.safetensors must hash to" in result.error_message


def test_a_loss_that_is_not_finite_publishes_nothing(tmp_path: Path) -> None:
    spec, base = make_spec(tmp_path, make_rollouts(hinted_messages=None)), load_base(str(tiny_model()))
    fresh = start_adapter(base.find_linears(RECIPE.target_modules), rank=RECIPE.lora_rank, seed=0)
    huge = LoraTensors({name: torch.full_like(tensor, 1e25) for name, tensor in fresh.weights.items()}, {})
    moments = {f"{name}.step": torch.tensor(0.0) for name in huge.weights}
    for kind in ("exp_avg", "exp_avg_sq"):
        moments |= {f"{name}.{kind}": torch.zeros_like(tensor) for name, tensor in huge.weights.items()}
    directory, sha256 = publish_adapter(
        LoraTensors(huge.weights, moments), describe_adapter(spec, RECIPE, base.sha256), parent=tmp_path / "parents"
    )
    result = train(dataclasses.replace(spec, parent_adapter_uri=directory.as_uri(), parent_sha256=sha256))
    assert (result.ok, result.error_type) == (False, "DivergedError")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["result.json", "spec.json"]


def test_a_token_that_nobody_could_have_sampled_costs_its_own_attempt_and_no_other(tmp_path: Path) -> None:
    rollouts = make_rollouts()
    broken = dataclasses.replace(rollouts[0], logprobs=[-9999.0] * len(rollouts[0].token_ids))
    result, _ = train_well(make_spec(tmp_path, [broken, *rollouts[1:]]))
    assert (result.summary["refused_impossible_log_prob"], result.summary["rollouts_learned"]) == (1, 11)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"metrics": [{"loss": 0.5}, {"loss": 0.5, "kl": float("nan")}]}, "kl of update 2 must be finite, found nan"),
        ({"summary": {"reward": float("inf")}}, "reward of the summary must be finite, found inf"),
    ],
)
def test_numbers_that_are_none_end_a_run_at_once_instead_of_silencing_it(
    tmp_path: Path, told: dict[str, Any], words: str
) -> None:
    spec = make_spec(tmp_path, [])
    good = TrainResult(run_id=spec.run_id, attempt=spec.attempt, outcome=Outcome.DONE, metrics=[{"loss": 0.5}])
    assert require_numbers(good, spec) is good
    failed = require_numbers(dataclasses.replace(good, **told), spec)
    assert (failed.ok, failed.error_type, failed.error_message) == (False, "DivergedError", words)


def test_a_run_with_a_divergence_term_reports_it(tmp_path: Path) -> None:
    recipe = dataclasses.replace(RECIPE, kl_coef=0.1, entropy_coef=0.01, epochs=2)
    result, _ = train_well(make_spec(tmp_path, make_rollouts(), recipe=recipe))
    assert result.metrics[0]["kl_base"] == pytest.approx(0.0, abs=1e-6)
    assert result.metrics[-1]["kl_base"] > 0


def test_an_entropy_bonus_keeps_the_worker_less_sure(tmp_path: Path) -> None:
    rollouts = make_rollouts()
    entropies = []
    for coefficient in (0.0, 1.0):
        recipe = dataclasses.replace(RECIPE, entropy_coef=coefficient, epochs=4)
        result, _ = train_well(make_spec(tmp_path / str(coefficient), rollouts, recipe=recipe))
        entropies.append(result.metrics[-1]["entropy"])
    assert entropies[1] > entropies[0]


def test_the_default_recipe_fits_the_trainer(tmp_path: Path) -> None:
    train_well(make_spec(tmp_path, make_rollouts(), recipe=Recipe()))


def test_what_the_engine_sampled_at_another_temperature_is_on_policy_at_the_first_update(tmp_path: Path) -> None:
    engine = Engine("tiny", tiny_model())
    rollouts: list[RolloutRecord] = []
    for one in make_rollouts(groups=2, size=1, hinted_messages=None, steps=()):
        (samples,) = engine.generate([one.prompt_token_ids], 4, temperature=0.7, max_tokens=8, seed=3)
        rollouts += [
            dataclasses.replace(
                one,
                rollout_id=len(rollouts) + place,
                token_ids=list(sample.token_ids),
                logprobs=[float(value) for value in sample.logprobs],
                sampled=[True] * len(sample.token_ids),
                reward=float(place % 2),
                temperature=0.7,
                is_cut=sample.finish_reason == "length",
            )
            for place, sample in enumerate(samples)
        ]
    recipe = dataclasses.replace(RECIPE, minibatches=1, w_opd=0.0)
    result, _ = train_well(make_spec(tmp_path / "told", rollouts, recipe=recipe))
    assert result.summary["max_ratio"] == pytest.approx(1, abs=1e-4)
    assert result.summary["rollouts_cut"] == sum(one.is_cut for one in rollouts)
    mistaken = [dataclasses.replace(one, temperature=1.0) for one in rollouts]
    assert train_well(make_spec(tmp_path / "mistaken", mistaken, recipe=recipe))[0].summary["max_ratio"] > 1.2


def test_weights_that_are_not_those_that_answered_train_nothing(tmp_path: Path) -> None:
    """As where a server runs another model than the one in the directory."""
    rollouts = [dataclasses.replace(one, logprobs=[value - 0.6 for value in one.logprobs]) for one in make_rollouts()]
    result = train(make_spec(tmp_path, rollouts))
    assert (result.ok, result.error_type) == (False, "BaseModelError")
    assert "are not those that answered: the first" in result.error_message
    assert "by 0.60 nats on average" in result.error_message
