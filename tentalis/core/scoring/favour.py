"""Who favours whom: reviewers who judge one line of work apart from the rest, with a stated error rate; no verdict.

Somebody's approvals of one line of work lie apart from their approvals of the rest, in a way that neither leniency nor
skill gives: those follow what the others make of the lines. It needs no task that two of them judged. Who holds a line
down is found as who favours it.

What the numbers cannot say is why. People of one taste or one teacher, and somebody who alone knows a line's field,
look like people who agreed on their answers. Known answers tell some of them apart (`Group.is_cleared`).

It is looked at again and again while judgements come, so the error rate is that of all looks together: a p is the
chance that any of them would show as much (`find_valid_p`).

Source:
    Two error rates a rater: Dawid and Skene 1979, Applied Statistics 28(1). Many tests at one error rate: Holm 1979,
    Scand. J. Statist. 6(2). The comparison of lines beside the medians of others is ours.
"""

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import NormalDist, fmean, median, variance
from typing import NamedTuple

from tentalis.core.learning.sequential import find_valid_p
from tentalis.core.scoring.calibration import Interval, wilson_interval


class Word(NamedTuple):
    """What one reviewer said of one item, an attempt or a step of one.

    Args:
        line: whose work it is, such as a worker or its adapter.
    """

    rater: str
    task: int
    item: Hashable
    line: str
    approves: bool


@dataclass(frozen=True, kw_only=True)
class ScreenPolicy:
    """What it takes to name anybody.

    Args:
        level: chance that anybody is ever named where all judge independently, however often it is looked at.
        least_raters: of a line, the reviewer among them: fewer have no median to be held against.
        least_tasks: of a line that a reviewer judged.
        steepest: how much steeper than the others somebody may tell lines apart by skill alone.
        least_known: tasks with a known answer that can clear a group.
        clear_level: of the test that it stands apart more often elsewhere, which keeps it from being cleared.
    """

    level: float = 0.05
    least_raters: int = 5
    least_tasks: int = 10
    steepest: float = 2.0
    least_known: int = 8
    clear_level: float = 0.1


POLICY = ScreenPolicy()
NOTHING_KNOWN = Interval(None, 0.0, 1.0, 0)


@dataclass(frozen=True)
class Group:
    """Reviewers, or one alone, who judge one line apart from the rest, all kinder or all harder.

    Args:
        line: whose work is favoured, or held down.
        p: the largest of its members', corrected for all that were looked at (Holm 1979).
        tasks: of the line, that its members judged, each counted for itself. Known answers aside.
        share: of these, which they approved; expected: the same of the others, in the median.
        known: right among the tasks of the line with a known answer.
        is_cleared: they are right there, and judge there as they do elsewhere: skill explains them.
    """

    line: str
    raters: tuple[str, ...]
    p: float
    tasks: int
    share: float
    expected: float
    known: Interval = NOTHING_KNOWN
    is_cleared: bool = False


@dataclass(frozen=True)
class Screen:
    """What was found.

    Args:
        raters, lines: that could be held beside others.
        reason: why there are none; "" where there are.
    """

    raters: int
    lines: int
    reason: str
    groups: Sequence[Group]


def screen(judgements: Iterable[Word], *, known: Mapping[Hashable, bool], policy: ScreenPolicy = POLICY) -> Screen:
    """Look for reviewers who favour a line of work, or hold one down.

    Who stands out most is put aside first, with that line: what they say of their other lines is held against the rest
    without it. Those of one line and one direction stand together.

    Args:
        judgements: each reviewer's last on an item.
        known: item -> its right answer. What is said of these clears, and never accuses: that is what trust weights do.
    """
    words = list(judgements)
    said: dict[tuple[str, str], list[float]] = defaultdict(list)
    for (rater, _, line), approvals in sorted(_by_task(word for word in words if word.item not in known).items()):
        said[rater, line].append(fmean(approvals))
    rates = {key: fmean(values) for key, values in said.items() if len(values) >= policy.least_tasks}
    sizes = {key: len(values) for key, values in said.items()}
    apart = _compare(rates, sizes, policy)
    raters, lines = ({key[place] for key in apart} for place in (0, 1))
    reason = "" if apart else _say_why(rates, policy)
    looked_at = len(apart)
    spread = max(1.0, 1.4826 * median(abs(one.by) / one.error for one in apart.values())) if apart else 1.0
    found: dict[tuple[str, bool], dict[str, float]] = defaultdict(dict)
    while apart:
        chances = {key: find_valid_p(by, variance=(spread * error) ** 2) for key, (by, error) in apart.items()}
        rater, line = key = min(chances, key=lambda one: chances[one])
        p = looked_at * chances[key]
        if p > policy.level:
            break
        found[line, apart[key].by > 0][rater] = p
        del rates[key]
        looked_at -= 1
        apart = _compare(rates, sizes, policy)
    groups = [
        Group(
            line,
            tuple(sorted(members)),
            max(members.values()),
            sum(sizes[rater, line] for rater in members),
            fmean(value for rater in members for value in said[rater, line]),
            median(rate for (_, of), rate in rates.items() if of == line),
        )
        for (line, _), members in found.items()
    ]
    return Screen(len(raters), len(lines), reason, [_check_known(group, words, known, policy) for group in groups])


def _say_why(rates: Mapping[tuple[str, str], float], policy: ScreenPolicy) -> str:
    """Why nobody can be held beside others."""
    judges: dict[str, set[str]] = defaultdict(set)
    for rater, line in rates:
        judges[line].add(rater)
    most = max((len(one & two) for one, two in combinations(judges.values(), 2)), default=0)
    wanted = f"{policy.least_raters} reviewers who judged {policy.least_tasks} tasks of each of two workers or adapters"
    return f"wanted {wanted}, found {most}"


class _Apart(NamedTuple):
    """By how much a rate lies apart, and its standard error."""

    by: float
    error: float


def _compare(
    rates: Mapping[tuple[str, str], float], sizes: Mapping[tuple[str, str], int], policy: ScreenPolicy
) -> dict[tuple[str, str], _Apart]:
    """(rater, line) -> by how much the rater's rate there, less that of the rest, lies apart from what the others'
    medians allow: anything from no difference to `steepest` times theirs.
    """
    by_line: dict[str, dict[str, float]] = defaultdict(dict)
    by_rater: dict[str, list[str]] = defaultdict(list)
    for (rater, line), rate in rates.items():
        by_line[line][rater] = rate
        by_rater[rater].append(line)
    found = {}
    for rater, lines in by_rater.items():
        others = {line: [rate for other, rate in by_line[line].items() if other != rater] for line in lines}
        lines = [line for line in lines if len(others[line]) >= policy.least_raters - 1]
        for line in lines:
            rest = [one for one in lines if one != line]
            if not rest:
                continue
            elsewhere = sum(sizes[rater, one] for one in rest)
            mine = sum(sizes[rater, one] * rates[rater, one] for one in rest) / elsewhere
            theirs = sum(sizes[rater, one] * median(others[one]) for one in rest) / elsewhere
            own, reach = rates[rater, line] - mine, policy.steepest * (median(others[line]) - theirs)
            by = own - min(max(own, min(0.0, reach)), max(0.0, reach))
            pairs = ((rates[rater, line], sizes[rater, line]), (mine, elsewhere))
            error = sum((share * (1 - share) + 1 / size) / size for share, size in pairs)
            found[rater, line] = _Apart(by, math.sqrt(error))
    return found


def _by_task(words: Iterable[Word]) -> dict[tuple[str, int, str], list[bool]]:
    """(rater, task, line) -> approvals of its items."""
    found: dict[tuple[str, int, str], list[bool]] = defaultdict(list)
    for word in words:
        found[word.rater, word.task, word.line].append(word.approves)
    return found


def _check_known(group: Group, words: Sequence[Word], known: Mapping[Hashable, bool], policy: ScreenPolicy) -> Group:
    """Whether known answers explain a group: it is right on its line, and leans there as often as elsewhere."""
    leans: dict[bool, dict[int, list[bool]]] = {True: defaultdict(list), False: defaultdict(list)}
    right: dict[int, list[bool]] = defaultdict(list)
    for word in words:
        if word.line == group.line and word.rater in group.raters:
            is_known = word.item in known
            leans[is_known][word.task].append(word.approves == (group.share > group.expected))
            if is_known:
                right[word.task].append(word.approves == known[word.item])
    interval = wilson_interval(sum(fmean(one) for one in right.values()), len(right))
    there, elsewhere = ([fmean(one) for one in leans[is_known].values()] for is_known in (True, False))
    is_skill = interval.items >= policy.least_known and interval.low > 0.5
    return replace(group, known=interval, is_cleared=is_skill and not _is_more(elsewhere, there, policy.clear_level))


def _is_more(one: Sequence[float], two: Sequence[float], level: float) -> bool:
    """Whether the first mean lies above the second by more than chance: Welch's test, by the normal distribution."""
    if min(len(one), len(two)) < 2:
        return False
    error = (variance(one) / len(one) + variance(two) / len(two) + 1e-6) ** 0.5
    return NormalDist().cdf((fmean(two) - fmean(one)) / error) < level
