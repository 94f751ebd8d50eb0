"""What makes an adapter suspicious, each check worked by hand and quiet for an honest one."""

import math
import random
from dataclasses import replace
from typing import Any

import pytest

from tentalis.core.contracts import AdapterManifest
from tentalis.core.learning.gate import GatePolicy, compare_paired
from tentalis.core.learning.monitors import BatchFacts
from tentalis.core.learning.quarantine_checks import (
    SURE_OF_STRENGTH,
    WEAKER,
    TensorFacts,
    WeightFacts,
    may_be_better,
    suspect_leak,
    suspect_origin,
    suspect_reward,
    suspect_skills,
    suspect_strength,
    suspect_tensors,
)

MANIFEST = AdapterManifest(
    worker="desk",
    base_model="desk",
    base_sha256="b" * 64,
    parent_sha256="p" * 64,
    run_id=1,
    attempt=1,
    recipe_hash="",
    rollouts_sha256="",
    rank=8,
    alpha=16.0,
    target_modules=["q_proj"],
    files={},
    versions={},
)
A, B = "layers.0.q_proj.lora_A.weight", "layers.0.q_proj.lora_B.weight"


def make_weights(norm_a: float = 3.0, norm_b: float = 4.0, *, zeros: float = 0.0, scale: float = 2.0) -> WeightFacts:
    return WeightFacts(
        tensors={
            A: TensorFacts(shape=(8, 64), norm=norm_a, zeros=0.0, is_finite=True),
            B: TensorFacts(shape=(64, 8), norm=norm_b, zeros=zeros, is_finite=True),
        },
        scale=scale,
    )


def look_at_origin(manifest: AdapterManifest = MANIFEST, *, served: str = "p" * 64) -> list[str]:
    parent = replace(MANIFEST, parent_sha256="")
    found = suspect_origin(
        manifest,
        parent=parent,
        parent_sha256="p" * 64,
        parent_name="desk@v8",
        served_sha256=served,
        served_name="desk@v9",
    )
    return [one.words for one in found]


def test_what_continues_what_serves_is_not_suspicious() -> None:
    assert look_at_origin() == []


def test_what_continues_an_older_version_is_stale() -> None:
    assert look_at_origin(served="q" * 64) == ["stale: it continues desk@v8, and desk@v9 serves now"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"parent_sha256": "o" * 64}, "its manifest continues oooooooo, the registry says pppppppp"),
        ({"parent_sha256": ""}, "its manifest continues the base model, the registry says pppppppp"),
        ({"base_sha256": "c" * 64}, "its base hashes to cccccccc, its parent's to bbbbbbbb"),
        ({"alpha": 24.0}, "its rank and alpha are 8 and 24, its parent's 8 and 16"),
    ],
)
def test_a_manifest_that_contradicts_the_registry_is_told(changes: dict[str, object], words: str) -> None:
    (found,) = look_at_origin(replace(MANIFEST, **changes))  # type: ignore[arg-type]
    assert found.startswith(words)


def test_strength_is_the_scale_times_the_norms() -> None:
    assert make_weights().strength == pytest.approx(2.0 * 3.0 * 4.0)


def test_a_child_that_grew_as_one_run_makes_it_is_not_suspicious() -> None:
    assert suspect_tensors(make_weights(3.1, 5.0), make_weights(), modules=["q_proj"]) == ()


def test_missing_empty_and_broken_tensors_are_told() -> None:
    whole = make_weights()
    half = WeightFacts(tensors={A: whole.tensors[A]}, scale=2.0)
    (lost,) = suspect_tensors(half, whole, modules=["q_proj"])
    assert lost.is_broken
    assert lost.words == f"1 of 2 tensors are missing, the first is {B}"
    (empty,) = suspect_tensors(make_weights(zeros=0.33), whole, modules=["q_proj"])
    assert empty.words == f"33% of {B} are zero, 0% in its parent"
    (module,) = suspect_tensors(whole, None, modules=["q_proj", "v_proj"])
    assert "no tensor for v_proj" in module.words
    nan = WeightFacts(tensors={**whole.tensors, B: replace(whole.tensors[B], is_finite=False)}, scale=2.0)
    assert "NaN" in suspect_tensors(nan, whole, modules=[])[0].words


def test_a_fresh_adapter_may_have_an_empty_half() -> None:
    assert suspect_tensors(make_weights(3.0, 0.0, zeros=1.0), None, modules=["q_proj"]) == ()


def test_one_that_is_many_times_stronger_than_its_parent_is_told() -> None:
    (found,) = suspect_tensors(make_weights(3.0, 16.0), make_weights(), modules=["q_proj"])
    assert (found.check, found.is_broken) == ("strength", False)
    assert found.words.startswith("4.0 times as strong")


def test_where_the_recipe_is_known_no_number_may_have_moved_further_than_its_optimiser_goes() -> None:
    """The root mean square of B's 512 numbers goes from 4 / sqrt(512) = 0.177 to 16 / sqrt(512) = 0.707."""
    strong, weak = make_weights(3.0, 16.0), make_weights()
    assert suspect_tensors(strong, weak, modules=["q_proj"], reach=0.54) == ()
    (found,) = suspect_tensors(strong, weak, modules=["q_proj"], reach=0.5)
    assert (found.check, found.is_broken) == ("strength", False)
    assert found.words == f"the numbers of {B} grew by 0.53 in the mean, its run can move them by 0.5"


def test_a_first_adapter_grew_from_nothing() -> None:
    assert suspect_tensors(make_weights(), None, modules=["q_proj"], reach=0.18) == ()
    assert suspect_tensors(make_weights(), None, modules=["q_proj"], reach=0.1)[0].check == "strength"


def test_better_at_a_part_of_its_strength_is_over_scaled() -> None:
    whole = [1.0] * 14 + [0.0] * 26
    (found,) = suspect_strength({0.5: [1.0] * 28 + [0.0] * 12, 1.0: whole, 0.25: whole})
    assert found.words.startswith("over-scaled: at 0.5 of its strength it is +35.0 points")


def test_worse_at_a_part_of_its_strength_is_as_it_should_be() -> None:
    assert suspect_strength({0.5: [0.0] * 40, 1.0: [1.0] * 20 + [0.0] * 20}) == ()


@pytest.mark.parametrize(("trained", "weaker", "least", "most"), [(0.5, 0.5, 0, 0.045), (0.1, 0.3, 0.75, 1)])
def test_few_that_no_strength_changes_are_suspected_and_most_that_are_over_scaled(
    trained: float, weaker: float, least: float, most: float
) -> None:
    rng, rounds = random.Random(3), 800

    def draw(right: float) -> list[float]:
        return [float(rng.random() < right) for _ in range(GatePolicy().sweep_size)]

    at = {0.1: weaker, 0.25: weaker, 0.5: (trained + weaker) / 2, 1.0: trained}
    suspected = sum(bool(suspect_strength({scale: draw(right) for scale, right in at.items()})) for _ in range(rounds))
    assert least * rounds < suspected < most * rounds


@pytest.mark.thorough
@pytest.mark.parametrize("is_binary", [True, False])
def test_a_sweep_that_stops_early_suspects_no_other_and_seldom_fewer(is_binary: bool) -> None:
    rng = random.Random(11)
    stopped = suspected = missed = 0
    for _ in range(4_000):
        items, strength, gain = rng.randint(1, 60), rng.random(), rng.choice((0.0, 0.1, 0.3, 0.6))

        def draw(right: float) -> float:
            if rng.random() < right:
                return 1.0
            return 0.0 if is_binary else round(rng.random(), 4)

        whole = sorted((draw(strength) for _ in range(items)), key=lambda outcome: outcome == 1.0)
        full = {scale: [draw(min(1.0, strength + gain)) for _ in whole] for scale in WEAKER}
        shown = {}
        for scale, found in full.items():
            count = 20
            while count < items and may_be_better(found[:count], whole):
                count += 20
            shown[scale] = found[:count]
            stopped += count < items
        late, early = suspect_strength(full | {1.0: whole}), suspect_strength(shown | {1.0: whole})
        suspected += bool(late)
        missed += bool(early) != bool(late)
        assert not early or late
    assert min(stopped, suspected) > 300
    assert missed < 0.05 * suspected


def test_one_more_right_never_undoes_a_clear_win() -> None:
    rng, turned = random.Random(3), 0
    for _ in range(300):
        whole = [rng.choice((0.0, 0.5, 0.9, 0.99, round(rng.random(), 2))) for _ in range(rng.randint(1, 40))]
        found = [rng.choice((0.0, 1.0, rng.random())) for _ in range(rng.randint(0, len(whole) - 1))]
        left = len(whole) - len(found)
        kinds = ([*found, *[1.0] * right, *[0.0] * (left - right)] for right in range(left + 1))
        wins = [compare_paired(kind, whole, confidence=SURE_OF_STRENGTH).low > 0 for kind in kinds]
        assert wins == sorted(wins)
        turned += wins[-1] and not wins[0]
    assert turned > 100


def test_of_many_tasks_few_comparisons_say_how_many_must_be_right() -> None:
    class Whole(list[float]):
        compared = 0

        def __getitem__(self, place: Any) -> Any:
            self.compared += isinstance(place, slice)
            return super().__getitem__(place)

    whole = Whole([0.5] * 500)
    assert may_be_better([0.5] * 20, whole)
    assert whole.compared <= 10, "one by one it was 263"


def compare(gained: int, lost: int, same: int) -> object:
    return compare_paired([1.0] * gained + [0.0] * lost + [1.0] * same, [0.0] * gained + [1.0] * (lost + same))


def test_a_gain_on_known_tasks_alone_is_a_leak() -> None:
    kept, fresh = compare(120, 0, 180), compare(15, 15, 120)
    (found,) = suspect_leak(kept, fresh)  # type: ignore[arg-type]
    assert found.check == "leak"
    assert found.words.startswith("its gain is on known tasks alone: +40.0 points")


def test_the_same_gain_on_both_is_none() -> None:
    assert suspect_leak(compare(30, 6, 264), compare(15, 3, 132)) == ()  # type: ignore[arg-type]


def test_a_reward_that_does_not_know_right_from_wrong_is_told() -> None:
    level = compare_paired([1.0, 0.0] * 50, [1.0, 0.0] * 50)
    (found,) = suspect_reward(BatchFacts(rollouts=700, audited=700, agreement=0.48), level)
    assert found.words.startswith("its reward tells right from wrong at 0.48")
    assert suspect_reward(BatchFacts(rollouts=700, audited=700, agreement=0.97), level) == ()


def test_a_reward_that_rose_while_the_truth_fell_is_a_hack() -> None:
    worse = compare_paired([0.0] * 60 + [1.0] * 40, [1.0] * 100)
    batch = BatchFacts(rollouts=700, audited=700, reward=0.9, outcome=0.4, agreement=0.7)
    (found,) = suspect_reward(batch, worse)
    assert "it was rewarded with 0.90 for attempts that are right in 40% of cases" in found.words


def test_training_on_held_out_tasks_is_told() -> None:
    level = compare_paired([1.0], [1.0])
    (found,) = suspect_reward(BatchFacts(rollouts=8, held_out=3), level)
    assert found.check == "held_out"


def test_skills_may_not_be_lost_for_sure() -> None:
    assert suspect_skills(compare_paired([1.0] * 98 + [0.0] * 2, [1.0] * 100), margin=0.02) == ()
    (found,) = suspect_skills(compare_paired([1.0] * 85 + [0.0] * 15, [1.0] * 100), margin=0.02)
    assert found.is_broken


def test_no_strength_without_pairs() -> None:
    assert math.isclose(WeightFacts(tensors={}, scale=2.0).strength, 0.0)
