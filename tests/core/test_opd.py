import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tentalis.core.opd import choose_hint, token_opd_advantages, top_k_advantages


def test_the_gap_to_the_teacher_worked_by_hand() -> None:
    advantages = token_opd_advantages([math.log(0.6)] * 2, [math.log(0.2)] * 2, [True, False])
    assert advantages == pytest.approx([1.0986, 0.0], abs=1e-4)


@given(st.lists(st.tuples(st.floats(-50, 0), st.floats(-50, 0), st.booleans()), max_size=30))
def test_the_gap_is_clipped_keeps_its_sign_and_skips_what_was_not_sampled(
    rows: list[tuple[float, float, bool]],
) -> None:
    teacher, old, sampled = [r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows]
    for advantage, (mine, theirs, counts) in zip(token_opd_advantages(teacher, old, sampled), rows, strict=True):
        assert abs(advantage) <= 3
        assert advantage * (mine - theirs) >= 0
        assert counts or advantage == 0


def test_lengths_that_differ_are_refused() -> None:
    with pytest.raises(ValueError, match="found 1, 2 and 1"):
        token_opd_advantages([0.0], [0.0, 0.0], [True])
    with pytest.raises(ValueError, match="gap_max must be positive"):
        token_opd_advantages([0.0], [0.0], [True], gap_max=0)
    with pytest.raises(ValueError, match="found 1 and 0"):
        top_k_advantages([0.0], [])


def test_top_k_advantages_worked_by_hand() -> None:
    old, teacher = [0.4, 0.3, 0.2, 0.05], [0.05, 0.7, 0.2, 0.001]
    tokens = top_k_advantages([math.log(p) for p in old], [math.log(p) for p in teacher])
    assert [token.weight for token in tokens] == pytest.approx([p / 0.95 for p in old])
    assert [token.advantage for token in tokens] == pytest.approx([-0.42105, 0.26757, 0.0, -0.05263], abs=1e-4)


def test_the_hint_that_stays_nearest_to_the_policy_wins() -> None:
    assert choose_hint([{1, 2, 3, 4}], [[{1, 2, 9, 8}], [{1, 2, 3, 9}]]) == 1
    assert choose_hint([{1}], [[{1}], [{1}]]) == 0


def test_choosing_among_no_hints_or_uneven_ones_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one candidate"):
        choose_hint([{1}], [])
    with pytest.raises(ValueError, match="hint 0 covers 2 positions, the policy 1"):
        choose_hint([{1}], [[{1}, {2}]])
