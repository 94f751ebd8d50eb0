import pytest

from tentalis.core.learning.recipes import Recipe
from tentalis.core.learning.schedules import rate_share


def shares(recipe: Recipe, *, updates: int, made: int = 0) -> list[float]:
    """Of a run's updates, of an adapter that so many made before."""
    return [rate_share(recipe, number=k, updates=updates, made=made + k - 1) for k in range(1, updates + 1)]


def test_the_rate_falls_over_a_run_and_never_to_nothing() -> None:
    assert shares(Recipe(), updates=4) == [1.0] * 4
    assert shares(Recipe(schedule="linear"), updates=4) == pytest.approx([1.0, 0.75, 0.5, 0.25])
    assert shares(Recipe(schedule="cosine"), updates=4) == pytest.approx([1.0, 0.853553, 0.5, 0.146447], abs=1e-6)


def test_it_rises_over_the_first_updates_of_an_adapter_run_after_run() -> None:
    recipe = Recipe(warmup_updates=4)
    assert shares(recipe, updates=2) == pytest.approx([0.25, 0.5])
    assert shares(recipe, updates=2, made=2) == pytest.approx([0.75, 1.0])
    assert shares(recipe, updates=2, made=4) == [1.0, 1.0]
    assert shares(Recipe(warmup_updates=2, schedule="linear"), updates=2) == pytest.approx([0.5, 0.5])
