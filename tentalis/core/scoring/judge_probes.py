"""Is a judge fair, and as it was? Fixed questions put to it in forms that must not matter, and what its words come to.

Each probe is a pair of answers for every item, asked in both orders, so that where an answer stands counts for nothing
but in the figure that measures just that. Whether a judge is below its bar is read off the figures (`BAR`), of which
one fails only where its whole interval lies outside what is allowed: chance alone fails nobody.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from statistics import fmean
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from tentalis.core.canon import content_hash
from tentalis.core.learning.gate import compare_paired
from tentalis.core.scoring.agreement import cohen_kappa
from tentalis.core.scoring.calibration import approves
from tentalis.core.scoring.judging import JudgeRequest, build_judge_request, build_pair_request, join_orders
from tentalis.core.scoring.probe_items import ITEMS, ProbeItem
from tentalis.core.scoring.protocol import AttemptContext
from tentalis.core.scoring.quoting import Message

Verdict = Literal["above", "below", "unscored"]
Said = Sequence[Any]
"""What was said of one item: a number for each question, or the cause where there is none."""
Beside = Sequence[tuple[float, float]]
"""(what it said, what a person said) of all that both judged of one task, in [0, 1]."""
Answers = Mapping[str, Sequence[Said]]
"""Probe -> (N,) what was said of each item."""

CONFIDENCE: Final = 0.95
LEAST_SHARE: Final = 0.5
"""Of the items that must be scored, without which a figure says nothing."""
LEAST_BESIDE_PEOPLE: Final = 30
"""Tasks that it and a person judged, without which agreement says nothing."""
OWN: Final = "own_answers"
"""The judge's own answers to the items, which are no probe but what one is made of."""
SCORES: Final = "scores"
"""What it gives each item's right and wrong answer, for the next probe to be compared with."""


@dataclass(frozen=True)
class Limits:
    """What a figure may be: it fails where its interval lies outside [least, most] as a whole.

    Args:
        is_needed: without it nothing is said of the judge.
        about: what it is, in words that a figure follows.
    """

    least: float
    most: float
    about: str
    is_needed: bool = True

    @property
    def wanted(self) -> str:
        if self.least == -1 or (self.least == 0 and self.most < 1):
            return f"at most {self.most:g}"
        return f"at least {self.least:g}" if self.most == 1 else f"{self.least:g} to {self.most:g}"


BAR: Final[Mapping[str, Limits]] = MappingProxyType(
    {
        "known": Limits(0.85, 1, "share of known pairs in which it prefers the right answer, a tie as half"),
        "position": Limits(-0.15, 0.15, "preference for the answer that stands first"),
        "length": Limits(-1, 0.15, "preference for the same answer with words that say nothing"),
        "markdown": Limits(-0.15, 0.15, "preference for the same answer as markdown"),
        "bullets": Limits(-0.15, 0.15, "preference for the same answer in bullets"),
        "json": Limits(-1, 0.15, "preference for the same answer as JSON"),
        "self": Limits(-1, 0.15, "preference for its own right answers to others'", is_needed=False),
        "drift": Limits(-0.1, 0.1, "how much more it gives the same answers than at first", is_needed=False),
        "people": Limits(0.65, 1, "share of its judgements in which it agrees with people", is_needed=False),
    }
)
"""What is measured of a judge, and the bar. Preferences are in [-1, 1]: 1 where it always does, 0 where neither wins.

A judge may find padding worse, or prose easier to read than JSON: only a taste for them can be played to.
"""
PAIRS: Final = ("known", "length", "markdown", "bullets", "json", "self")
"""The probes that ask for one of two answers; `position` is read off the first."""


@dataclass(frozen=True, kw_only=True)
class ProbeFigure:
    """One figure of a judge.

    Args:
        name: a key of `BAR`.
        value: None where too little was scored. low, high: its interval at 95 %.
        items: scored. unscored: why the others are not -> how many.
        verdict: above the bar, below it, or unscored.
        kappa: of agreement with people alone, where it is defined.
    """

    name: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    items: int = 0
    unscored: Mapping[str, int] = field(default_factory=dict)
    verdict: Verdict = "unscored"
    kappa: float | None = None

    @property
    def words(self) -> str:
        """The figure with its interval, and what was wanted."""
        limits = BAR[self.name]
        if self.value is None:
            return f"{self.name}: too little was scored ({self.items})"
        told = f"{self.name}: {self.value:+.2f} [{self.low:+.2f}, {self.high:+.2f}], wanted {limits.wanted}"
        return f"{told} ({limits.about})"


class JudgeQuestion(NamedTuple):
    """A pair of answers in one order."""

    prompt: str
    first: str
    second: str

    @property
    def messages(self) -> tuple[Message, ...]:
        return build_pair_request(prompt=self.prompt, first=self.first, second=self.second)


def ask_pair(probe: str, item: ProbeItem, own: str = "") -> tuple[JudgeQuestion, JudgeQuestion]:
    """The two orders in which one pair of a probe is asked; the answer that is suspected of winning stands first in
    the first.

    Args:
        own: the judge's own answer, of the probe `self` alone.
    """
    if probe == "self":
        suspect = own
        plain = min((item.right, item.other), key=lambda text: abs(len(text) - len(own)))
    else:
        suspect, plain = _FORMS[probe](item)
    return JudgeQuestion(item.prompt, suspect, plain), JudgeQuestion(item.prompt, plain, suspect)


def ask_score(item: ProbeItem, answer: str) -> JudgeRequest:
    """How good an answer is, asked as an AI manager is asked."""
    context = AttemptContext(environment="probe", prompt=item.prompt, text=answer, answer=answer, steps=())
    return build_judge_request(context, criterion="manager")


def ask_own(item: ProbeItem) -> str:
    """What makes the judge answer an item itself."""
    return f"{item.prompt}\n\nGive the answer first, in one or two plain sentences, and nothing else."


def find_own_fault(item: ProbeItem, answer: str) -> str:
    """Why an own answer is not compared with others; "" where it is as right as they are."""
    first = answer.strip().replace("\n", ". ").split(". ")[0]
    held, key = _split_words(first), _split_words(item.key)
    if any(held[place : place + len(key)] == key for place in range(len(held))):
        return ""
    return "its own answer is not right" if answer.strip() else "it gave no answer of its own"


def find_probes_version() -> str:
    """Of all that is asked: probes under different words or items are not comparable."""
    asked: list[Any] = [[*BAR], [ask_own(item) for item in ITEMS], [item.key for item in ITEMS]]
    for item in ITEMS:
        asked += [question.messages for probe in PAIRS for question in ask_pair(probe, item, item.other)]
        asked += [ask_score(item, answer).messages for answer in (item.right, item.wrong)]
    return content_hash(asked)[:12]


def measure_judge(
    answers: Answers, *, first: Answers | None = None, people: Sequence[Beside] = ()
) -> list[ProbeFigure]:
    """Every figure of `BAR`, in its order.

    Args:
        first: what was said the first time the same was asked; None: this is the first time.
        people: of each task that people judged too.
    """
    known = answers.get("known", ())
    figures = {
        "known": _measure("known", _each(known, join_orders), scale=_read_share),
        "position": _measure("position", _each(known, _average)),
        "drift": _measure_drift(answers.get(SCORES, ()), None if first is None else first.get(SCORES, ())),
        "people": _measure_people(people),
    }
    for probe in PAIRS[1:]:
        figures[probe] = _measure(probe, _each(answers.get(probe, ()), join_orders))
    return [figures[name] for name in BAR]


def find_verdict(figures: Iterable[ProbeFigure]) -> Verdict:
    """Below where any figure is; above where all that are needed are scored and none is below; else unscored."""
    found = list(figures)
    if any(one.verdict == "below" for one in found):
        return "below"
    return "above" if all(one.verdict == "above" for one in found if BAR[one.name].is_needed) else "unscored"


def describe_verdict(figures: Iterable[ProbeFigure]) -> str:
    """Why a judge is below its bar; "" where it is not."""
    return "; ".join(one.words for one in figures if one.verdict == "below")


# --- figures ---------------------------------------------------------------------------------------------------------

Value = float | str
"""A number in [0, 1], or why there is none."""
Scale = Callable[[float], float]


def _each(said: Sequence[Said], join: Callable[[float, float], float]) -> list[Value]:
    """What each item comes to; where an answer has no number, the first cause."""
    return [_find_cause(one) or join(*one) for one in said]


def _find_cause(said: Said) -> str:
    return next((one for one in said if isinstance(one, str)), "" if len(said) == 2 else "it was not asked")


def _average(one: float, other: float) -> float:
    return (one + other) / 2


def _read_share(difference: float) -> float:
    return (1 + difference) / 2


def _measure(name: str, values: Sequence[Value], *, others: Sequence[float] = (), scale: Scale = float) -> ProbeFigure:
    """Values against their opposites, or against others: the mean difference, in [-1, 1], before it is scaled."""
    scored = [place for place, value in enumerate(values) if not isinstance(value, str)]
    causes = dict(Counter(value for value in values if isinstance(value, str)))
    if not scored or len(scored) < LEAST_SHARE * len(values):
        return ProbeFigure(name=name, items=len(scored), unscored=causes)
    mine = [float(values[place]) for place in scored]
    theirs = [others[place] for place in scored] if others else [1 - value for value in mine]
    found = compare_paired(mine, theirs, confidence=CONFIDENCE)
    value, low, high = (scale(one) for one in (found.difference, found.low, found.high))
    limits = BAR[name]
    is_below = low > limits.most or high < limits.least
    return ProbeFigure(
        name=name,
        value=value,
        low=low,
        high=high,
        items=len(scored),
        unscored=causes,
        verdict="below" if is_below else "above",
    )


def _measure_drift(now: Sequence[Said], first: Sequence[Said] | None) -> ProbeFigure:
    if first is None:
        return ProbeFigure(name="drift", unscored={"it is the first time": len(now)} if now else {})
    before, values = _each(first, _average), _each(now, _average)
    both: list[Value] = [
        f"at first: {old}" if isinstance(old, str) else new for new, old in zip(values, before, strict=False)
    ]
    return _measure("drift", both, others=[0.0 if isinstance(old, str) else old for old in before])


def _measure_people(people: Sequence[Beside]) -> ProbeFigure:
    """The attempts and steps of one task are alike, so that it is one item, whose share they make."""
    if len(people) < LEAST_BESIDE_PEOPLE:
        return ProbeFigure(name="people", items=len(people))
    tasks = [[(approves(mine), approves(theirs)) for mine, theirs in task] for task in people]
    found = _measure("people", [fmean(mine == theirs for mine, theirs in task) for task in tasks], scale=_read_share)
    sides = list(chain.from_iterable(tasks))
    kappa = cohen_kappa([mine for mine, _ in sides], [theirs for _, theirs in sides]).value
    return replace(found, kappa=kappa)


# --- forms of the same answer ----------------------------------------------------------------------------------------


def _pad(text: str) -> str:
    return (
        f"Thank you for this question, which is well worth a careful look. {text} I hope that this explanation is "
        "clear and complete. Questions such as this one come up often, and it is good to go through them with "
        "patience. Please do ask again if anything else should be of interest, as there is always more to be said."
    )


def _split_sentences(text: str) -> list[str]:
    return [f"{one.rstrip('.')}." for one in text.split(". ")]


def _write_markdown(text: str) -> str:
    first, *rest = _split_sentences(text)
    return "\n\n".join(["## Answer", f"**{first}**", *rest])


def _write_bullets(text: str) -> str:
    return "\n".join(f"- {one}" for one in _split_sentences(text))


_FORMS: Final[Mapping[str, Callable[[ProbeItem], tuple[str, str]]]] = MappingProxyType(
    {
        "known": lambda item: (item.right, item.wrong),
        "length": lambda item: (_pad(item.right), item.right),
        "markdown": lambda item: (_write_markdown(item.right), item.right),
        "bullets": lambda item: (_write_bullets(item.right), item.right),
        "json": lambda item: (json.dumps({"answer": item.right}), item.right),
    }
)


def _split_words(text: str) -> list[str]:
    """Its words in small letters; a number is one word, whether or not its thousands are told apart."""
    signs = []
    for place, sign in enumerate(text.casefold()):
        is_inside = 0 < place < len(text) - 1 and text[place - 1].isdigit() and text[place + 1].isdigit()
        if sign.isalnum() or (sign == "." and is_inside):
            signs.append(sign)
        elif not (sign == "," and is_inside):
            signs.append(" ")
    return "".join(signs).split()
