"""Graders as a kind of check: what is refused where it is written, and what is neither right nor wrong."""

import json
from pathlib import Path
from typing import Any

import pytest

from apps.accounts.models import Project
from apps.checks.graders import Graders, open_asked, open_grader
from apps.checks.language import read_check
from apps.checks.results import AskedPart, CheckError, CheckVerdict, Said
from tentalis.core.grading import Grade, GradedTask, UngradedError, read_grade
from tentalis.core.scoring.protocol import AttemptContext
from tentalis.plugins import GRADERS, REGISTRIES

CHOICE = {"check": "grader", "name": "choice", "reference": "B", "options": {"choices": ["one", "two", "three"]}}


def ask(asked: AskedPart, answer: str) -> Said:
    """A grader of the registry, asked without a project."""
    task = GradedTask(prompt="Which?", **json.loads(asked.given))
    context = AttemptContext(environment="chat", prompt="Which?", text=answer, steps=(), answer=answer)
    grade = open_grader(asked.name).run(task, context)
    return Said(grade.value, grade.cause or "graded", asked.label, {"correct": grade.is_correct})


@pytest.mark.parametrize(
    ("answer", "passes"),
    [
        ("B", True),
        ("(b) two", True),
        ("The answer is **B**.", True),
        ("The answer is B, no: the answer is C", False),
        ("two", True),
        ("It is one or two", False),
        ("I think it is C", False),
        ("", False),
    ],
)
def test_a_choice_is_right_by_its_letter_or_its_text(answer: str, passes: bool) -> None:
    found = read_check(CHOICE).run(answer, lambda asked: ask(asked, answer))
    assert found.verdict is (CheckVerdict.PASSED if passes else CheckVerdict.FAILED)
    assert found.to_json()["details"]["correct"] is passes


def test_a_sentence_that_begins_with_i_names_no_choice() -> None:
    spec: dict[str, Any] = {**CHOICE, "reference": "I", "options": {}}
    assert read_check(spec).run("I think it is C", lambda asked: ask(asked, "I think it is C")).share == 0.0


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"name": "no-such"}, "a grader, one of"),
        ({"options": {"colour": "red"}}, "options: wanted of choices, found colour"),
        ({"reference": None}, "reference: wanted what is right, found none"),
        ({"reference": "D"}, "reference: wanted a letter from A to C, found 'D'"),
        ({"options": []}, "an object"),
        ({"more": 1}, "wanted model, name, options, reference, found"),
    ],
)
def test_what_nothing_could_be_graded_by_is_refused_where_it_is_written(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(CheckError, match=words):
        read_check(CHOICE | changed)


def test_where_nobody_can_be_asked_it_is_neither_right_nor_wrong() -> None:
    assert read_check(CHOICE).run("B").verdict is CheckVerdict.UNSCORED
    with pytest.raises(UngradedError, match="no judge is set"):
        GradedTask(prompt="?").ask_judge("Is it right?")


def test_a_grader_is_named_with_its_version_and_one_that_is_gone_is_named_too() -> None:
    known, asking, gone = (AskedPart("grader", name=name) for name in ("choice", "rubric_judge", "mine"))
    names = Graders(Project(), frozenset({known, asking, gone}), {}).names
    version, judge_version = (open_grader(name).version for name in ("choice", "rubric_judge"))
    assert names == [
        f"grader choice@{version}", "grader mine, which is not installed",
        f"grader rubric_judge@{judge_version}, no model",
    ]  # fmt: skip


def test_the_guide_has_a_row_of_every_grader() -> None:
    graders = REGISTRIES[GRADERS]
    guide = Path("docs/guides/graders.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in guide.splitlines() if line.startswith("| `")]
    told = {name.strip(" `") for row in rows for name in row.split(",")}
    assert told == set(graders) - {plugin.name for plugin in graders.plugins}


JUDGED = {"check": "grader", "name": "rubric_judge", "reference": "Is it kind?"}


def test_a_grader_that_asks_a_judge_counts_as_one_and_comes_last_where_nothing_else_settles_it() -> None:
    read_check({"all": [CHOICE] * 9})
    with pytest.raises(CheckError, match="at most 4 parts that ask a scorer, a judge or a grader that asks one, found"):
        read_check({"all": [JUDGED, {"check": "judge"}] * 3})
    asked: list[str] = []

    def note(part: AskedPart) -> Said:
        asked.append(part.name)
        return Said(float(part.name == "choice"), "said", part.label)

    assert read_check({"all": [JUDGED, CHOICE]}).run("B", note).share == 0.0
    assert read_check({"any": [JUDGED, CHOICE]}).run("B", note).share == 1.0
    assert asked == ["choice", "rubric_judge", "choice"]


def test_a_reference_may_be_a_fact_of_each_task() -> None:
    spec = {"check": "grader", "name": "choice", "reference": {"fact": "key"}}
    assert read_check(spec, facts=None).facts == {"key"}
    assert open_asked(read_check(spec, facts={"key": "C"}).spec).given == open_asked({**spec, "reference": "C"}).given


def test_a_bare_function_may_say_a_number_a_truth_or_both() -> None:
    assert read_grade(True).is_correct
    assert read_grade(0.5).is_correct is False
    assert read_grade((0.9, True)) == Grade(value=0.9, correct=True)
    for said in ("yes", None, (1, 2), 1.5, float("nan")):
        with pytest.raises((TypeError, ValueError)):
            read_grade(said)
