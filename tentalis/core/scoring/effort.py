"""Scores that only count: did the worker do the work, and did it do it without waste."""

from collections.abc import Sequence
from dataclasses import dataclass

from tentalis.core.scoring.protocol import Score, ScoringError, Unscored
from tentalis.core.steps import ParsedStep


@dataclass(frozen=True)
class StepCounts:
    """How many steps an attempt has: all of them, the blank ones, and the ones said before in the same words."""

    used: int
    blank: int = 0
    repeated: int = 0

    def __post_init__(self) -> None:
        if min(self.used, self.blank, self.repeated) < 0 or self.blank + self.repeated > self.used:
            raise ScoringError(
                f"step counts want 0 <= blank + repeated <= used, found used {self.used}, blank {self.blank}, "
                f"repeated {self.repeated}"
            )

    @property
    def useful(self) -> int:
        return self.used - self.blank - self.repeated


def count_steps(steps: Sequence[ParsedStep]) -> StepCounts:
    """Two steps repeat each other when kind and words agree, whatever the case and the blanks between words.

    The same call with another result is no repetition: waiting for a result by asking again is work.
    """
    seen: set[tuple[str, str, str | None]] = set()
    blank = repeated = 0
    for step in steps:
        words = " ".join(step.text.casefold().split())
        key = (step.kind, words, step.result)
        if not words:
            blank += 1
        elif key in seen:
            repeated += 1
        seen.add(key)
    return StepCounts(len(steps), blank, repeated)


def effort_score(counts: StepCounts, *, expected: int) -> float:
    """Was the work done: min(1, useful / expected) * useful / used, in [0, 1].

    1 for the expected number of distinct steps or more; less for missing steps and for padding; 0 for no useful step.

    Raises:
        ScoringError: fewer than one step is expected.
    """
    _require_positive("expected steps", expected)
    if counts.useful == 0:
        return 0.0
    return min(1.0, counts.useful / expected) * counts.useful / counts.used


def efficiency_score(counts: StepCounts, *, expected: int) -> Score:
    """Was nothing wasted: min(1, expected / used) * useful / used, in [0, 1].

    1 for at most the expected number of steps, all useful. No step at all is Unscored: doing nothing is not efficient.

    Raises:
        ScoringError: fewer than one step is expected.
    """
    _require_positive("expected steps", expected)
    if counts.used == 0:
        return Unscored("the attempt has no steps")
    return min(1.0, expected / counts.used) * counts.useful / counts.used


def diff_size_score(*, changed_lines: int, expected_lines: int) -> Score:
    """Was the change no larger than it had to be: min(1, expected / changed), in (0, 1]; no change is Unscored.

    Raises:
        ScoringError: fewer than one line is expected, or fewer than none changed.
    """
    _require_positive("expected lines", expected_lines)
    if changed_lines < 0:
        raise ScoringError(f"changed lines: wanted 0 or more, found {changed_lines}")
    if changed_lines == 0:
        return Unscored("the attempt changed nothing")
    return min(1.0, expected_lines / changed_lines)


def _require_positive(name: str, value: int) -> None:
    if value < 1:
        raise ScoringError(f"{name}: wanted 1 or more, found {value}")
