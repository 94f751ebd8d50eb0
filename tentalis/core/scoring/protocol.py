"""What a scorer is given and what it gives back; a value nobody could find is `Unscored` with its reason."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tentalis.core.steps import ParsedStep


class ScoringError(ValueError):
    """A scorer, a profile or a caller broke a rule of scoring; the message says what was wanted and what was found."""


@dataclass(frozen=True)
class Unscored:
    """The absence of a score, with the reason a manager reads. It is never replaced by a number."""

    reason: str

    def __post_init__(self) -> None:
        if not self.reason.strip():
            raise ScoringError("Unscored wants a reason in words, found an empty one")


Score = float | Unscored


def check_score(score: Score, *, subject: str) -> None:
    """Raises ScoringError unless `score` is Unscored or a finite number in [0, 1]."""
    if isinstance(score, Unscored):
        return
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise ScoringError(f"{subject}: wanted a number in [0, 1] or Unscored, found {type(score).__name__}")
    if not 0.0 <= score <= 1.0:  # NaN fails this too
        raise ScoringError(f"{subject}: wanted a number in [0, 1] or Unscored, found {score!r}")


@dataclass(frozen=True)
class Source:
    """A text the task gives, on which claims may rest."""

    name: str
    text: str


@dataclass(frozen=True, kw_only=True)
class AttemptContext:
    """One attempt as a scorer sees it: plain data, nothing to look up.

    Args:
        prompt: what the task asked.
        text: everything the worker wrote, markup included; `steps` hold spans into it.
        answer: the final answer; None when the worker gave none.
        reference: what a right answer looks like; None when nobody knows.
        rubric: the project's own words on what is good work; "" for none.
        constitution: principles that hold above the rubric, in the project's own words; "" for none.
        facts: what the environment measured, by name (exit status, tests passed, lines changed, ...).
        sources: texts the task gives beside its prompt.
    """

    environment: str
    prompt: str
    text: str
    steps: tuple[ParsedStep, ...]
    answer: str | None
    reference: str | None = None
    rubric: str = ""
    constitution: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    sources: tuple[Source, ...] = ()


@dataclass(frozen=True)
class StepScored:
    """One scorer's score of one step.

    Args:
        index: position of the step in the attempt, from 0.
        score: in [0, 1], or Unscored.
        comment: the scorer's words on the step; "" for none.
        spread: max - min over the votes behind the score; None when it was not voted on.
        details: JSON-ready evidence (unsupported spans).
    """

    index: int
    score: Score
    comment: str = ""
    spread: float | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.index < 0:
            raise ScoringError(f"step index: wanted 0 or more, found {self.index}")
        check_score(self.score, subject=f"step {self.index}")


@dataclass(frozen=True, kw_only=True)
class ScorerResult:
    """What one scorer says of one attempt.

    Args:
        value: the attempt as a whole, in [0, 1], or Unscored.
        steps: the steps it has something to say about, by rising index; a scorer of whole attempts gives none.
        spread: max - min over the votes behind `value`; None when it was not voted on.
        details: JSON-ready evidence for the audit (votes, counts, model and prompt version).
    """

    scorer: str
    value: Score
    steps: tuple[StepScored, ...] = ()
    comment: str = ""
    spread: float | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_score(self.value, subject=f"scorer {self.scorer!r}")
        indexes = [step.index for step in self.steps]
        if indexes != sorted(set(indexes)):
            raise ScoringError(f"scorer {self.scorer!r}: wanted steps by rising index, each once, found {indexes}")


class Scorer(Protocol):
    """Scores one attempt. It may ask a model or a sandbox; a failure it can name becomes Unscored, not an exception."""

    @property
    def name(self) -> str:
        """As weight profiles call it."""
        ...

    def score(self, context: AttemptContext) -> ScorerResult: ...
