"""One of some choices, by its letter or by its text."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import re2

from tentalis.core.grading import Grade, GradedTask, Grader, decide_grade
from tentalis.core.scoring.protocol import AttemptContext

LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_MARKS: Final = r"[*_`\"'()\[\]{}.:]*"
_TOLD: Final = re2.compile(rf"(?i)\b(?:answer|choice|option)\s*(?:is|:|=)?\s*:?\s*{_MARKS}([a-z])(?:$|[^a-z])")
_BOXED: Final = re2.compile(r"\\boxed\{\s*(?:\\text\{)?\s*\(?([A-Za-z])\)?\s*\}")
_ALONE: Final = re2.compile(rf"{_MARKS}([A-Z]){_MARKS}")
_BEGUN: Final = re2.compile(r"[*_(\[]*([A-Z])[)\].:]")


def check_choice(reference: Any, options: Mapping[str, Any]) -> None:
    """Raises ValueError."""
    choices = options.get("choices")
    if choices is not None and not (
        isinstance(choices, list) and 2 <= len(choices) <= len(LETTERS) and all(isinstance(one, str) for one in choices)
    ):
        raise ValueError(f"choices: wanted 2 to {len(LETTERS)} texts, found {choices!r:.200}")
    most = len(choices) if choices else len(LETTERS)
    if not isinstance(reference, str) or len(reference) != 1 or reference not in LETTERS[:most]:
        raise ValueError(f"reference: wanted a letter from A to {LETTERS[most - 1]}, found {reference!r:.80}")


def find_choice(answer: str, choices: Sequence[str] | None) -> str | None:
    """The letter that an answer settles on; None where it names none, or more than one.

    The last "answer is X" or boxed letter counts; else an answer that is a letter, or begins with one that stands
    alone; else the text of one choice and of no other. A sentence that begins with "I" names no choice I.
    """
    text = answer.strip()
    most = len(choices) if choices else len(LETTERS)
    known = LETTERS[:most]
    for found in (_BOXED.findall(text), _TOLD.findall(text)):
        if found and found[-1].upper() in known:
            return str(found[-1].upper())
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in (lines[-1:], lines[:1]):
        alone = _ALONE.fullmatch(line[0]) if line else None
        if alone and alone[1] in known:
            return str(alone[1])
    if lines and (begun := _BEGUN.match(lines[0])) and begun[1] in known:
        return str(begun[1])
    folded = " ".join(text.casefold().split()).strip(" .\"'")
    named = [known[place] for place, one in enumerate(choices or ()) if " ".join(one.casefold().split()) == folded]
    if len(named) == 1:
        return named[0]
    spoken = [
        known[place]
        for place, one in enumerate(choices or ())
        if (words := " ".join(one.casefold().split()))
        and re2.search(rf"(?:^|[^\pL\pN_]){re2.escape(words)}(?:$|[^\pL\pN_])", folded)
    ]
    return spoken[0] if len(spoken) == 1 else None


def grade_choice(task: GradedTask, episode: AttemptContext) -> Grade:
    """Right where the letter it settles on is the reference."""
    found = find_choice(episode.answer or "", task.options.get("choices"))
    return decide_grade(correct=found == task.reference, chosen=found or "none")


GRADERS: Final = (
    Grader(
        name="choice",
        version="1",
        about="One of some choices, by its letter or by its text.",
        grade=grade_choice,
        options={"choices": "the texts of the choices, in order"},
        check=check_choice,
    ),
)
