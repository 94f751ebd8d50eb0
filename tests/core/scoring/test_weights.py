"""Weight profiles and what becomes of the weight of a scorer that failed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tentalis.core.scoring.protocol import Score, ScoringError, Unscored
from tentalis.core.scoring.weights import SUPPORTING, WeightProfile, combine

PROFILES = {
    name: WeightProfile(name, weights)
    for name, weights in {
        "chat": {"prm": 0.6, "hallucination": 0.3, "effort": 0.1},
        "terminal": {"success": 0.8, "efficiency": 0.2},
        "swe": {"tests": 0.5, "prm": 0.3, "diff_size": 0.2},
        "gui": {"prm": 0.5, "action_validity": 0.3, "efficiency": 0.2},
        "desk": {"outcome": 0.5, "step_verifier": 0.5},
    }.items()
}

SCORE = st.floats(0.0, 1.0) | st.builds(Unscored, st.sampled_from(["timeout", "refused"]))


@st.composite
def profile_and_scores(draw: st.DrawFn) -> tuple[WeightProfile, dict[str, Score]]:
    profile = draw(st.sampled_from(sorted(PROFILES.items())))[1]
    return profile, {scorer: draw(SCORE) for scorer in profile.weights}


def test_a_full_set_of_scores_is_their_weighted_mean() -> None:
    combined = combine({"prm": 1.0, "hallucination": 0.5, "effort": 0.0}, PROFILES["chat"])
    assert combined.value == pytest.approx(0.75)  # .6 * 1 + .3 * .5
    assert combined.score == combined.value
    assert combined.redistributed_from == ()
    assert combined.describe_redistribution() == ""


def test_a_failed_scorers_weight_goes_to_the_others_and_says_so() -> None:
    combined = combine({"tests": 0.8, "prm": Unscored("timeout"), "diff_size": 0.1}, PROFILES["swe"])
    assert combined.value == pytest.approx(0.6)  # 5/7 * .8 + 2/7 * .1
    assert dict(combined.used_weights) == pytest.approx({"tests": 5 / 7, "diff_size": 2 / 7})
    (lost,) = combined.redistributed_from
    assert (lost.scorer, lost.reason, lost.weight) == ("prm", "timeout", 0.3)
    assert combined.to_json()["redistributed_from"] == ({"scorer": "prm", "reason": "timeout", "weight": 0.3},)
    assert combined.describe_redistribution() == "prm unscored (timeout), its 0.30 went to tests 0.71, diff_size 0.29"


def test_effort_alone_is_no_score_but_where_a_project_scores_by_it() -> None:
    combined = combine({"prm": Unscored("no judge"), "hallucination": 0.8, "effort": 0.4}, PROFILES["chat"])
    assert combined.value is None
    assert dict(combined.used_weights) == {}
    assert [lost.scorer for lost in combined.redistributed_from] == ["prm", "hallucination", "effort"]
    assert "effort unscored (nothing said whether it is right)" in combined.describe_redistribution()
    own = WeightProfile("chat", {"effort": 0.5, "hallucination": 0.5})
    assert combine({"hallucination": 0.8, "effort": 0.4}, own).value == pytest.approx(0.6)


def test_who_does_not_say_what_is_right_gains_nothing_by_distrust() -> None:
    trust = {"prm": 0.11, "hallucination": 0.11}
    right = combine({"prm": 0.9, "hallucination": 0.9, "effort": 0.3}, PROFILES["chat"], trust=trust)
    wrong = combine({"prm": 0.1, "hallucination": 0.9, "effort": 1.0}, PROFILES["chat"], trust=trust)
    assert dict(right.used_weights) == pytest.approx(PROFILES["chat"].weights)
    assert (right.value or 0.0) > (wrong.value or 0.0) + 0.3
    one_of_two = combine({"tests": 1.0, "prm": 0.0, "diff_size": 1.0}, PROFILES["swe"], trust={"prm": 0.0001})
    assert dict(one_of_two.used_weights) == pytest.approx({"tests": 0.8, "prm": 0.0, "diff_size": 0.2}, abs=1e-3)


def test_a_scorer_that_gave_nothing_is_unscored() -> None:
    combined = combine({"outcome": 0.3}, PROFILES["desk"])
    assert combined.value == 0.3
    assert combined.redistributed_from[0].reason == "the scorer gave no result"


def test_nobody_scored_means_no_value_and_every_reason() -> None:
    combined = combine({"success": Unscored("no sandbox"), "efficiency": Unscored("no steps")}, PROFILES["terminal"])
    assert combined.value is None
    assert dict(combined.used_weights) == {}
    assert combined.score == Unscored("success: no sandbox; efficiency: no steps")
    assert "had nobody to go to" in combined.describe_redistribution()


@given(profile_and_scores())
def test_the_value_lies_between_the_scores_and_weights_sum_to_one(case: tuple[WeightProfile, dict[str, Score]]) -> None:
    profile, scores = case
    combined = combine(scores, profile)
    present = [score for score in scores.values() if not isinstance(score, Unscored)]
    if all(isinstance(score, Unscored) for scorer, score in scores.items() if scorer not in SUPPORTING):
        present = []
    assert (combined.value is None) == (not present)
    if combined.value is not None:
        assert min(present) <= combined.value <= max(present)
        assert sum(combined.used_weights.values()) == pytest.approx(1.0)
    lost = sum(item.weight for item in combined.redistributed_from)
    kept = sum(profile.weights[scorer] for scorer in combined.used_weights)
    assert lost + kept == pytest.approx(1.0)


@given(profile_and_scores(), st.randoms(use_true_random=False))
def test_the_order_of_scores_does_not_matter(case: tuple[WeightProfile, dict[str, Score]], rng: Any) -> None:
    profile, scores = case
    shuffled = list(scores.items())
    rng.shuffle(shuffled)
    assert combine(dict(shuffled), profile) == combine(scores, profile)


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ({}, "found none"),
        ({"prm": 0.5, "effort": 0.4}, "found 0.9"),
        ({"prm": 1.5, "effort": -0.5}, r"wants a weight in \(0, 1\], found 1.5"),
        ({"prm": 1.0, "effort": 0.0}, r"effort wants a weight in \(0, 1\], found 0.0"),
        ({"prm": float("nan")}, "found nan"),
        ({"prm": True}, "found True"),
        ({"prm": "1"}, "found '1'"),
        ([1], "wanted an object of scorer and weight, found list"),
    ],
)
def test_a_wrong_profile_is_refused_with_what_was_wanted_and_found(weights: Any, words: str) -> None:
    with pytest.raises(ScoringError, match=words):
        WeightProfile.from_json("chat", weights)


def test_a_profile_does_not_change_with_the_mapping_it_was_made_from() -> None:
    weights = {"prm": 1.0}
    profile = WeightProfile("chat", weights)
    weights["prm"] = 0.1
    assert profile.to_json() == {"prm": 1.0}


def test_a_profile_survives_json() -> None:
    for name, profile in PROFILES.items():
        assert WeightProfile.from_json(name, profile.to_json()) == profile


def test_an_unknown_scorer_or_score_is_refused_by_name() -> None:
    with pytest.raises(ScoringError, match="found also tests"):
        combine({"tests": 1.0}, PROFILES["chat"])
    with pytest.raises(ScoringError, match=r"'prm': wanted a number in \[0, 1\] or Unscored, found 1.2"):
        combine({"prm": 1.2}, PROFILES["chat"])
