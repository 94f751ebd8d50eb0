"""What a person's next words tell of the answer before them, by rules; what rules cannot tell is left unsaid."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from tentalis.core.conversations import english
from tentalis.core.conversations.turns import Began

SAME_FROM: Final = 0.8
"""Words two requests share, of those either has, from which on they ask the same."""
_FEWEST_WORDS: Final = 3
_MOST_PRAISE_WORDS: Final = 25
_MOST_ANSWER_CHARS: Final = 2_000
_WORD: Final = re.compile(r"[\w']+")
_NUMBER: Final = re.compile(r"\d+(?:[.,]\d+)*")
_SENTENCE: Final = re.compile(r"(?<=[.!?;\n])\s+")
_QUOTES: Final = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"'})


class SignalKind(StrEnum):
    """What was shown, and by what."""

    THANKED = "thanked"
    ACCEPTED = "accepted"
    CORRECTED = "corrected"
    TOLD = "told"  # the person gave the right answer
    ASKED_AGAIN = "asked_again"
    GAVE_UP = "gave_up"
    TOOL_FAILED = "tool_failed"
    JUDGED = "judged"


TRUST: Final[Mapping[SignalKind, float]] = {
    SignalKind.THANKED: 0.6,
    SignalKind.ACCEPTED: 0.6,
    SignalKind.CORRECTED: 0.7,
    SignalKind.TOLD: 0.8,
    SignalKind.ASKED_AGAIN: 0.5,
    SignalKind.GAVE_UP: 0.4,
    SignalKind.TOOL_FAILED: 0.5,
    SignalKind.JUDGED: 0.5,
}
"""How far each is trusted before it was ever held against an explicit word or a verified outcome."""


MACHINES: Final = frozenset({SignalKind.ASKED_AGAIN, SignalKind.TOOL_FAILED})
"""What a program does as well as a person, so that it teaches nothing by itself."""


@dataclass(frozen=True, kw_only=True)
class Signal:
    """What somebody's behaviour says of a turn.

    Args:
        score: in [0, 1], of the whole turn, or of the step at `step`.
        trust: in (0, 1].
        reason: in our words, without the person's.
        answer: the right answer, where the person gave it.
        step: place of the agent's step it is about, from 0; None: the whole turn.
    """

    kind: SignalKind
    score: float
    trust: float
    reason: str
    answer: str = ""
    step: int | None = None


@dataclass(frozen=True)
class Abstained:
    """Nothing is said, for `reason`; `may_ask`: a judge may know more."""

    reason: str
    may_ask: bool


def read_reaction(*, asked: str, reaction: str, began: Began | None) -> Signal | Abstained:
    """What a person's next words say of the answer to `asked`.

    Args:
        reaction: everything the person said next; "" where nothing came.
        began: how the next turn began; None where none did.
    """
    if began is None or not reaction.strip():
        return Abstained("nobody said anything after it", may_ask=False)
    if began == Began.AGAIN:
        return _signal(SignalKind.ASKED_AGAIN, 0.0, "the very same request was sent again")
    if asks_same(asked, reaction):
        return _signal(SignalKind.ASKED_AGAIN, 0.0, "the person asked the same again")
    if began == Began.REWRITTEN:
        return Abstained("the person rewrote the request into another", may_ask=False)
    return _read_words(reaction)


def _read_words(reaction: str) -> Signal | Abstained:
    text = reaction.translate(_QUOTES).strip()
    sentences = _SENTENCE.split(_drop(text.lower(), english.HARMLESS))
    said = [sentence for sentence in sentences if not sentence.rstrip().endswith("?")]
    statements = " ".join(said)
    denies = bool(said) and said[0] is sentences[0] and _begins(said[0], english.DENIES)
    corrects = _holds(statements, english.CORRECTS)
    praises = bool(_short(statements)) and any(map(_approves, said))
    thanks = _holds(_short(statements), english.THANKS)
    if _holds(statements, english.GIVES_UP):
        return _signal(SignalKind.GAVE_UP, 0.0, "the person gave up")
    if denies or corrects:
        if (praises or thanks) and not denies:
            return Abstained("praise and correction in one", may_ask=True)
        if answer := find_told_answer(text):
            return _signal(SignalKind.TOLD, 0.0, "the person gave the right answer", answer=answer)
        return _signal(SignalKind.CORRECTED, 0.0, "the person corrected it")
    if (praises or thanks) and _holds(statements, english.TURNS):
        return Abstained("praise with a reservation", may_ask=True)
    if praises:
        return _signal(SignalKind.ACCEPTED, 1.0, "the person approved of it")
    if thanks:
        return _signal(SignalKind.THANKED, 1.0, "the person said thanks")
    return Abstained("no rule knows these words", may_ask=True)


def _approves(sentence: str) -> bool:
    return _begins(sentence, english.ACCEPTS) and not _begins(sentence, english.NO_PRAISE)


def asks_same(question: str, other: str) -> bool:
    """Whether two requests ask the same: the same numbers, and nearly the same words."""
    first, second = (_WORD.findall(text.translate(_QUOTES).lower()) for text in (question, other))
    if first == second:
        return bool(first)
    if min(len(first), len(second)) < _FEWEST_WORDS or _NUMBER.findall(question) != _NUMBER.findall(other):
        return False
    mine, others = Counter(first), Counter(second)
    return (mine & others).total() >= SAME_FROM * (mine | others).total()


def find_told_answer(text: str) -> str:
    """The right answer in words like "it should be 42 EUR, not 40"; "" where none is given."""
    for phrase in english.TELLS:
        if found := re.search(rf"(?<!\w){re.escape(phrase)}\s{{0,9}}:?\s{{0,9}}", text, re.IGNORECASE):
            rest = re.split(r",?\s{1,9}(?:not|instead of|rather than)\s|[\n;]|[.!](?:\s|$)", text[found.end() :])[0]
            return rest.strip(" .,!\"'`")[:_MOST_ANSWER_CHARS]
    return ""


def find_tool_errors(results: Sequence[Sequence[str]]) -> list[Signal]:
    """A signal for each step of which a tool answered with an error.

    Args:
        results: one entry a step: what each of its tools answered.
    """
    return [
        _signal(SignalKind.TOOL_FAILED, 0.0, "the tool answered with an error", step=place)
        for place, told in enumerate(results)
        if any(map(is_tool_error, told))
    ]


def is_tool_error(result: str) -> bool:
    """Whether a tool's result is an error: it says so in JSON, or begins like one."""
    text = result.strip()
    if text.startswith("{"):
        try:
            data: Any = json.loads(text)
        except (ValueError, RecursionError):
            return False
        if isinstance(data, dict):
            code = data.get("exit_code", data.get("exitCode", 0))
            return bool(data.get("error") or data.get("is_error") or data.get("isError") or code not in (0, None))
    return text.lower().startswith(english.TOOL_ERRORS)


def _signal(kind: SignalKind, score: float, reason: str, *, answer: str = "", step: int | None = None) -> Signal:
    return Signal(kind=kind, score=score, trust=TRUST[kind], reason=reason, answer=answer, step=step)


def _short(text: str) -> str:
    """Praise counts in a short message; in a long one the words may be about anything."""
    return text if len(_WORD.findall(text)) <= _MOST_PRAISE_WORDS else ""


def _pattern(phrases: Sequence[str]) -> str:
    return "|".join(re.escape(phrase) for phrase in sorted(phrases, key=len, reverse=True))


def _holds(text: str, phrases: Sequence[str]) -> bool:
    return re.search(rf"(?<![\w'])(?:{_pattern(phrases)})(?![\w'])", text) is not None


def _begins(text: str, phrases: Sequence[str]) -> bool:
    return re.match(rf"\W*(?:(?:{_pattern(english.AGREES)})\W+)*(?:{_pattern(phrases)})(?![\w'])", text) is not None


def _drop(text: str, phrases: Sequence[str]) -> str:
    return re.sub(rf"(?<![\w'])(?:{_pattern(phrases)})(?![\w'])", " ", text).strip()
