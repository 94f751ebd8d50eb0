"""Does a step claim what nothing it was given says: numbers, names and quotations that occur in no source.

Rules only. A claim is supported where a source holds it, or where it is computed from what sources hold; it is
unsupported where the task gives sources and none does. Without any source beside the prompt nobody can tell what is
made up from what is common knowledge: then the rules abstain.
"""

import json
import math
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Literal

from tentalis.core.scoring.protocol import AttemptContext, Score, StepScored, Unscored

Kind = Literal["number", "name", "quotation"]
MAX_TEXT = 100_000
"""Characters of a text that are read; what is behind them is no claim and supports none."""
MAX_KNOWN = 300
"""Source numbers tried as operands of a computed one."""
OPERANDS = 40
"""Among at most so many source numbers a computed one is held for supported."""
_COUNTS_UP_TO = 12
"""Small whole numbers count things more often than they tell of them: they are no claims."""
# fmt: off
_NO_NAMES = frozenset({
    "i", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday", "january", "february", "march",
    "april", "may", "june", "july", "august", "september", "october", "november", "december", "ok", "eur", "usd", "gbp",
})
# fmt: on

_NUMBER = re.compile(r"(?<![\w.,])[-+]?(?:\d{1,3}(?:,\d{3})+|\d{1,15})(?:\.\d{1,10})?(?![\w]|[.,]\d)%?")
_QUOTATION = re.compile(r'"([^"\n]{3,300})"|“([^”\n]{3,300})”|«([^»\n]{3,300})»')
_NAME = re.compile(r"\b[A-Z][a-z]+(?:['-][A-Za-z]+)?(?: [A-Z][a-z]+(?:['-][A-Za-z]+)?){0,4}\b")
_SENTENCE_END = re.compile(r"(?:^|[.!?:\n>]|\b(?:Answer|Step|Note))[\s\"“'*_(-]{0,40}$")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Claim:
    """One thing a step says that could be looked up.

    Args:
        start, end: characters [start, end) of the step's text.
        is_supported: None: the rules cannot tell.
    """

    start: int
    end: int
    kind: Kind
    text: str
    is_supported: bool | None


@dataclass(frozen=True)
class CheckedStep:
    """A step's claims, in the order of its text."""

    claims: tuple[Claim, ...]

    @property
    def unsupported(self) -> tuple[Claim, ...]:
        return tuple(claim for claim in self.claims if claim.is_supported is False)

    @property
    def score(self) -> Score:
        """The share of its claims that are supported, in [0, 1]; Unscored where none can be told."""
        return _share(self.claims)

    @property
    def spans(self) -> list[list[Any]]:
        """[[start, end, words], …] of what no source holds."""
        return [[claim.start, claim.end, f"{claim.kind} in no source"] for claim in self.unsupported]

    def scored(self, index: int) -> StepScored:
        """As a scorer says it."""
        spans = self.spans
        return StepScored(index, self.score, describe(self.unsupported), details={"spans": spans} if spans else {})


@dataclass(frozen=True)
class Checked:
    """An attempt's steps, in order."""

    steps: tuple[CheckedStep, ...]

    @property
    def score(self) -> Score:
        """The share of all claims that are supported, in [0, 1]; Unscored where none can be told."""
        return _share([claim for step in self.steps for claim in step.claims])

    @property
    def unsupported(self) -> tuple[Claim, ...]:
        return tuple(claim for step in self.steps for claim in step.unsupported)


@dataclass
class _Grounds:
    """What may be relied on so far, in the forms in which it is looked up."""

    texts: list[str] = field(default_factory=list)
    words: set[str] = field(default_factory=set)
    numbers: dict[float, None] = field(default_factory=dict)
    has_sources: bool = False

    def add(self, text: str, *, is_source: bool = True) -> None:
        plain = _normalise(text[:MAX_TEXT])
        self.texts.append(plain)
        self.words.update(_WORD.findall(plain))
        self.numbers.update(dict.fromkeys(value for _, _, value in _read_numbers(text[:MAX_TEXT])))
        self.has_sources |= is_source and bool(plain)


def check_attempt(context: AttemptContext) -> Checked:
    """Check every step against the prompt, the task's sources and what tools had answered before it.

    What a step computes rightly from supported numbers supports later steps; what it merely says does not.
    """
    grounds = _Grounds()
    grounds.add(context.prompt, is_source=False)
    for source in context.sources:
        grounds.add(source.text)
    checked = []
    for step in context.steps:
        checked.append(CheckedStep(tuple(sorted(_check(step.text[:MAX_TEXT], grounds), key=lambda claim: claim.start))))
        grounds.numbers.update(
            dict.fromkeys(
                _value(claim.text) for claim in checked[-1].claims if claim.kind == "number" and claim.is_supported
            )
        )
        if step.result:
            grounds.add(step.result)
    return Checked(tuple(checked))


def describe(claims: Sequence[Claim], *, most: int = 5) -> str:
    """What is unsupported, in words; "" for nothing."""
    if not claims:
        return ""
    shown = ", ".join(f"{claim.kind} {claim.text[:60]!r}" for claim in claims[:most])
    more = f" and {len(claims) - most} more" if len(claims) > most else ""
    return f"in no source: {shown}{more}"


def read_text(value: Any) -> str:
    """A source that may be text or JSON, as text; "" for nothing."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _share(claims: Sequence[Claim]) -> Score:
    if not claims:
        return Unscored("it claims nothing that rules can look up")
    if unsure := sum(claim.is_supported is None for claim in claims):
        words = f"{unsure} of {len(claims)} claims are not in the prompt"
        return Unscored(f"{words}, and the task gives no source to tell by")
    return sum(claim.is_supported is True for claim in claims) / len(claims)


def _check(text: str, grounds: _Grounds) -> Iterator[Claim]:
    unknown: bool | None = False if grounds.has_sources else None
    taken: list[tuple[int, int]] = []
    for found in _QUOTATION.finditer(text):
        start, end = next(found.span(group) for group in (1, 2, 3) if found[group] is not None)
        taken.append((start, end))
        words = _normalise(text[start:end]).strip(" .,;:!?")
        is_there = any(words in known for known in grounds.texts)
        yield Claim(start, end, "quotation", text[start:end], True if is_there else unknown)
    for start, end, value in _read_numbers(text):
        if _overlaps(start, end, taken) or (value == int(value) and 0 <= value <= _COUNTS_UP_TO):
            continue
        is_there = value in grounds.numbers
        if not is_there and _is_computed(value, list(grounds.numbers)[:MAX_KNOWN]):
            if len(grounds.numbers) > OPERANDS:
                continue  # among so many some pair gives nearly any number: that shows nothing
            is_there = True
        yield Claim(start, end, "number", text[start:end], True if is_there else unknown)
    for found in _NAME.finditer(text):
        start, end = found.span()
        words_at = [(start + word.start(), word[0].casefold()) for word in _WORD.finditer(found[0])]
        if _SENTENCE_END.search(text, max(0, start - 50), start):
            words_at = words_at[1:]  # the first word of a sentence is written large whatever it is
        words_at = [(at, word) for at, word in words_at if word not in _NO_NAMES]
        if not words_at or _overlaps(start, end, taken):
            continue
        is_there = all(word in grounds.words for _, word in words_at)
        yield Claim(words_at[0][0], end, "name", text[words_at[0][0] : end], True if is_there else unknown)


def _overlaps(start: int, end: int, taken: Sequence[tuple[int, int]]) -> bool:
    return any(start < other_end and other_start < end for other_start, other_end in taken)


def _read_numbers(text: str) -> Iterator[tuple[int, int, float]]:
    for found in _NUMBER.finditer(text):
        yield found.start(), found.end(), _value(found[0])


def _value(text: str) -> float:
    return abs(float(text.rstrip("%").replace(",", "")))


def _is_computed(value: float, known: Sequence[float]) -> bool:
    """Whether one operation on two known numbers gives it: sum, difference, product, quotient or percentage."""
    return any(
        any(math.isclose(found, value, rel_tol=1e-9) for found in (a + b, a * b, a - b))
        or (b and (math.isclose(a / b, value, rel_tol=5e-3) or math.isclose(100 * a / b, value, rel_tol=5e-3)))
        or math.isclose(a * b / 100, value, rel_tol=1e-6)
        for a, b in product(known, repeat=2)
    )


def _normalise(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
