"""Mathematical answers: numbers, expressions, sets, intervals, equations and matrices, whatever their form."""

from collections.abc import Mapping
from typing import Any, Final

import re2

from tentalis.core.graders.reading import is_number, read_count, read_flag, read_texts
from tentalis.core.grading import Grade, GradedTask, Grader, UngradedError, decide_grade
from tentalis.core.scoring.protocol import AttemptContext
from tentalis.math_answers import MathError, MathVerifier

MOST_REFERENCE: Final = 1_000
MOST_ANSWER: Final = 20_000
"""Characters at an answer's end that are read: what it settles on stands there."""
MOST_BARE: Final = 300
_VERIFIER: Final = MathVerifier()
_PLAIN: Final = re2.compile(r"[-+]?(?:\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)(?:\s?%|/\d+)?")
_MARKED: Final = re2.compile(r"\$|\\\(|\\\[|\\boxed|\\begin")
_DIGITS: Final = re2.compile(r"\d{200}")


def check_math(reference: Any, options: Mapping[str, Any]) -> None:
    """Raises ValueError."""
    for text in _list_references(reference):
        if len(text) > MOST_REFERENCE or not re2.search(r"[\pL\pN]|\\infty|\\emptyset|\\varnothing", text):
            raise ValueError(f"reference: wanted mathematics of 1 to {MOST_REFERENCE:,} characters, found {text!r:.80}")
        if text.count("{") != text.count("}") or text.replace("\\$", "").count("$") % 2:
            raise ValueError(f"reference: wanted braces and $ in pairs, found {text!r:.80}")
        if _DIGITS.search(text):
            raise ValueError("reference: wanted numbers of fewer than 200 digits")
    read_count(options, "digits", 6, least=0, most=15)
    read_flag(options, "strict", default=True)


def grade_math(task: GradedTask, episode: AttemptContext) -> Grade:
    """Right where math-verify finds what the answer settles on the same as the reference."""
    answer = (episode.answer or "").strip()
    if not answer:
        return decide_grade(correct=False, read="nothing")
    digits = read_count(task.options, "digits", 6, least=0, most=15)
    strict = read_flag(task.options, "strict", default=True)
    found: dict[str, Any] = {}
    for reference in _list_references(task.reference):
        try:
            found = _VERIFIER.compare(
                reference=mark_reference(reference), answer=mark_answer(answer), digits=digits, strict=strict
            )
        except MathError as error:
            raise UngradedError(str(error)) from None
        if found["result"] == "right":
            break
    return decide_grade(correct=found["result"] == "right", read=found["read"])


def mark_reference(text: str) -> str:
    """Within $, where the library would not see that it is LaTeX."""
    text = text.strip()
    return text if _PLAIN.fullmatch(text) or _MARKED.search(text) else f"${text}$"


def mark_answer(text: str) -> str:
    """The end of a long answer; within $ where it is one line of LaTeX that says nowhere that it is."""
    text = text[-MOST_ANSWER:]
    is_bare = "\\" in text and "\n" not in text and len(text) <= MOST_BARE and not _MARKED.search(text)
    return f"${text}$" if is_bare else text


def _list_references(reference: Any) -> list[str]:
    if is_number(reference):
        return [str(reference)]
    return read_texts(reference)


GRADERS: Final = (
    Grader(
        name="math",
        version="1",
        about="Mathematics, by math-verify: in a box, within $ or plain.",
        grade=grade_math,
        check=check_math,
        options={
            "digits": "behind the point, that decimal numbers must agree in; 6",
            "strict": "whether names of variables count, and a set is no inequality; they do where this is not given",
        },
        is_pure=False,
    ),
)
