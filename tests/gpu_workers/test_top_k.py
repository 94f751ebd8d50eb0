"""The top-K hybrid end to end: rollouts with likeliest tokens and several hints, a teacher, an adapter."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch

from gpu_workers.backends.base_models import load_base
from gpu_workers.engine import Engine
from gpu_workers.learning.packing import PackedRow
from gpu_workers.learning.shared_prefix import share_prefixes
from gpu_workers.runner import run
from tentalis.core.contracts import RolloutRecord
from tests.gpu_workers.learning.training_factory import RECIPE, make_rollouts, make_spec, tiny_model

pytestmark = pytest.mark.torch
HYBRID = dataclasses.replace(RECIPE, opd_mode="top_k", w_rl=0.0, w_opd=1.0, epochs=4)


def predict(prompt: list[int], tokens: list[int]) -> torch.Tensor:
    """(T, V) log-probs of the tiny base."""
    base = load_base(str(tiny_model()))
    with torch.no_grad():
        states = base.read(share_prefixes([PackedRow(prompt, [tokens])]), {})
        return torch.nn.functional.linear(states, base.decoder.head).log_softmax(-1)


def make_top_rollouts(k: int = 4, **fields: Any) -> list[RolloutRecord]:
    """Rollouts that carry what the policy found likeliest, with three hints to choose from."""
    found = []
    for rollout in make_rollouts(reward=None, **fields):
        values, ids = predict(list(rollout.prompt_token_ids), list(rollout.token_ids)).topk(k, -1)
        text = rollout.messages[0]["content"]
        hints = [[{"role": "user", "content": f"{text} {hint}"}] for hint in ("w9", "w9 w20", "w25")]
        found.append(
            dataclasses.replace(
                rollout,
                hinted_messages=hints[0],
                candidate_hints=hints,
                top_token_ids=ids.tolist(),
                top_logprobs=values.tolist(),
            )
        )
    return found


def test_the_hybrid_moves_the_worker_towards_the_teacher_on_the_likeliest_tokens(tmp_path: Path) -> None:
    rollouts = make_top_rollouts()
    recipe = dataclasses.replace(HYBRID, opd_hints=1)
    result = run(make_spec(tmp_path, rollouts, recipe=recipe), lambda _: None)
    assert result.ok, result.error_message
    assert result.summary["rollouts_hinted"] == len(rollouts)
    engine, base = Engine("tiny", tiny_model()), load_base(str(tiny_model()))
    engine.load_adapter("trained", Path(result.adapter_uri.removeprefix("file://")))
    agreement = 0.0
    for rollout in rollouts:
        prompt, tokens = list(rollout.prompt_token_ids), list(rollout.token_ids)
        teacher = predict(list(base.read_prompt(rollout.candidate_hints[0])), tokens)
        for place in range(len(tokens)):
            likeliest = (rollout.top_token_ids or [])[place]
            context = [prompt + tokens[:place]] * len(likeliest)
            after = engine.score(context, [[token] for token in likeliest], "trained")
            before = (rollout.top_logprobs or [])[place]
            for token, old, new in zip(likeliest, before, after, strict=True):
                weight = torch.tensor(before).softmax(-1)[likeliest.index(token)].item()
                agreement += weight * max(-1.0, min(1.0, teacher[place, token].item() - old)) * (float(new[0]) - old)
    assert agreement > 0


def test_of_several_hints_the_one_nearest_to_the_policy_is_taken(tmp_path: Path) -> None:
    rollouts = [
        dataclasses.replace(rollout, candidate_hints=[rollout.candidate_hints[2], rollout.messages])
        for rollout in make_top_rollouts()
    ]
    result = run(make_spec(tmp_path, rollouts, recipe=HYBRID), lambda _: None)
    assert result.ok
    # the conversation without any hint overlaps wholly, and the teacher is the base that sampled: nothing is to learn
    assert result.metrics[0]["loss_opd"] == pytest.approx(0.0, abs=1e-5)


def test_a_hint_without_likeliest_tokens_or_with_too_few_is_counted_and_left_out(tmp_path: Path) -> None:
    few = make_top_rollouts(k=2, groups=1)
    none = [dataclasses.replace(rollout, top_token_ids=None, top_logprobs=None) for rollout in few]
    usable = make_top_rollouts(groups=1)
    result = run(make_spec(tmp_path, [*few, *none, *usable], recipe=HYBRID), lambda _: None)
    assert (result.summary["refused_no_top_k"], result.summary["rollouts_hinted"]) == (8, 4)


def test_dapo_drops_groups_that_agree(tmp_path: Path) -> None:
    agreeing = [dataclasses.replace(one, group_id=90, reward=1.0) for one in make_rollouts(groups=1)]
    recipe = dataclasses.replace(RECIPE, algorithm="dapo", w_rl=1.0, w_opd=0.0)
    result = run(make_spec(tmp_path, [*make_rollouts(), *agreeing], recipe=recipe), lambda _: None)
    assert (result.summary["rollouts_learned"], result.summary["refused_no_advantage"]) == (12, 4)


def test_dr_grpo_divides_by_the_length_an_answer_may_have(tmp_path: Path) -> None:
    losses = []
    for size in (10, 20):
        recipe = dataclasses.replace(
            RECIPE, algorithm="dr_grpo", w_rl=1.0, w_opd=0.0, answer_tokens=size, minibatches=1, step_mix=0.0
        )
        result = run(make_spec(tmp_path / str(size), make_rollouts(), recipe=recipe), lambda _: None)
        losses.append(result.metrics[0]["loss_rl"])
    assert losses[0] == pytest.approx(2 * losses[1])
