"""What a model says of an answer: by a rubric, beside other answers, or whether it says what is right.

A judge that is not there, cannot be asked or is not understood leaves an answer ungraded. Nobody is asked about an
answer that is not there: that is worth nothing.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from tentalis.core.graders.asking import ask_criteria, ask_equality, ask_rubric, compare_answers
from tentalis.core.graders.reading import is_number, read_flag, read_least, read_texts
from tentalis.core.grading import Grade, GradedTask, GradeFunction, Grader, decide_grade
from tentalis.core.scoring.judging import REFERENCE_CHARS, RUBRIC_CHARS
from tentalis.core.scoring.protocol import AttemptContext

MOST_CRITERIA: Final = 32
MOST_OTHERS: Final = 8


def _find_answer(episode: AttemptContext) -> str:
    return (episode.answer or "").strip()


# --- a rubric


def check_rubric(reference: Any, options: Mapping[str, Any]) -> None:
    """Raises ValueError."""
    read_least(options)
    if isinstance(reference, str):
        _check_text("reference", reference)
        return
    if not isinstance(reference, list) or not 1 <= len(reference) <= MOST_CRITERIA:
        raise ValueError(f"reference: wanted a rubric, or 1 to {MOST_CRITERIA} criteria, found {reference!r:.120}")
    for one in reference:
        if not isinstance(one, dict) or one.keys() - {"criterion", "points", "required"}:
            raise ValueError(f"reference: wanted criterion, points and required, found {one!r:.120}")
        _check_text("criterion", one.get("criterion"))
        points = one.get("points", 1)
        if not is_number(points) or points == 0 or abs(points) > 1_000:
            raise ValueError(f"points: wanted a number other than 0, to 1,000, found {points!r:.80}")
        if read_flag(one, "required", default=False) and points < 0:
            raise ValueError("required: wanted points above 0 of what an answer must have")
    if sum(len(one["criterion"]) for one in reference) > RUBRIC_CHARS - 8 * MOST_CRITERIA:
        raise ValueError(f"reference: wanted criteria of at most {RUBRIC_CHARS - 8 * MOST_CRITERIA:,} characters")
    if not any(one.get("points", 1) > 0 for one in reference):
        raise ValueError("reference: wanted a criterion with points above 0, found none")


def grade_rubric(task: GradedTask, episode: AttemptContext) -> Grade:
    """The judge's score; or the share of all criteria's points that the answer gets, 0 where it lacks one that is
    required."""
    if not (answer := _find_answer(episode)):
        return decide_grade(correct=False, answer="none")
    least = read_least(task.options)
    if isinstance(task.reference, str):
        score = ask_rubric(task.ask_judge, prompt=task.prompt, answer=answer, rubric=task.reference)
        return Grade(value=score, correct=score >= least)
    criteria = task.reference
    met = ask_criteria(
        task.ask_judge, prompt=task.prompt, answer=answer, criteria=[one["criterion"] for one in criteria]
    )
    points = [float(one.get("points", 1)) for one in criteria]
    gained = sum(each for each, is_met in zip(points, met, strict=True) if is_met)
    share = min(1.0, max(0.0, gained / sum(each for each in points if each > 0)))
    lacks = [number for number, one in enumerate(criteria, 1) if one.get("required") and not met[number - 1]]
    value = 0.0 if lacks else share
    return Grade(
        value=value, correct=value >= least, signals={"points": gained, "met": sum(met)}, evidence={"lacks": lacks}
    )


# --- other answers


def check_pair(reference: Any, options: Mapping[str, Any]) -> None:
    """Raises ValueError."""
    _check_text("reference", reference)
    _check_comparison(options)


def check_group(reference: Any, options: Mapping[str, Any]) -> None:
    """Raises ValueError."""
    if len(read_texts(reference)) > MOST_OTHERS or not isinstance(reference, list):
        raise ValueError(f"reference: wanted 1 to {MOST_OTHERS} other answers, found {reference!r:.120}")
    _check_comparison(options)


def _check_comparison(options: Mapping[str, Any]) -> None:
    read_least(options)
    if "rubric" in options:
        _check_text("rubric", options["rubric"])


def grade_pair(task: GradedTask, episode: AttemptContext) -> Grade:
    """1 where it is better than the other answer in both orders, 0 where it is worse in both, else 0.5."""
    return _compare(task, episode, [task.reference])


def grade_group(task: GradedTask, episode: AttemptContext) -> Grade:
    """The share of the other answers that it is better than, a tie as half."""
    return _compare(task, episode, task.reference)


def _compare(task: GradedTask, episode: AttemptContext, others: list[str]) -> Grade:
    if not (answer := _find_answer(episode)):
        return decide_grade(correct=False, answer="none")
    rubric = task.options.get("rubric", "")
    compared = [
        compare_answers(task.ask_judge, prompt=task.prompt, answer=answer, other=other, rubric=rubric)
        for other in others
    ]
    value = sum(one.share for one in compared) / len(compared)
    signals = {
        "won": sum(one.share == 1 for one in compared),
        "tied": sum(one.share == 0.5 for one in compared),
        "swayed": sum(one.swayed for one in compared),
    }
    return Grade(value=value, correct=value >= read_least(task.options), signals=signals)


# --- equality


def check_equality(reference: Any, options: Mapping[str, Any]) -> None:
    """Raises ValueError."""
    _check_text("reference", reference, REFERENCE_CHARS)


def grade_equality(task: GradedTask, episode: AttemptContext) -> Grade:
    """Right where the judge says that the answer says what is right."""
    if not (answer := _find_answer(episode)):
        return decide_grade(correct=False, answer="none")
    return decide_grade(
        correct=ask_equality(task.ask_judge, prompt=task.prompt, answer=answer, reference=task.reference)
    )


def _check_text(name: str, text: Any, most: int = RUBRIC_CHARS) -> None:
    if not isinstance(text, str) or not text.strip() or len(text) > most:
        raise ValueError(f"{name}: wanted a text of at most {most:,} characters, found {text!r:.80}")


def _grader(
    name: str,
    about: str,
    grade: GradeFunction,
    check: Callable[[Any, Mapping[str, Any]], None],
    options: Mapping[str, str],
) -> Grader:
    return Grader(
        name=name, version="1", about=about, grade=grade, check=check, options=options, asks=True, is_pure=False
    )


_LEAST: Final = {"least": "the share from which on it counts as right; 1 where it is not given"}
_COMPARED: Final = {**_LEAST, "rubric": "what counts as better"}
GRADERS: Final = (
    _grader("rubric_judge", "By a rubric, or by criteria with points.", grade_rubric, check_rubric, _LEAST),
    _grader("pairwise_judge", "Beside another answer, in both orders.", grade_pair, check_pair, _COMPARED),
    _grader("group_judge", "Beside several other answers, in both orders.", grade_group, check_group, _COMPARED),
    _grader("llm_equality", "Whether it says what is right, as a judge reads it.", grade_equality, check_equality, {}),
)
