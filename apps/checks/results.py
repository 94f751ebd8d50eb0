"""What a check says of an answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple


class CheckError(ValueError):
    """A check cannot be read: which field, what was wanted and what was found."""


class CheckVerdict(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    UNSCORED = "unscored"


@dataclass(frozen=True)
class AskedPart:
    """A part of a check that is settled by more than the answer's text.

    Args:
        by: scorer, judge or grader. name: of the scorer or grader.
        rubric: what the judge holds the answer to; "" is the project's. model: of the judge; "" is the installation's.
        given: what the grader grades by, as canonical JSON: {"options": …, "reference": …}.
    """

    by: str
    name: str = ""
    rubric: str = ""
    model: str = ""
    given: bytes = b""

    @property
    def label(self) -> str:
        return "the judge" if self.by == "judge" else f"{self.by} {self.name}"


class Said(NamedTuple):
    """What was said where somebody was asked.

    Args:
        share: in [0, 1]; None: it could not be said, for the reason in `words`.
        grader: who said it, with its version.
        details: what else it says, as JSON: correct, signals, evidence.
        is_untold: the answer was read, and is neither right nor wrong.
    """

    share: float | None
    words: str
    grader: str
    details: Mapping[str, Any] = MappingProxyType({})
    is_untold: bool = False


@dataclass(frozen=True)
class CheckResult:
    """One check of one answer.

    Args:
        check: its kind, or `name@version` of the named check that was used.
        share: how much of it holds, in [0, 1]: 1 exactly where it passed; None where it is unscored.
        words: why; never what a right answer holds.
        parts: of a check that has some, in their order.
        grader: who was asked, with its version; "" where nobody was.
        details: what else a grader says, as JSON: correct, signals, evidence.
        is_untold: unscored because the answer is neither right nor wrong, and not for want of anything.
    """

    check: str
    verdict: CheckVerdict
    share: float | None
    words: str
    parts: Sequence["CheckResult"] = ()
    grader: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    is_untold: bool = False

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"check": self.check, "result": self.verdict, "share": self.share, "words": self.words}
        found |= {"grader": self.grader} if self.grader else {}
        found |= {"details": dict(self.details)} if self.details else {}
        found |= {"is_untold": True} if self.is_untold else {}
        return found | ({"parts": [part.to_json() for part in self.parts]} if self.parts else {})


def decide(check: str, *, passes: bool, why: str) -> CheckResult:
    """All or nothing."""
    return CheckResult(check, CheckVerdict.PASSED if passes else CheckVerdict.FAILED, float(passes), why)


def leave_unscored(check: str, why: str, parts: Sequence[CheckResult] = (), *, grader: str = "") -> CheckResult:
    """It could not be run, which is neither right nor wrong."""
    return CheckResult(check, CheckVerdict.UNSCORED, None, why, parts, grader)


def join_all(check: str, parts: Sequence[CheckResult]) -> CheckResult:
    """As good as the worst part. What is wrong in full stays wrong whatever could not be run."""
    return _join(check, parts, min((part.share for part in parts if part.share is not None), default=None), settles=0.0)


def join_any(check: str, parts: Sequence[CheckResult]) -> CheckResult:
    """As good as the best part. What is right in full stays right whatever could not be run."""
    return _join(check, parts, max((part.share for part in parts if part.share is not None), default=None), settles=1.0)


def join_weighted(check: str, parts: Sequence[CheckResult], weights: Sequence[float]) -> CheckResult:
    """The weighted mean of the parts' shares; a part that could not be run leaves the mean unknown."""
    known = [(weight, part.share) for weight, part in zip(weights, parts, strict=True) if part.share is not None]
    mean = sum(weight * share for weight, share in known) / sum(weight for weight, _ in known) if known else None
    if mean is not None and all(share == 1.0 for _, share in known):
        mean = 1.0  # not a rounding below it
    return _join(check, parts, mean, settles=None)


def _join(check: str, parts: Sequence[CheckResult], share: float | None, *, settles: float | None) -> CheckResult:
    lost = sum(part.verdict is CheckVerdict.UNSCORED for part in parts)
    if share is None or (lost and share != settles):
        return leave_unscored(check, f"{lost} of {len(parts)} parts could not be run", tuple(parts))
    passed = sum(part.verdict is CheckVerdict.PASSED for part in parts)
    verdict = CheckVerdict.PASSED if share == 1.0 else CheckVerdict.FAILED
    return CheckResult(check, verdict, share, f"{passed} of {len(parts)} parts passed", tuple(parts))
