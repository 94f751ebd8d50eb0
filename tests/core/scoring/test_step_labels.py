"""Labels of steps: completions, people by trust, and the split that nothing crosses."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tentalis.core.scoring.protocol import ScoringError
from tentalis.core.scoring.step_labels import Label, Said, choose_split, hard_label, mix_label


def test_one_completion_that_reaches_the_outcome_makes_a_step_good() -> None:
    assert hard_label([0.0, 0.0, 1.0, 0.0]) == 1.0
    assert hard_label([0.0, 0.49]) == 0.0
    with pytest.raises(ScoringError, match=r"found \[\]"):
        hard_label([])


def test_people_pull_a_label_towards_them_by_their_trust() -> None:
    assert mix_label(1.0, []) == Label(1.0, 1.0)
    assert mix_label(1.0, [Said(0.0, 0.25)]) == Label(0.75, 1.0)
    assert mix_label(1.0, [Said(0.0, 1.0)]) == Label(0.0, 1.0)
    # two half-trusted people who agree are right with 3/4
    assert mix_label(1.0, [Said(0.0, 0.5), Said(0.0, 0.5)]) == Label(0.25, 1.0)
    # who is trusted three times as much has three times the say: mean .25, T = 1 - .4 * .8 = .68
    label = mix_label(1.0, [Said(0.0, 0.6), Said(1.0, 0.2)])
    assert label is not None
    assert label.value == pytest.approx(0.32 * 1.0 + 0.68 * 0.25)


def test_without_completions_the_people_are_the_label_and_their_trust_its_weight() -> None:
    assert mix_label(None, [Said(1.0, 0.5)]) == Label(1.0, 0.5)
    assert mix_label(None, []) is None
    assert mix_label(None, [Said(1.0, 0.0)]) is None
    assert mix_label(0.0, [Said(1.0, 0.0)]) == Label(0.0, 1.0)


@given(st.floats(0, 1), st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), max_size=4))
def test_a_label_stays_between_what_was_said(monte_carlo: float, said: list[tuple[float, float]]) -> None:
    label = mix_label(monte_carlo, [Said(*one) for one in said])
    assert label is not None
    spoken = [monte_carlo, *(score for score, trust in said if trust > 0)]
    assert min(spoken) - 1e-9 <= label.value <= max(spoken) + 1e-9


def test_numbers_out_of_range_are_refused() -> None:
    with pytest.raises(ScoringError, match=r"1\.5"):
        mix_label(1.0, [Said(1.5, 1.0)])
    with pytest.raises(ScoringError, match="nan"):
        mix_label(float("nan"), [])


def test_a_task_is_on_one_side_for_good_and_most_of_them_train() -> None:
    counts = Counter(choose_split(f"ticket {number}", is_held_out=False) for number in range(2_000))
    assert counts["train"] == pytest.approx(1_400, abs=80)
    assert counts["calibrate"] == pytest.approx(200, abs=60)
    assert counts["test"] == pytest.approx(400, abs=70)
    assert choose_split(" ticket 7\n", is_held_out=False) == choose_split("ticket 7", is_held_out=False)
    assert all(choose_split(f"ticket {number}", is_held_out=True) == "test" for number in range(50))
