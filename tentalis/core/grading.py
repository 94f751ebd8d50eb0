"""Graders: what an answer is worth by a rule, as data that is kept. What could not be graded has a cause."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from tentalis.core.scoring.protocol import AttemptContext
from tentalis.core.scoring.quoting import clean_text


class UngradedError(Exception):
    """An answer cannot be graded: the message says why. It is neither right nor wrong then."""


@dataclass(frozen=True, kw_only=True)
class GradedTask:
    """What an answer is graded by.

    Args:
        prompt: what was asked.
        reference: what is right, as the grader wants it; None where it needs none.
        options: how the grader looks, by its own names; every one is known to it.
        ask: asks the project's judge a question and gives its reply; raises UngradedError where there is none.
    """

    prompt: str
    reference: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)
    ask: Callable[[str], str] | None = None

    def ask_judge(self, question: str) -> str:
        """What the judge replies. Raises UngradedError."""
        if self.ask is None:
            raise UngradedError("no judge is set: wanted a model to ask")
        return self.ask(question)


@dataclass(frozen=True, kw_only=True)
class Grade:
    """What an answer is worth.

    Args:
        value: in [0, 1]; None: it could not be graded, for the reason in `cause`.
        is_untold: the answer was read, and is neither right nor wrong: to grade it once more would say the same.
        correct: whether that counts as right; None: only a whole 1 does.
        signals: numbers beside it, by name.
        evidence: why, for people who look at it, as JSON; never what a right answer holds.
    """

    value: float | None
    correct: bool | None = None
    cause: str = ""
    is_untold: bool = False
    signals: Mapping[str, float] = field(default_factory=dict)
    evidence: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.value is None:
            if not self.cause.strip():
                raise ValueError("wanted a cause of what could not be graded, found none")
            if self.correct is not None:
                raise ValueError(f"wanted neither right nor wrong of what could not be graded, found {self.correct}")
        elif self.is_untold:
            raise ValueError(f"wanted no value of what is neither right nor wrong, found {self.value!r:.80}")
        elif isinstance(self.value, bool) or not 0 <= self.value <= 1:  # NaN fails this too
            raise ValueError(f"value: wanted a number from 0 to 1, or None, found {self.value!r:.80}")

    @property
    def is_correct(self) -> bool | None:
        """None where it could not be graded."""
        if self.value is None:
            return None
        return self.value == 1.0 if self.correct is None else self.correct


def leave_ungraded(cause: str) -> Grade:
    """It could not be graded."""
    return Grade(value=None, cause=cause[:2_000] or "no cause was told")


def leave_untold(cause: str) -> Grade:
    """The answer is neither right nor wrong."""
    return replace(leave_ungraded(cause), is_untold=True)


def decide_grade(*, correct: bool, **evidence: Any) -> Grade:
    """All or nothing."""
    return Grade(value=float(correct), correct=correct, evidence=evidence)


def read_grade(returned: Any) -> Grade:
    """What a grader gave back, as a grade.

    Args:
        returned: a Grade, a number or a truth value, or (number, whether that is right).
    Raises:
        TypeError, ValueError: it is none of these.
    """
    if isinstance(returned, Grade):
        return returned
    if isinstance(returned, bool):
        return decide_grade(correct=returned)
    if isinstance(returned, int | float):
        return Grade(value=float(returned))
    if isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[1], bool):
        return Grade(value=float(returned[0]), correct=returned[1])
    raise TypeError(f"wanted a Grade, a number or (number, right or wrong), found {returned!r:.200}")


class GradeFunction(Protocol):
    """What grades: gives a Grade, or what `read_grade` takes for one."""

    def __call__(self, task: GradedTask, episode: AttemptContext) -> Any: ...


@dataclass(frozen=True, kw_only=True)
class Grader:
    """A rule that grades answers.

    Args:
        version: another one grades differently; it is kept with every grade.
        grade: what grades.
        options: name -> what it is for; any other is refused where the check is written.
        check: raises ValueError for a reference, or options, that nothing could be graded by.
        wants_reference: whether nothing can be graded without one.
        asks: whether it asks the project's judge.
        is_pure: it asks nobody and runs nothing, so that many are graded in a row.
        reads_silence: it is asked about no answer too; with others that is wrong.
    """

    name: str
    version: str
    about: str
    grade: GradeFunction
    options: Mapping[str, str] = field(default_factory=dict)
    check: Callable[[Any, Mapping[str, Any]], None] | None = None
    wants_reference: bool = True
    asks: bool = False
    is_pure: bool = True
    reads_silence: bool = False

    def check_given(self, reference: Any, options: Mapping[str, Any]) -> None:
        """Raises ValueError saying what was wanted and what was found."""
        if unknown := sorted(options.keys() - self.options.keys()):
            known = ", ".join(sorted(self.options)) or "none"
            raise ValueError(f"options: wanted of {known}, found {', '.join(unknown)[:200]}")
        if self.wants_reference and reference is None:
            raise ValueError("reference: wanted what is right, found none")
        if self.check is not None:
            self.check(reference, options)

    def run(self, task: GradedTask, episode: AttemptContext) -> Grade:
        """The grade of an answer, NUL and half characters in it replaced. Raises whatever goes wrong in it, which says
        nothing of the answer."""
        if episode.answer is not None:
            episode = replace(episode, answer=clean_text(episode.answer))
        try:
            return read_grade(self.grade(task, episode))
        except UngradedError as error:
            return leave_ungraded(str(error))
