"""One of some choices, by its letter or by its text."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import re2

from tentalis.core.grading import Grade, GradedTask, Grader, decide_grade
from tentalis.core.scoring.protocol import AttemptContext

LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_MARKS: Final = r"[*_`\"'()\[\]{}.:$]*"
_LETTER: Final = rf"{_MARKS}\s{{0,3}}(?:\\text\{{|\\boxed\{{)?\(?([A-Za-z])(?:$|[^\pL\pN])"
_TOLD: Final = re2.compile(
    rf"(?i)\b(?:answer|choice)\s*(?:is|:|=|would be|must be)\s*:?\s*(?:option|choice)?\s*{_LETTER}"
)
_NAMED: Final = re2.compile(rf"(?i)\b(?:option|choice|answer)\s+{_LETTER}")
_BOXED: Final = re2.compile(r"\\boxed\{\s*(?:\\text\{)?\s*\(?([A-Za-z])\)?\s*\}")
_ALONE: Final = re2.compile(rf"{_MARKS}([A-Z]){_MARKS}")
_BEGUN: Final = re2.compile(r"[*_(\[]*([A-Z])(?:[)\].:;]|\s[-–—:]\s)")
_MORE: Final = re2.compile(
    rf"(?i)^{_MARKS}\s*(,|/|;|\||&|\bor\b|\band\b)\s*(or\s|and\s)?\s*(?:option\s|choice\s)?{_MARKS}([A-Za-z])(?:$|[^\pL\pN])"
)
_READS_ON: Final = re2.compile(r"^(?:\s+[a-z']|['’][a-z])")


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
    folded = [" ".join(one.casefold().split()) for one in choices or ()]
    if not all(folded) or len(set(folded)) != len(folded):
        raise ValueError("choices: wanted texts that differ, none of them blank")


def find_choice(answer: str, choices: Sequence[str] | None) -> str | None:
    """The letter that an answer settles on; None where it names none, or more than one.

    The last box or "answer is X" counts; else an answer that is a letter, or begins with one that stands alone, or the
    one option it speaks of; else the text of one choice and of no other. A word is no letter: neither "I think" nor
    "the answer is a dog" names a choice, and whoever names them all has named none.
    """
    text = answer.strip()
    known = LETTERS[: len(choices) if choices else len(LETTERS)]
    for pattern in (_BOXED, _TOLD):
        told = _find_letters(pattern, text, known)
        if told:
            return None if told[-1] is None or _is_listing(told, choices) else told[-1]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    labels = {
        begun[1] for line in lines if (begun := _BEGUN.match(line) or _ALONE.fullmatch(line)) and begun[1] in known
    }
    if len(labels) == 1:
        for line in (lines[-1], lines[0]):
            begun = _ALONE.fullmatch(line) or _BEGUN.match(line)
            if begun and not _has_more(line, begun.end(1), known):
                return str(begun[1])
    named = set(_find_letters(_NAMED, text, known))
    if len(named) == 1 and not labels - named:
        return named.pop()
    if named or len(labels) > 1:
        return None
    return _find_spoken(text, known, choices or ())


def _find_letters(pattern: Any, text: str, known: str) -> list[str | None]:
    """The letters a pattern finds, in their order; None where it stands beside another one."""
    letters: list[str | None] = []
    for found in pattern.finditer(text):
        letter, behind = found[1], text[found.end(1) : found.end(1) + 40]
        if letter.upper() not in known:
            continue
        if (letter.islower() or letter in "AI") and _reads_on(behind):
            continue  # a word of a sentence
        letters.append(None if _has_more(text, found.end(1), known) else letter.upper())
    return letters


def _reads_on(behind: str) -> bool:
    """Whether what follows a letter makes it a word of a sentence: "I think", "a dog"; not "A because", "A and B"."""
    return _READS_ON.match(behind) is not None and not _because(behind)


def _because(behind: str) -> bool:
    return behind.lstrip().split(" ", 1)[0].lower() in {"because", "since", "as", "for", "which", "and", "or"}


def _has_more(text: str, end: int, known: str) -> bool:
    """Whether a letter stands beside another choice: "B or C".

    "B, I think", "B, a mammal" and, as a sentence of its own, "B; C fails" name no other; "B or a cat" does.
    """
    while (more := _MORE.match(text[end : end + 80])) is not None:
        joint, also, letter = more.groups()
        end += more.end(3)
        if letter.upper() in known:
            break
    else:
        return False
    if not _reads_on(text[end : end + 40]):
        return True
    if also or joint not in (",", ";"):
        return letter not in "Ii"
    return joint == "," and letter not in "AaIi"


def _is_listing(told: Sequence[str | None], choices: Sequence[str] | None) -> bool:
    """Whether they are all told, so that one of them is sure to be right."""
    return len(set(told)) >= max(3, len(choices) if choices else 4)


def _find_spoken(text: str, known: str, choices: Sequence[str]) -> str | None:
    folded = " ".join(text.casefold().split()).strip(" .\"'")
    texts = [" ".join(one.casefold().split()) for one in choices]
    same = [letter for letter, one in zip(known, texts, strict=False) if one.strip(" .\"'") == folded]
    if len(same) == 1:
        return same[0]
    spoken = [
        letter
        for letter, one in zip(known, texts, strict=False)
        if one and re2.search(rf"(?:^|[^\pL\pN_]){re2.escape(one)}(?:$|[^\pL\pN_])", folded)
    ]
    return spoken[0] if len(spoken) == 1 else None


def grade_choice(task: GradedTask, episode: AttemptContext) -> Grade:
    """Right where the letter it settles on is the reference."""
    found = find_choice(episode.answer or "", task.options.get("choices"))
    return decide_grade(correct=found == task.reference, chosen=found or "none")


GRADERS: Final = (
    Grader(
        name="choice",
        version="4",
        about="One of some choices, by its letter or by its text.",
        grade=grade_choice,
        options={"choices": "the texts of the choices, in order"},
        check=check_choice,
    ),
)
