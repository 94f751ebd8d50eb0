import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tentalis.core.learning.recipes import RECIPES, Recipe, RecipeError


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_a_recipe_survives_the_wire_and_keeps_its_hash(name: str) -> None:
    recipe = RECIPES[name]
    again = Recipe.from_json(json.loads(json.dumps(recipe.to_json())))
    assert again == recipe
    assert again.hash == recipe.hash


def test_another_recipe_has_another_hash() -> None:
    assert len({recipe.hash for recipe in RECIPES.values()}) == len(RECIPES)


def test_the_default_is_the_recipe_measured_on_the_desk() -> None:
    recipe = Recipe.from_json({})
    assert recipe == RECIPES["desk"]
    assert (recipe.learning_rate, recipe.lora_rank, recipe.lora_alpha, recipe.minibatches) == (4e-3, 8, 16, 2)
    assert (recipe.clip_low, recipe.clip_high, recipe.std_floor, recipe.w_rl, recipe.w_opd) == (
        0.2,
        0.28,
        1e-2,
        0.7,
        0.3,
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("algorithm", "ppo2"),
        ("lora_rank", 0),
        ("lora_rank", 8.5),
        ("lora_rank", True),
        ("learning_rate", 0.0),
        ("learning_rate", "fast"),
        ("learning_rate", float("nan")),
        ("clip_low", -0.1),
        ("clip_low", 1.5),
        ("dual_clip", 0.5),
        ("max_staleness", -1),
        ("max_staleness", None),
        ("opd_mode", "loud"),
        ("target_modules", []),
        ("target_modules", "q_proj"),
        ("teacher", ""),
        ("schema", "tentalis.recipe/9"),
    ],
)
def test_a_bad_field_is_refused_by_name_with_what_was_found(field: str, value: object) -> None:
    with pytest.raises(RecipeError) as caught:
        Recipe.from_json({field: value})
    assert f"recipe.{field}: wanted" in str(caught.value)
    assert "found" in str(caught.value)


def test_an_unknown_field_is_refused_and_the_known_ones_are_told() -> None:
    with pytest.raises(RecipeError, match=r"recipe: wanted fields of algorithm, lora_rank, .* found 'learning_speed'"):
        Recipe.from_json({"learning_speed": 1})


def test_a_recipe_that_weighs_nothing_is_refused() -> None:
    with pytest.raises(RecipeError, match="nothing could be learned"):
        Recipe(w_rl=0, w_opd=0)


def test_a_hint_becomes_a_loss_only_with_log_probs_and_a_weight() -> None:
    assert Recipe().uses_teacher
    assert not Recipe(opd_mode="lightweight").uses_teacher
    assert not Recipe(w_opd=0).uses_teacher


def test_a_recipe_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Recipe().lora_rank = 4  # type: ignore[misc]


STORED = json.loads((Path(__file__).parents[2] / "golden" / "stored_recipes.json").read_text())


@pytest.mark.parametrize("name", sorted(STORED))
def test_a_recipe_stored_before_there_were_newer_fields_still_reads_and_keeps_its_hash(name: str) -> None:
    stored, digest = STORED[name]
    assert Recipe.from_json(stored).hash == digest


def test_a_newer_field_changes_the_hash_once_it_is_used() -> None:
    assert Recipe(importance_cap=2.0).hash != Recipe().hash


def test_importance_weights_want_a_clipped_loss_and_shaping_a_buffer_below_the_limit() -> None:
    with pytest.raises(RecipeError, match=r"importance_cap: wanted null for cispo.*found 2"):
        Recipe(algorithm="cispo", importance_cap=2.0)
    with pytest.raises(RecipeError, match="overlong_buffer: wanted less than answer_tokens 44, found 44"):
        Recipe(overlong_buffer=44)


def test_only_a_top_k_recipe_that_listens_wants_likeliest_tokens_stored() -> None:
    assert Recipe(opd_mode="top_k").stored_top_k == 4
    assert Recipe(opd_mode="top_k", opd_top_k=6).stored_top_k == 6
    assert Recipe(opd_mode="top_k", w_opd=0).stored_top_k == 0
    assert Recipe().stored_top_k == 0


def test_the_optimisers_reach_is_its_longest_step_times_its_updates() -> None:
    changes: dict[str, Any] = {"learning_rate": 2e-3, "minibatches": 4, "epochs": 3}
    assert Recipe(**changes, beta1=0.0, beta2=0.99).reach == pytest.approx(2e-3 * 12 * 10)
    assert Recipe(**changes, beta1=0.9, beta2=0.99).reach == pytest.approx(2e-3 * 12 * 2.3452, rel=1e-4)
    assert Recipe(**changes, beta1=0.9, beta2=0.8).reach is None


def walk(gradients: Sequence[float], recipe: Recipe) -> list[float]:
    """Adam's moves of one number, from fresh moments."""
    first = second = 0.0
    moves = []
    for step, gradient in enumerate(gradients, start=1):
        first = recipe.beta1 * first + (1 - recipe.beta1) * gradient
        second = recipe.beta2 * second + (1 - recipe.beta2) * gradient**2
        scale = math.sqrt(second / (1 - recipe.beta2**step))
        moves.append(recipe.learning_rate * first / (1 - recipe.beta1**step) / scale if scale else 0.0)
    return moves


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=30), st.sampled_from([(0.9, 0.95), (0.9, 0.99), (0.5, 0.999)]))
def test_no_step_of_the_optimiser_is_longer_than_its_reach(gradients: list[float], betas: tuple[float, float]) -> None:
    recipe = Recipe(beta1=betas[0], beta2=betas[1], minibatches=1)
    assert max(map(abs, walk(gradients, recipe))) <= (recipe.reach or 0.0) * 1.0001


@pytest.mark.parametrize("betas", [(0.9, 0.95), (0.9, 0.99)])
def test_gradients_that_grow_are_followed_as_far_as_the_reach_and_beyond_the_learning_rate(
    betas: tuple[float, float],
) -> None:
    recipe = Recipe(beta1=betas[0], beta2=betas[1], minibatches=1)
    longest = max(walk([(betas[1] / betas[0]) ** step for step in range(400)], recipe))
    assert recipe.learning_rate * 1.1 < longest <= (recipe.reach or 0.0)
    assert longest == pytest.approx(recipe.reach, rel=0.02)
