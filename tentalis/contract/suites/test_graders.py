"""What is asked of a grader: a bad answer is worth nothing and breaks nothing, and its version says how it grades."""

from importlib.metadata import EntryPoint
from typing import Any

import pytest

from tentalis.core.grading import Grade, GradedTask, Grader, UngradedError, read_grade
from tentalis.core.scoring.protocol import AttemptContext

GROUP = "tentalis.graders"
ODD = (
    None,
    "",
    " \n",
    "\x00",
    "\ud800".encode("utf-8", "replace").decode(),
    "𝔸" * 10_000,
    "{" * 1_000,
    "nan",
    "-1e999",
)


@pytest.fixture
def grader(point: EntryPoint, thing: Any) -> Grader:
    if isinstance(thing, Grader):
        return thing
    return Grader(name=point.name, version="0", about="", grade=thing, wants_reference=False)


def grade(grader: Grader, examples: Any, answer: str | None) -> Grade:
    examples = examples or {}
    task = GradedTask(prompt="?", reference=examples.get("reference"), options=examples.get("options") or {})
    episode = AttemptContext(environment="chat", prompt="?", text=answer or "", steps=(), answer=answer)
    return grader.run(task, episode)


def test_it_has_a_version_and_says_what_it_is_for(grader: Grader) -> None:
    assert grader.version.strip()
    assert all(about.strip() for about in grader.options.values())


def test_an_option_that_it_does_not_know_is_refused(grader: Grader, examples: Any) -> None:
    with pytest.raises(ValueError, match="no_such_option"):
        grader.check_given((examples or {}).get("reference", 0), {"no_such_option": 1})


@pytest.mark.parametrize("answer", ODD)
def test_odd_answers_are_graded_or_left_and_never_right(grader: Grader, examples: Any, answer: str | None) -> None:
    if grader.wants_reference and not examples:
        pytest.skip("it wants a reference: say one in pytest_tentalis_examples")
    if answer in ((examples or {}).get("right") or ()):
        return
    try:
        found = grade(grader, examples, answer)
    except UngradedError:
        return
    assert found == read_grade(found)
    assert not found.is_correct


def test_right_answers_are_right_and_wrong_ones_wrong_each_time(grader: Grader, examples: Any) -> None:
    if not examples:
        pytest.skip("nothing is known of it: say examples in pytest_tentalis_examples")
    for _ in range(2):
        assert [one for one in examples.get("right", ()) if not grade(grader, examples, one).is_correct] == []
        assert [one for one in examples.get("wrong", ()) if grade(grader, examples, one).is_correct] == []
