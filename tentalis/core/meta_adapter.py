"""The outer loop of a manager that is a language model: which audits its adapter learns, and when that is used.

It learns to say the word an audit found right. How much each audit weighs is what its own word did: right and of use
counts more, and so does wrong and harmful. It is used when it orders audits that it never saw better than what it would
replace, by name in that one's place.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tentalis.core.meta import LearntVerdict, weigh_unaudited
from tentalis.core.scoring.calibration import approves
from tentalis.core.scoring.ranking import Auc, Difference, compare_aucs, measure_auc

COIN = 0.5


@dataclass(frozen=True, kw_only=True)
class AdapterPolicy:
    """What is asked of a manager's adapter.

    Args:
        train_after: audits since the last training that start the next one.
        held_out_share: share of the audited tasks, the newest, that are kept from training for the gate.
        least_each: good and bad held-out audits the gate takes at least, of each.
        margin: how much lower its AUC may be, by the interval's lower end, where it is not lower itself.
        cold_rounds: trainings after which the manager's unaudited word counts for something, whatever the gate says.
        least_weight, most_weight: of an audit in training, however much its word helped or harmed.
        confidence: of the two-sided intervals.
    """

    train_after: int = 48
    held_out_share: float = 1 / 3
    least_each: int = 8
    margin: float = 0.1
    cold_rounds: int = 2
    least_weight: float = 0.5
    most_weight: float = 2.0
    confidence: float = 0.9


POLICY = AdapterPolicy()


class AuditedWord(NamedTuple):
    """One word of a manager on a whole attempt, and what was found true of it.

    Args:
        number: of the comparison; it grows.
        said: what the manager said, in [0, 1], before the truth was known; truth: in [0, 1].
        is_reserved: the world holds the task out of every training.
        influence: gain in verified outcomes of its kind of task over the kinds where the manager was not heard, in
            [-2, 2]; None where that is not known.
    """

    number: int
    task_id: int
    attempt_id: int
    said: float
    truth: float
    is_reserved: bool = False
    influence: float | None = None

    @property
    def is_good(self) -> bool:
        return approves(self.truth)

    @property
    def agreed(self) -> bool:
        return approves(self.said) == self.is_good


def split_words(audited: Sequence[AuditedWord]) -> tuple[list[AuditedWord], list[AuditedWord]]:
    """What is learnt, and what the gate asks: the newest tasks, whole, and those the world reserves.

    Returns:
        In the order they came; the newest task is held out even of two.
    """
    newest = {word.task_id: word.number for word in audited}
    open_tasks = sorted({word.task_id for word in audited if not word.is_reserved}, key=lambda task: newest[task])
    count = min(len(open_tasks), max(1, round(POLICY.held_out_share * len(open_tasks))))
    held_out = set(open_tasks[len(open_tasks) - count :]) | {word.task_id for word in audited if word.is_reserved}
    return (
        [word for word in audited if word.task_id not in held_out],
        [word for word in audited if word.task_id in held_out],
    )


def weigh_word(word: AuditedWord) -> float:
    """How much an audit counts in training: 1 + influence where the manager was right, 1 - influence where not.

    Clipped: influence is an observation and no experiment, so that it may stress an audit and never turn it round.
    """
    gain = word.influence or 0.0
    return min(POLICY.most_weight, max(POLICY.least_weight, 1.0 + (gain if word.agreed else -gain)))


def why_not_train(audited: Sequence[AuditedWord]) -> str:
    """What is missing for a training whose outcome could be judged, in words; "" for nothing."""
    learnt, held_out = split_words(audited)
    for name, part, least in (("to learn", learnt, 1), ("held out", held_out, POLICY.least_each)):
        good = sum(word.is_good for word in part)
        bad = len(part) - good
        if min(good, bad) < least:
            return f"wanted {least} good and as many bad audits {name}, found {good} and {bad}"
    return ""


@dataclass(frozen=True, kw_only=True)
class AdapterVerdict(LearntVerdict):
    """Whether a manager's adapter is used; `control` is the untrained model's AUC on the same audits."""

    control: Auc

    @property
    def metrics(self) -> dict[str, Any]:
        return super().metrics | {"control": self.control.value}


def judge_adapter(
    *,
    candidate: Sequence[float],
    present: Sequence[float],
    control: Sequence[float],
    truths: Sequence[float],
    past_rounds: int,
) -> AdapterVerdict:
    """Use an adapter or refuse it.

    It is used when its order of the held-out audits is shown to be better than a coin's and is no worse than that of
    what it replaces: not lower itself, and not shown by the interval to be lower by the margin.

    Args:
        candidate, present, control: (N,) scores of the same held-out audits by the adapter, by what it would replace
            and by the model without any.
        truths: (N,) in [0, 1].
        past_rounds: trainings of the manager before this one.
    """
    mine, theirs, plain = (
        measure_auc(scores, truths, confidence=POLICY.confidence) for scores in (candidate, present, control)
    )
    difference = compare_aucs(candidate, present, truths, confidence=POLICY.confidence)
    applies, words = _decide(mine, theirs, difference)
    gate, caveat = weigh_unaudited(
        mine if applies else theirs,
        rounds=past_rounds + 1,
        cold_rounds=POLICY.cold_rounds,
        least_each=POLICY.least_each,
    )
    return AdapterVerdict(
        applies=applies,
        words=words + caveat,
        present=theirs,
        candidate=mine,
        control=plain,
        difference=difference,
        gate=gate,
    )


def _decide(candidate: Auc, present: Auc, difference: Difference) -> tuple[bool, str]:
    if difference.value is None or min(candidate.good, candidate.bad) < POLICY.least_each:
        return False, (
            f"wanted {POLICY.least_each} good and as many bad audits it had not seen, "
            f"found {candidate.good} and {candidate.bad}"
        )
    found = f"AUC {candidate.words} on audits it had not seen, {present.words} of what it would replace"
    if candidate.low <= COIN:
        return False, f"not shown to be better than a coin: {found}"
    if difference.low > 0.0:
        return True, f"better: {found}"
    if difference.value >= 0.0 and difference.low > -POLICY.margin:
        return True, f"not worse: {found}"
    return False, f"not shown to be as good: {found}"
