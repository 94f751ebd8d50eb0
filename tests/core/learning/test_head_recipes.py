"""A step scorer's recipe, read strictly."""

import pytest

from tentalis.core.learning.head_recipes import HeadRecipe
from tentalis.core.learning.recipes import RecipeError


def test_a_recipe_comes_back_from_json_with_the_same_hash() -> None:
    recipe = HeadRecipe(hidden=32, learning_rate=1e-2)
    again = HeadRecipe.from_json(recipe.to_json())
    assert (again, again.hash) == (recipe, recipe.hash)
    assert HeadRecipe().hash != recipe.hash


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hidden": 0}, "hidden: wanted a whole number from 1 to 4,096, found 0"),
        ({"steps": 1.5}, "steps: wanted a whole number"),
        ({"batch": True}, "batch: wanted a whole number"),
        ({"learning_rate": float("nan")}, "learning_rate: wanted a number"),
        ({"depth": 3}, "head recipe: wanted fields of hidden, .* found 'depth'"),
        ({"schema": "tentalis.recipe/1"}, "schema: wanted one of tentalis.head-recipe/1"),
    ],
)
def test_what_is_no_recipe_is_named(changes: dict[str, object], words: str) -> None:
    with pytest.raises(RecipeError, match=words):
        HeadRecipe.from_json(changes)
