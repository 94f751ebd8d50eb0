"""What the probes find of judges that are known to be fair or not, and what they do not hold against one."""

from typing import Any

import pytest

from tentalis.core.scoring.judge_probes import (
    BAR,
    LEAST_BESIDE_PEOPLE,
    PAIRS,
    SCORES,
    ask_pair,
    describe_verdict,
    find_own_fault,
    find_probes_version,
    find_verdict,
    measure_judge,
)
from tentalis.core.scoring.probe_items import ITEMS
from tests.scripted_judges import TASTES, ScriptedJudge, answers_of

FAILS = {
    "fair": set(),
    "first": {"known", "position"},
    "second": {"known", "position"},
    "tie": {"known"},
    "inverted": {"known"},
    "longer": {"length"},
    "markdown": {"markdown"},
    "bullets": {"bullets"},
    "json": {"json"},
    "no markdown": {"markdown"},
    "no json": set(),
    "own": {"self"},
}
"""Taste -> the figures that are below the bar. A padded answer of a judge of length is longer than markdown of it."""


def measure(judge: ScriptedJudge, **beside: Any) -> dict[str, Any]:
    return {one.name: one for one in measure_judge(answers_of(judge), **beside)}


@pytest.mark.parametrize("taste", TASTES)
def test_a_judge_fails_by_what_it_cannot_resist_and_by_nothing_else(taste: str) -> None:
    figures = measure(ScriptedJudge(TASTES[taste]))
    assert {name for name, one in figures.items() if one.verdict == "below"} == FAILS[taste]
    assert find_verdict(figures.values()) == ("below" if FAILS[taste] else "above")
    words = describe_verdict(figures.values())
    assert all(f"{name}: " in words for name in FAILS[taste]), words
    assert bool(words) == bool(FAILS[taste])


def test_figures_are_as_worked_by_hand() -> None:
    figures = measure(ScriptedJudge(TASTES["first"]))
    first = figures["position"]
    assert (first.value, first.items, first.unscored) == (1.0, len(ITEMS), {})
    # n = 32 ones and two pseudo-items: centre 32/34 = .941; interval .941 +- 1.96 * .297 / sqrt(34)
    assert first.low == pytest.approx(0.842, abs=0.002)
    assert first.high == 1.0
    assert figures["known"].value == 0.5, "where the place decides twice, neither wins"
    assert [figures[name].value for name in PAIRS[1:]] == [0.0] * 5
    assert measure(ScriptedJudge())["known"].value == 1.0


def test_a_judge_of_unsure_taste_is_not_failed_by_chance_alone() -> None:
    answers = answers_of(ScriptedJudge())
    for place in range(6):  # of 32 it takes the first of both orders: + .19, which the interval does not tell from .15
        answers["known"][place] = [1.0, 1.0]
    figures = {one.name: one for one in measure_judge(answers)}
    assert figures["position"].value == pytest.approx(6 / 32)
    assert figures["position"].low is not None
    assert 6 / 32 > BAR["position"].most > figures["position"].low
    assert figures["position"].verdict == "above"


@pytest.mark.parametrize(("probe", "said", "least"), [("length", [1.0, 0.0], 11), ("known", [0.0, 1.0], 10)])
def test_so_many_pairs_fail_a_judge_and_one_less_does_not(probe: str, said: list[float], least: int) -> None:
    answers = answers_of(ScriptedJudge())
    for count in (least - 1, least):
        answers[probe][:count] = [said] * count
        (found,) = [one for one in measure_judge(answers) if one.name == probe]
        assert found.verdict == ("below" if count == least else "above")


def test_a_judge_that_drifts_fails_beside_its_first_scores_and_one_that_stays_does_not() -> None:
    first = answers_of(ScriptedJudge())
    assert measure(ScriptedJudge())["drift"].value is None, "the first time there is nothing to compare with"
    assert measure(ScriptedJudge(), first=first)["drift"].value == 0.0
    for score, moved in ((0.3, -0.25), (0.9, 0.05)):
        drift = measure(ScriptedJudge(score_right=score), first=first)["drift"]
        assert drift.value == pytest.approx(moved), "the mean of right and wrong answers, of which the right ones moved"
        assert drift.verdict == ("below" if score == 0.3 else "above")


def test_what_is_unscored_stands_with_its_cause_and_decides_nothing() -> None:
    away = [["ServerRestsError: it was silent"]] * len(ITEMS)
    figures = measure_judge({"known": away})
    assert find_verdict(figures) == "unscored"
    assert figures[0].unscored == {"ServerRestsError: it was silent": len(ITEMS)}
    answers = answers_of(ScriptedJudge())
    answers["markdown"][: len(ITEMS) // 2 + 1] = [["odd"]] * (len(ITEMS) // 2 + 1)
    assert find_verdict(measure_judge(answers)) == "unscored", "fewer than half of the items were scored"
    answers["length"] = answers_of(ScriptedJudge(TASTES["longer"]))["length"]
    assert find_verdict(measure_judge(answers)) == "below", "what is scored can fail a judge alone"


def test_own_answers_are_compared_where_they_are_right_and_a_judge_that_has_none_is_not_failed_for_it() -> None:
    figures = measure(ScriptedJudge(knows=False))
    assert (figures["self"].value, figures["self"].verdict) == (None, "unscored")
    assert figures["self"].unscored == {"its own answer is not right": len(ITEMS)}
    assert find_verdict(figures.values()) == "above"


def test_agreement_with_people_counts_from_thirty_tasks_on() -> None:
    few = [[(0.9, 1.0)]] * (LEAST_BESIDE_PEOPLE - 1)
    assert measure(ScriptedJudge(), people=few)["people"].value is None
    good = measure(ScriptedJudge(), people=[*few, [(0.1, 0.0)]] * 2)["people"]
    assert (good.value, good.verdict, good.kappa) == (1.0, "above", 1.0)
    bad = measure(ScriptedJudge(), people=[[(0.9, 0.0)], [(0.1, 1.0)]] * 20)["people"]
    assert (bad.value, bad.verdict, bad.kappa) == (0.0, "below", -1.0)


def test_the_steps_of_three_tasks_are_no_thirty_judgements() -> None:
    """A judge that is right on three tasks of four has two of these three wrong in one case of six."""
    tasks = [[(0.9, 0.0)] * 12, [(0.9, 0.0)] * 12, [(0.9, 1.0)] * 12]
    found = measure(ScriptedJudge(), people=tasks)["people"]
    assert (found.value, found.verdict, found.items) == (None, "unscored", 3)
    many = measure(ScriptedJudge(), people=[[(0.9, 1.0), (0.9, 0.0)], [(0.9, 1.0)]] * 20)["people"]
    assert (many.value, many.items) == (0.75, 40)


def test_every_item_has_right_answers_that_hold_its_key_and_a_wrong_one_that_does_not() -> None:
    assert len({item.prompt for item in ITEMS}) == len(ITEMS) >= 30
    for item in ITEMS:
        assert [find_own_fault(item, text) for text in (item.right, item.other)] == ["", ""], item
        assert find_own_fault(item, item.wrong) == "its own answer is not right", item
        assert abs(len(item.right) - len(item.wrong)) <= 15, "length does not tell right from wrong"


def test_an_own_answer_is_read_whatever_its_form() -> None:
    seconds = next(item for item in ITEMS if item.key == "9000")
    assert [find_own_fault(seconds, text) for text in ("9,000 seconds.", "It's **9000**", "9000\nas said")] == [""] * 3
    halves = next(item for item in ITEMS if item.prompt.startswith("What does 7 // 2"))
    assert find_own_fault(halves, "3.5, as it keeps the rest.") == "its own answer is not right"
    assert find_own_fault(halves, " ") == "it gave no answer of its own"


def test_all_forms_of_an_answer_say_the_same_and_each_pair_is_asked_in_both_orders() -> None:
    for item in ITEMS:
        for probe in PAIRS:
            one, other = ask_pair(probe, item, f"I say so: {item.right}")
            assert (one.first, one.second) == (other.second, other.first)
            assert one.first != one.second
            if probe not in {"known", "self"}:
                words = {word.strip('.*#{}":').casefold() for word in one.first.split()}
                assert {word.strip('.*#{}":').casefold() for word in item.right.split()} <= words, (probe, item)


def test_the_version_is_that_of_all_that_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_probes_version() == find_probes_version()
    assert SCORES not in BAR
    before = find_probes_version()
    monkeypatch.setattr("tentalis.core.scoring.judge_probes.ITEMS", ITEMS[1:])
    assert find_probes_version() != before
