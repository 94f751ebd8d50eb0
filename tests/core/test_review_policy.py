"""Who reviews what: deterministic, explained, and refused when badly written."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tentalis.core.checked import FieldError
from tentalis.core.review_policy import ReviewPolicy, Who, decide


def reviewers(policy: ReviewPolicy, task_id: int = 1, **changes: Any) -> tuple[str, ...]:
    values: dict[str, Any] = {"environment": "chat", "spread": 0.0, "score": 0.9}
    return decide(policy, task_id=task_id, **values | changes).reviewers


@pytest.mark.parametrize(
    ("who", "expected"), [("none", ()), ("ai", ("ai",)), ("human", ("human",)), ("both", ("ai", "human"))]
)
def test_at_rate_one_the_asked_kind_reviews_every_task(who: Who, expected: tuple[str, ...]) -> None:
    assert reviewers(ReviewPolicy(who=who)) == expected


@pytest.mark.parametrize(("who", "second"), [("ai", "ai"), ("human", "human"), ("both", "human")])
def test_a_double_review_adds_one_of_the_scarcest_kind(who: Who, second: str) -> None:
    policy = ReviewPolicy(who=who, double_review_rate=1.0)
    assert reviewers(policy) == (*reviewers(ReviewPolicy(who=who)), second)
    assert "second opinion" in decide(policy, task_id=1, environment="chat", spread=None, score=None).reason


def test_an_environment_the_policy_leaves_out_is_not_reviewed() -> None:
    policy = ReviewPolicy(environments=("desk", "swe"), uncertain_margin=0.5)
    assert reviewers(policy, environment="desk") == ("human",)
    decision = decide(policy, task_id=1, environment="chat", spread=1.0, score=0.5)
    assert decision.reviewers == ()
    assert decision.reason == "the policy does not review chat"


@pytest.mark.parametrize(
    ("spread", "score", "reason"),
    [
        (0.3, 0.9, "uncertain: votes 0.30 apart, the policy asks from 0.30"),
        (0.0, 0.6, "uncertain: score 0.60 lies within 0.10 of 0.50"),
        (None, 0.45, "uncertain: score 0.45 lies within 0.10 of 0.50"),
        (None, None, "uncertain: nobody could score it"),
    ],
)
def test_an_uncertain_task_is_reviewed_though_it_was_not_drawn(
    spread: float | None, score: float | None, reason: str
) -> None:
    policy = ReviewPolicy(rate=0.0, uncertain_spread=0.3, uncertain_margin=0.1 + 1e-9)
    decision = decide(policy, task_id=1, environment="chat", spread=spread, score=score)
    assert (decision.reviewers, decision.reason) == (("human",), reason)


def test_a_certain_task_that_was_not_drawn_is_not_reviewed_and_says_so() -> None:
    policy = ReviewPolicy(rate=0.0, uncertain_spread=0.3, uncertain_margin=0.1)
    decision = decide(policy, task_id=1, environment="chat", spread=0.2, score=0.9)
    assert (decision.reviewers, decision.reason) == ((), "not sampled for review (0 %), and not uncertain")


def test_a_policy_that_never_looks_for_uncertainty_finds_none() -> None:
    policy = ReviewPolicy(rate=0.0)
    assert reviewers(policy, spread=1.0, score=0.5) == ()
    assert reviewers(policy, spread=None, score=None) == ()


def test_the_draw_takes_about_its_share_and_always_the_same_tasks() -> None:
    policy = ReviewPolicy(rate=0.2)
    drawn = [task_id for task_id in range(5_000) if reviewers(policy, task_id)]
    assert 850 < len(drawn) < 1_150  # 1,000 +- 5 standard deviations
    assert drawn[:50] == [task_id for task_id in range(drawn[49] + 1) if reviewers(policy, task_id)]


def test_the_two_draws_do_not_depend_on_each_other() -> None:
    policy = ReviewPolicy(rate=0.3, double_review_rate=0.3)
    counts = [len(reviewers(policy, task_id)) for task_id in range(5_000)]
    assert 370 < counts.count(2) < 530  # .3 * .3 * 5,000 = 450


@given(st.integers(), st.floats(0, 1), st.floats(0, 1))
def test_raising_the_rate_keeps_every_task_drawn_before(task_id: int, one: float, other: float) -> None:
    low, high = sorted([one, other])
    assert len(reviewers(ReviewPolicy(rate=low), task_id)) <= len(reviewers(ReviewPolicy(rate=high), task_id))


@given(st.integers() | st.text())
def test_rate_one_draws_all_and_rate_zero_none(task_id: Any) -> None:
    assert reviewers(ReviewPolicy(rate=1.0), task_id)
    assert not reviewers(ReviewPolicy(rate=0.0), task_id)


def test_a_policy_survives_json_and_fields_left_out_have_their_defaults() -> None:
    policy = ReviewPolicy(
        who="both",
        rate=0.25,
        uncertain_spread=0.3,
        environments=("desk",),
        double_review_rate=0.1,
        ai_manager="rule-book",
    )
    assert ReviewPolicy.from_json(policy.to_json()) == policy
    assert policy.to_json()["environments"] == ["desk"]
    assert ReviewPolicy.from_json({"rate": 0.5}) == ReviewPolicy(rate=0.5)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"who": "cat"}, "who: wanted one of none, ai, human, both, found 'cat'"),
        ({"who": ["ai"]}, "who: wanted one of"),
        ({"rate": 1.1}, "rate: wanted a number from 0 to 1, found 1.1"),
        ({"rate": "1"}, "rate: wanted a number from 0 to 1, found '1'"),
        ({"rate": True}, "rate: wanted a number"),
        ({"rate": float("nan")}, "rate: wanted a number"),
        ({"rate": None}, "rate: wanted a number"),
        ({"double_review_rate": -0.1}, "double_review_rate: wanted a number"),
        ({"uncertain_spread": 0}, "uncertain_spread: wanted a number above 0"),
        ({"uncertain_spread": 2}, "uncertain_spread: wanted a number above 0 and at most 1, or null, found 2"),
        ({"uncertain_margin": 0.6}, "uncertain_margin: wanted a number from 0 to 0.5, or null, found 0.6"),
        ({"environments": "chat"}, "environments: wanted a list"),
        ({"environments": [""]}, "environments: wanted a list of at most 100 different"),
        ({"environments": [["chat"]]}, "environments: wanted a list"),
        ({"environments": ["chat", "chat"]}, "environments: wanted a list of at most 100 different"),
        ({"patience_s": 0}, "patience_s: wanted a whole number from 1 to 31,536,000, found 0"),
        ({"patience_s": 1.5}, "patience_s: wanted a whole number.*found 1.5"),
        ({"patience_s": True}, "patience_s: wanted a whole number"),
        ({"on_timeout": "wait"}, "on_timeout: wanted one of learn_without, fail, ai, found 'wait'"),
        ({"who": "ai", "on_timeout": "ai"}, "on_timeout: wanted learn_without or fail when who is 'ai'"),
        ({"ai_manager": 3}, "ai_manager: wanted a text of at most 32 characters, found 3"),
        ({"model": "x" * 201}, "model: wanted a text of at most 200 characters"),
        ({"colour": 1}, "review policy: wanted fields of who, .* found 'colour'"),
        ([], "review policy: wanted an object"),
        (None, "review policy: wanted an object, found None"),
    ],
)
def test_a_wrong_field_is_refused_with_its_name_what_was_wanted_and_found(data: Any, words: str) -> None:
    with pytest.raises(FieldError, match=words) as caught:
        ReviewPolicy.from_json(data)
    assert str(caught.value).startswith(caught.value.field)


def test_a_decision_about_an_impossible_score_is_refused() -> None:
    with pytest.raises(FieldError, match="score: wanted a number from 0 to 1, or null, found nan"):
        decide(ReviewPolicy(), task_id=1, environment="chat", spread=None, score=float("nan"))


def test_where_both_review_a_person_takes_a_share_and_what_is_uncertain_and_the_first() -> None:
    policy = ReviewPolicy(who="both", human_rate=0.05, uncertain_margin=0.1)
    asked = [task_id for task_id in range(5_000) if "human" in reviewers(policy, task_id)]
    assert 160 < len(asked) < 340  # 250 +- 6 standard deviations
    spared = next(task_id for task_id in range(5_000) if task_id not in asked)
    assert reviewers(policy, spared) == ("ai",)
    assert reviewers(policy, spared, score=0.5) == ("ai", "human")
    assert reviewers(policy, spared, is_first=True) == ("ai", "human")
    assert reviewers(ReviewPolicy(who="ai", human_rate=0.05), spared, is_first=True) == ("ai",)


def test_the_reason_is_the_same_whether_a_person_was_drawn_or_not() -> None:
    policy = ReviewPolicy(who="both", human_rate=0.5)
    reasons = {
        decide(policy, task_id=task_id, environment="chat", spread=None, score=0.9).reason for task_id in range(50)
    }
    assert reasons == {"sampled for review (100 %); a person reviews 50 % of these"}


def test_a_second_reviewer_is_a_person_or_nobody_where_both_review() -> None:
    policy = ReviewPolicy(who="both", human_rate=0.3, double_review_rate=1.0)
    assert {reviewers(policy, task_id) for task_id in range(50)} == {("ai",), ("ai", "human", "human")}
