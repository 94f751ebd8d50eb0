"""What an order of the attempts, and none being good, are worth."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.accounts.models import Project, User
from apps.base.errors import BadInputError
from apps.feedback.judgement import StepRating
from apps.feedback.models import Feedback
from apps.feedback.selectors import effective_judgement
from apps.feedback.submit import give_feedback, give_task_feedback
from apps.tasks.models import Attempt, Task
from tests.apps.feedback.builders import make_chat_task, make_open_review, save_scores

ANSWERS = ("one", "two", "three", "four")


def rewards(task: Task) -> list[float | None]:
    found = effective_judgement(task)
    return [found[attempt.pk].reward for attempt in task.attempts.order_by("index")]


@pytest.mark.parametrize(
    ("said", "scores", "wanted"),
    [
        ({"ranking": [[1], [0, 2]]}, None, [0.0, 1.0, 0.0]),
        ({"preferred_attempt": 1}, None, [0.0, 1.0, 0.0]),
        ({"ranking": [[2], [1], [0]]}, None, [0.0, 0.5, 1.0]),
        # bases 0.2, 0.8, 0.6 are dealt out as 0.8, 0.6, 0.2 in the order of the ranking
        ({"ranking": [[2], [1], [0]]}, [0.2, 0.8, 0.6], [0.1, 0.55, 0.9]),
        ({"ranking": [[0], [1, 2]]}, [0.2, 0.8, 0.6], [0.9, 0.2, 0.2]),
        ({"ranking": [[0, 1, 2]]}, [0.2, 0.8, 0.5], [0.5, 0.5, 0.5]),
        ({"ranking": [[0, 1, 2]]}, None, [None, None, None]),
        ({"ranking": [[2], [1], [0]], "none_good": True}, None, [0.0, 0.25, 0.5]),
        ({"none_good": True}, None, [0.0, 0.0, 0.0]),
        ({"none_good": True}, [0.4, 0.8, 0.2], [0.25, 0.5, 0.125]),
        ({"none_good": True}, [0.4, 0.1, 0.2], [0.4, 0.1, 0.2]),
    ],
)
def test_orders_by_hand(
    project: Project, bob: User, said: dict[str, Any], scores: list[float] | None, wanted: list[float | None]
) -> None:
    task = make_chat_task(project, ANSWERS[:3])
    if scores:
        save_scores(task, "prm", scores)
    give_task_feedback(task=task, by=bob, **said)
    assert rewards(task) == (wanted if None in wanted else pytest.approx(wanted))


@st.composite
def orders(draw: st.DrawFn) -> list[list[int]]:
    shuffled = draw(st.permutations(range(4)))
    cuts = sorted(draw(st.sets(st.integers(1, 3))))
    return [shuffled[start:end] for start, end in zip([0, *cuts], [*cuts, 4], strict=True)]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(orders(), st.none() | st.lists(st.floats(0, 1), min_size=4, max_size=4), st.booleans())
def test_any_order_is_kept_equals_are_equal_and_the_best_leads(
    project: Project, bob: User, order: list[list[int]], scores: list[float] | None, none_good: bool
) -> None:
    Feedback.objects.all().delete()
    task = Task.objects.first() or make_chat_task(project, ANSWERS)
    Attempt.objects.update(score=None)
    for index, score in enumerate(scores or ()):
        Attempt.objects.filter(index=index).update(score=score)
    give_task_feedback(task=task, by=bob, ranking=order, none_good=none_good)
    found = rewards(task)
    if len(order) == 1 and scores is None and not none_good:
        assert found == [None] * 4
        return
    groups = [[found[index] for index in group] for group in order]
    assert all(len(set(group)) == 1 for group in groups)
    values = [group[0] for group in groups if group[0] is not None]
    assert len(values) == len(order)
    assert all(0 <= value <= 1 for value in values)
    lead = 1 / (2 * (len(order) - 1)) if len(order) > 1 else 0.0
    if none_good:  # all are scaled down by one factor, by half at most
        lead /= 2
        assert values[0] <= 0.5
    assert all(left - right >= lead - 1e-9 for left, right in pairwise(values))


@pytest.mark.parametrize(
    ("said", "field", "message"),
    [
        ({"ranking": [[0]]}, "ranking", r"each attempt with an answer once \(0, 1\), found 0"),
        ({"ranking": [[0], [1], [0]]}, "ranking", "once"),
        ({"ranking": [[0, 1], []]}, "ranking", "once"),
        ({"ranking": [[0], [1]], "preferred_attempt": 1}, "ranking", "the preferred attempt ranked first"),
        ({"hint_text": "x" * 601}, "hint_text", "at most 600"),
        ({"text": "x", "active_s": -1}, "active_s", "0 to 86,400 seconds"),
        ({"text": "x", "shown_order": [0, 0]}, "shown_order", "each once"),
        ({"steps": [StepRating(attempt_index=0, spans=[[0, 1, "x"]])]}, "steps.0", "on a step only"),
        (
            {"steps": [StepRating(attempt_index=0, step_index=0, spans=[[0, 6, "x"]])]},
            "steps.0",
            "5 characters, found 0-6",
        ),
        ({"steps": [StepRating(attempt_index=0, step_index=0, spans=[[2, 2, "x"]])]}, "steps.0", "found 2-2"),
        ({"steps": [StepRating(attempt_index=0, step_index=0, spans=[[0, "1", "x"]])]}, "steps.0", "start, end, label"),
    ],
)
def test_an_order_or_mark_that_cannot_be_is_refused_by_name(
    project: Project, bob: User, said: dict[str, Any], field: str, message: str
) -> None:
    with pytest.raises(BadInputError, match=message) as caught:
        give_feedback(review=make_open_review(project), by=bob, **said)
    assert set(caught.value.errors) == {field}


def test_all_that_was_said_is_stored(project: Project, bob: User) -> None:
    feedback = give_feedback(
        review=make_open_review(project),
        by=bob,
        ranking=[[1], [0]],
        none_good=True,
        hint_text="Say please.",
        shown_order=[1, 0],
        active_s=12.5,
        steps=[StepRating(attempt_index=0, step_index=0, spans=[[0, 5, "rude"]])],
    )
    stored = Feedback.objects.get(pk=feedback.pk)
    assert (stored.ranking, stored.none_good, stored.hint_text) == ([[1], [0]], True, "Say please.")
    assert (stored.shown_order, stored.active_s) == ([1, 0], 12.5)
    assert stored.steps.get().spans == [[0, 5, "rude"]]
