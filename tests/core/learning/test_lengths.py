"""Whether answers kept their length, or came no further than those that they imitate."""

import pytest

from tentalis.core.contracts import ContractError
from tentalis.core.learning.lengths import LengthQuestion, Lengths


@pytest.mark.parametrize(
    ("lengths", "drift"),
    [
        (Lengths(20.0, 50.0), 1.5),
        (Lengths(20.0, 10.0), 0.5),
        (Lengths(20.0, 50.0, 50.0), 0.0),
        (Lengths(20.0, 35.0, 50.0), 0.0),
        (Lengths(20.0, 60.0, 50.0), 0.2),
        (Lengths(20.0, 10.0, 50.0), 0.5),
        (Lengths(80.0, 50.0, 40.0), 0.0),
        (Lengths(80.0, 20.0, 40.0), 0.5),
        (Lengths(0.0, 5.0), 0.0),
    ],
)
def test_what_imitates_may_come_as_far_as_what_it_imitates(lengths: Lengths, drift: float) -> None:
    assert lengths.drift == pytest.approx(drift)
    assert bool(lengths.find_fault(most_drift=0.3)) == (drift > 0.3)


def test_the_fault_names_all_three() -> None:
    assert Lengths(20.0, 75.0, 50.0).find_fault(most_drift=0.2) == (
        "answers have 75.0 tokens where they had 20.0 and those they imitate 50.0: 50% off, 20% are allowed"
    )


@pytest.mark.parametrize("shown", [0, -1.0, True, "50", float("inf"), float("nan")])
def test_a_question_with_an_impossible_length_is_refused(shown: object) -> None:
    asked = LengthQuestion(prompts=[[1]], answers=1, max_tokens=4, seed=0, most_drift=0.2, shown=12.5).to_json()
    assert LengthQuestion.from_json(asked).shown == 12.5
    assert LengthQuestion.from_json({name: asked[name] for name in asked if name != "shown"}).shown is None
    with pytest.raises(ContractError, match="shown must be tokens above 0"):
        LengthQuestion.from_json(asked | {"shown": shown})
