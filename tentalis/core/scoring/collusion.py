"""Reviewers who judge alike beyond what the work explains: two screens with stated error rates, and never a verdict.

`alike`: two who judge independently agree through the work alone. Centred on each one's leniency, their approvals then
have covariances of rank one, cov(i, j) = v_i v_j, whatever each one's skill. A group whose pairs lie above that,
further than any group does in worlds drawn without collusion, judges alike beyond chance.

`favour`: somebody whose approvals of one line of work lie apart from their approvals of the rest, in a way that neither
leniency nor skill gives: those follow what the others make of the lines. It needs no task that two of them judged.

What the numbers cannot say is why. People of one taste or one teacher, and careful ones among careless ones, look like
people who agreed on their answers. Known answers tell some of them apart (`Group.is_cleared`).

Source:
    Rank one: Parisi, Strino, Nadler and Kluger 2014, PNAS 111(4); departures from it show dependence: Jaffe, Fetaya,
    Nadler, Jiang and Kluger 2016, AISTATS. Two error rates a rater: Dawid and Skene 1979, Applied Statistics 28(1).
    Groups of raters who copy: KhudaBukhsh, Carbonell and Jansen 2014, HCOMP. The error rate of the largest of many
    groups is taken from a parametric bootstrap: Efron and Tibshirani 1993, ch. 16. The search for a group is ours.
"""

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import NormalDist, fmean, median, variance
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tentalis.core.scoring.calibration import Interval, wilson_interval

Floats = NDArray[np.float64]
Places = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Word(NamedTuple):
    """What one reviewer said of one item, an attempt or a step of one.

    Args:
        line: whose work it is, such as a worker with its adapter.
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
        level: chance that a screen names anybody where all judge independently.
        least_raters: with fewer a group and the rest are not told apart: of four, two who agree and the other two give
            the same covariances.
        least_tasks: tasks of a reviewer that others judged too; of a group that two of it judged; of a line that a
            reviewer judged, and as many of the rest.
        worlds: drawn without collusion.
        least_excess: share of tasks by which a group agrees more often than expected. Less could be what rank one
            leaves out, such as that raters find different tasks hard.
        steepest: how much steeper than the others somebody may tell lines apart by skill alone.
        least_known: tasks with a known answer that can clear a group.
        clear_level: of the test that it stands apart more often elsewhere, which keeps it from being cleared.
    """

    level: float = 0.01
    least_raters: int = 5
    least_tasks: int = 10
    worlds: int = 299
    least_excess: float = 0.08
    steepest: float = 2.0
    least_known: int = 8
    clear_level: float = 0.1


POLICY = ScreenPolicy()
NOTHING_KNOWN = Interval(None, 0.0, 1.0, 0)
PRIOR_TASKS = 5.0
"""So many tasks' worth of the mean skill is believed of a reviewer beforehand."""
LINKED = 3.0
"""Standard errors by which a member agrees more with the rest of its group than independent judgement gives."""
_FIT_ROUNDS, _REFITS, _CHUNK = 20, 2, 50


@dataclass(frozen=True)
class Group:
    """Reviewers who judge alike beyond chance.

    Args:
        kind: which screen found it; line: whose work is favoured, or held down; "" of `alike`.
        p: of `alike` the share of worlds without collusion in which some group judges as much alike; of `favour` the
            largest of its members', corrected for all that were looked at (Holm 1979).
        tasks: `alike`: that two of them judged; `favour`: of the line, that one of them judged. Known answers aside.
        share: of these tasks, where they agreed with each other; of the line, which they approved.
        expected: the same as independent judgement, or the others' judgement of the line, gives it.
        known: right among the tasks with a known answer on which they stood against others, or that are of the line.
        is_cleared: they are right there, and judge there as they do elsewhere: skill explains them.
    """

    kind: Literal["alike", "favour"]
    raters: tuple[str, ...]
    p: float
    tasks: int
    share: float
    expected: float
    line: str = ""
    known: Interval = NOTHING_KNOWN
    is_cleared: bool = False


@dataclass(frozen=True)
class Screen:
    """What was found.

    Args:
        raters: that could be looked at; tasks: that two or more of them judged.
        reason: why nothing can be told of who judges alike; "" where it can.
    """

    raters: int
    tasks: int
    reason: str
    groups: Sequence[Group]


def screen(
    words: Iterable[Word], *, known: Mapping[Hashable, bool], seed: int, policy: ScreenPolicy = POLICY
) -> Screen:
    """Look for reviewers who judge alike, and for those who favour the same line of work.

    Args:
        words: each reviewer's last on an item.
        known: item -> its right answer. What is said of these clears, and never accuses: that is what trust weights do.
        seed: of the worlds that are drawn.
    """
    words = list(words)
    unknown = [word for word in words if word.item not in known]
    shared = _share(unknown, policy)
    raters, tasks = len(shared.raters), shared.tasks
    groups = _find_favours(unknown, policy)
    reason = ""
    if raters < policy.least_raters:
        wanted = f"wanted {policy.least_raters} reviewers who judged {policy.least_tasks} tasks that others judged too"
        reason = f"{wanted}, found {raters}"
    rng = np.random.default_rng(seed)
    while len(shared.raters) >= policy.least_raters and (found := _find_alike(shared, rng, policy)):
        groups.append(found)
        shared = _share([word for word in unknown if not any(word.rater in one.raters for one in groups)], policy)
    return Screen(raters, tasks, reason, [_check_known(group, words, known, policy) for group in groups])


def _find_favours(words: Sequence[Word], policy: ScreenPolicy) -> list[Group]:
    """Reviewers apart on a line, those of one line and one direction together.

    Who stands out most is put aside first, with that line: what they say of their other lines is held against the rest
    without it. Of all that is looked at Holm's correction keeps the error rate (Holm 1979, Scand. J. Statist. 6).
    """
    said: dict[tuple[str, str], list[float]] = defaultdict(list)
    for (rater, _, line), approvals in sorted(_by_task(words).items()):
        said[rater, line].append(fmean(approvals))
    rates = {key: fmean(values) for key, values in said.items() if len(values) >= policy.least_tasks}
    sizes = {key: len(values) for key, values in said.items()}
    scores = _score_favours(rates, sizes, policy)
    looked_at = len(scores)
    spread = max(1.0, 1.4826 * median(map(abs, scores.values()))) if scores else 1.0
    found: dict[tuple[str, bool], dict[str, float]] = defaultdict(dict)
    while scores:
        rater, line = key = max(scores, key=lambda one: abs(scores[one]))
        p = 2 * looked_at * NormalDist().cdf(-abs(scores[key]) / spread)
        if p > policy.level:
            break
        found[line, scores[key] > 0][rater] = p
        del rates[key]
        looked_at -= 1
        scores = _score_favours(rates, sizes, policy)
    return [
        Group(
            "favour",
            tuple(sorted(members)),
            max(members.values()),
            sum(sizes[rater, line] for rater in members),
            fmean(value for rater in members for value in said[rater, line]),
            median(rate for (_, of), rate in rates.items() if of == line),
            line,
        )
        for (line, _), members in found.items()
    ]


def _score_favours(
    rates: Mapping[tuple[str, str], float], sizes: Mapping[tuple[str, str], int], policy: ScreenPolicy
) -> dict[tuple[str, str], float]:
    """(rater, line) -> standard errors by which the rater's rate there, less that of the rest, lies apart from what the
    others' medians allow: anything from no difference to `steepest` times theirs.
    """
    by_line: dict[str, dict[str, float]] = defaultdict(dict)
    by_rater: dict[str, list[str]] = defaultdict(list)
    for (rater, line), rate in rates.items():
        by_line[line][rater] = rate
        by_rater[rater].append(line)
    scores = {}
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
            apart = own - min(max(own, min(0.0, reach)), max(0.0, reach))
            pairs = ((rates[rater, line], sizes[rater, line]), (mine, elsewhere))
            error = sum((share * (1 - share) + 1 / size) / size for share, size in pairs)
            scores[rater, line] = apart / math.sqrt(error)
    return scores


def _by_task(words: Iterable[Word]) -> dict[tuple[str, int, str], list[bool]]:
    """(rater, task, line) -> approvals of its items."""
    found: dict[tuple[str, int, str], list[bool]] = defaultdict(list)
    for word in words:
        found[word.rater, word.task, word.line].append(word.approves)
    return found


class _Shared(NamedTuple):
    """Pairs of words on the same, ordered by who said them.

    Args:
        raters: names; tasks: how many tasks.
        who, task: (E,) index of the reviewer and of the task, of each word on a task.
        left, right: (P,) places in `who` of the two words of a pair.
        lefts, rights, both, same: (P,) shares of the items of the pair that the one, the other, both approve; on which
            they agree.
        pairs: (Q, 2) reviewers of which there are pairs; starts: (Q,) where those of each begin.
    """

    raters: list[str]
    tasks: int
    who: Places
    task: Places
    left: Places
    right: Places
    lefts: Floats
    rights: Floats
    both: Floats
    same: Floats
    pairs: Places
    starts: Places

    def sum(self, values: Floats) -> Floats:
        """(B, P) -> (B, R, R), above the diagonal."""
        sums = np.zeros((len(values), len(self.raters), len(self.raters)))
        sums[:, self.pairs[:, 0], self.pairs[:, 1]] = np.add.reduceat(values, self.starts, axis=1)
        return sums


def _share(words: Sequence[Word], policy: ScreenPolicy) -> _Shared:
    """The words on tasks that several judged, of those who judged enough of such."""
    said: dict[int, dict[str, dict[Hashable, bool]]] = defaultdict(lambda: defaultdict(dict))
    for word in words:
        said[word.task][word.rater][word.item] = word.approves
    raters = {word.rater for word in words}
    while True:
        pairs = [
            (one, two, task, common)
            for task, of_task in said.items()
            for one, two in combinations(sorted(of_task.keys() & raters), 2)
            if (common := of_task[one].keys() & of_task[two].keys())
        ]
        tasks: dict[str, set[int]] = {rater: set() for rater in raters}
        for one, two, task, _ in pairs:
            tasks[one].add(task)
            tasks[two].add(task)
        kept = {rater for rater in raters if len(tasks[rater]) >= policy.least_tasks}
        if kept == raters:
            break
        raters = kept
    names = sorted(raters)
    index = {name: place for place, name in enumerate(names)}
    numbers: dict[int, int] = {}
    entries: dict[tuple[int, str], int] = {}
    rows = []
    for one, two, task, common in sorted(pairs, key=lambda pair: pair[:3]):
        numbers.setdefault(task, len(numbers))
        places = [entries.setdefault((task, rater), len(entries)) for rater in (one, two)]
        lefts, rights = ([said[task][rater][item] for item in common] for rater in (one, two))
        both = fmean(a and b for a, b in zip(lefts, rights, strict=True))
        same = fmean(a == b for a, b in zip(lefts, rights, strict=True))
        rows.append((index[one], index[two], *places, fmean(lefts), fmean(rights), both, same))
    table = np.array(rows, dtype=float).reshape(-1, 8)
    who = np.array([index[rater] for _, rater in entries], dtype=np.int64)
    task_of = np.array([numbers[task] for task, _ in entries], dtype=np.int64)
    of = table[:, :4].astype(np.int64)
    pairs_of, starts = np.unique(of[:, :2], axis=0, return_index=True)
    return _Shared(names, len(numbers), who, task_of, of[:, 2], of[:, 3], *table[:, 4:].T, pairs_of, starts)  # type: ignore[call-arg]


class _Found(NamedTuple):
    """The group that is furthest above independence, of each of B worlds.

    Args:
        score: (B,); group: (B, R) who is in it.
        leniency, skill: (B, R): mean approval, and correlation with what is right in [-1, 1], fitted without the group.
        excess, variances: (B, R, R): sums of products above independence, and their variances.
    """

    score: Floats
    group: Bools
    leniency: Floats
    skill: Floats
    excess: Floats
    variances: Floats


def _find_alike(shared: _Shared, rng: np.random.Generator, policy: ScreenPolicy) -> Group | None:
    """The group that judges most alike, where it does beyond chance."""
    counts = _mirror(shared.sum(np.ones((1, len(shared.left)))))[0]
    found = _scan(shared, counts, shared.lefts[None], shared.rights[None], shared.both[None])
    chance = found.leniency[0].mean()
    rates = np.stack(_rates(found.leniency[0], found.skill[0], chance))  # (2, R): of what is good, of what is bad
    above = 0
    for start in range(0, policy.worlds, _CHUNK):
        size = min(_CHUNK, policy.worlds - start)
        is_bad = (rng.random((size, shared.tasks)) >= chance).astype(np.int64)
        said = (rng.random((size, len(shared.who))) < rates[is_bad[:, shared.task], shared.who]).astype(float)
        lefts, rights = said[:, shared.left], said[:, shared.right]
        drawn = _scan(shared, counts, lefts, rights, lefts * rights)
        above += int(np.sum(drawn.score >= found.score[0]))
        if (above + 1) / (policy.worlds + 1) > policy.level:
            return None
    members = _keep_linked(found)
    left, right = shared.who[shared.left], shared.who[shared.right]
    inside = members[left] & members[right]
    agree = rates[:, left] * rates[:, right] + (1 - rates[:, left]) * (1 - rates[:, right])  # (2, P)
    tasks = len(np.unique(shared.task[shared.left[inside]]))
    if tasks < policy.least_tasks:
        return None
    share, expected = (
        float(shared.same[inside].mean()),
        float((chance * agree[0] + (1 - chance) * agree[1])[inside].mean()),
    )
    if share - expected < policy.least_excess:
        return None
    return Group(
        "alike",
        tuple(name for name, is_in in zip(shared.raters, members, strict=True) if is_in),
        (above + 1) / (policy.worlds + 1),
        tasks,
        share,
        expected,
    )


def _keep_linked(found: _Found) -> Bools:
    """(R,) the group without those who do not stand out in it themselves: they came along by chance."""
    members = found.group[0]
    inside = members[:, None] & members[None, :]
    gained, noise = ((one[0] * inside).sum(1) for one in (found.excess, found.variances))
    linked: Bools = members & (gained >= LINKED * np.sqrt(noise))
    return linked


def _mirror(upper: Floats) -> Floats:
    return upper + upper.transpose(0, 2, 1)


def _scan(shared: _Shared, counts: Floats, lefts: Floats, rights: Floats, both: Floats) -> _Found:
    """Args: counts: (R, R) pairs of words; lefts, rights, both: (B, P)."""
    mine = shared.sum(lefts) + shared.sum(rights).transpose(
        0, 2, 1
    )  # (B, R, R): of the row's words beside the column's
    totals = counts.sum(1)
    chance = mine.sum((1, 2)) / totals.sum()  # (B,)
    leniency = (mine.sum(2) + chance[:, None]) / (totals + 1.0)
    spread = np.sqrt(leniency * (1 - leniency)) + 1e-3
    one, two = leniency[:, :, None], leniency[:, None, :]
    products = _mirror(shared.sum(both)) - two * mine - one * mine.transpose(0, 2, 1) + one * two * counts
    products /= spread[:, :, None] * spread[:, None, :]
    group = np.zeros(leniency.shape, dtype=bool)
    for _ in range(1 + _REFITS):
        outside = counts * ~(group[:, :, None] & group[:, None, :])
        skill = _fit(products, outside)
        excess = products - counts * skill[:, :, None] * skill[:, None, :]
        variances = counts * _variances(leniency, spread, skill, chance)
        variances *= _find_scale(excess, variances, counts)[:, None, None] ** 2
        score, group = _grow(excess, variances, counts)
    return _Found(score, group, leniency, skill, excess, variances)


def _find_scale(excess: Floats, variances: Floats, counts: Floats) -> Floats:
    """(B,) how much further pairs lie from independence than chance puts them, in the median; at least 1.

    How hard tasks are, and tastes, move all pairs a little: a group has to stand out from that.
    """
    pairs = np.triu(counts, 1) > 0
    return np.maximum(1.0, 1.4826 * np.median(np.abs(excess[:, pairs]) / np.sqrt(variances[:, pairs]), axis=1))


def _fit(products: Floats, counts: Floats) -> Floats:
    """(B, R) skills whose products come closest to the mean products of standardised words, weighted by `counts`."""
    used = np.where(counts > 0, products, 0.0)
    level = np.sqrt(np.clip(used.sum((1, 2)) / np.maximum(counts.sum((1, 2)), 1.0), 0.01, 0.98))[:, None]
    skill = np.repeat(level, products.shape[1], 1)
    for _ in range(_FIT_ROUNDS):
        top = (used @ skill[:, :, None])[:, :, 0] + PRIOR_TASKS * level**3
        bottom = (counts @ (skill**2)[:, :, None])[:, :, 0] + PRIOR_TASKS * level**2
        skill = 0.5 * (skill + np.clip(top / bottom, -0.99, 0.99))
    return skill


def _rates(leniency: Floats, skill: Floats, chance: Floats) -> tuple[Floats, Floats]:
    """How often each approves what is good and what is bad, of which a share `chance` is good."""
    reach = skill * np.sqrt(leniency * (1 - leniency) / (chance * (1 - chance)))
    return np.clip(leniency + (1 - chance) * reach, 0.01, 0.99), np.clip(leniency - chance * reach, 0.01, 0.99)


def _variances(leniency: Floats, spread: Floats, skill: Floats, chance: Floats) -> Floats:
    """(B, R, R) variance of the product of two standardised words of independent reviewers."""
    chance = np.clip(chance, 0.02, 0.98)[:, None]
    squares = [(rate * (1 - rate) + (rate - leniency) ** 2) / spread**2 for rate in _rates(leniency, skill, chance)]
    total = sum(
        share[:, :, None] * square[:, :, None] * square[:, None, :]
        for share, square in zip((chance, 1 - chance), squares, strict=True)
    )
    return np.maximum(total - (skill[:, :, None] * skill[:, None, :]) ** 2, 1e-3)


def _grow(excess: Floats, variances: Floats, counts: Floats) -> tuple[Floats, Bools]:
    """The best group of each world: from each reviewer and the partner that is most alike, whoever adds most joins.

    A group is smaller than the rest, and leaves three: else it could as well be the rest that judges alike.

    Returns:
        (B,) sum of the excess over its standard deviation, less what luck gives a group of that size; (B, R) who is in.
    """
    worlds, size, _ = excess.shape
    alone = excess / np.sqrt(np.maximum(variances, 1e-9)) - np.where(counts > 0, 0.0, np.inf)
    rows, at = np.repeat(np.arange(worlds), size), np.arange(worlds * size)
    first = np.tile(np.arange(size), worlds)
    second = alone.argmax(2).ravel()
    member = np.zeros((worlds * size, size), dtype=bool)
    member[at, first] = member[at, second] = True
    gained, noise = excess[rows, first, second], variances[rows, first, second]
    adds, adds_noise = excess[rows, first] + excess[rows, second], variances[rows, first] + variances[rows, second]
    best = alone[rows, first, second] - _luck(size, 2)
    grows = np.isfinite(best)
    for joined in range(3, min((size - 1) // 2, size - 3) + 1):
        tried = (gained[:, None] + adds) / np.sqrt(np.maximum(noise[:, None] + adds_noise, 1e-9)) - _luck(size, joined)
        tried[member] = -np.inf
        new = tried.argmax(1)
        grows &= tried[at, new] > best
        if not grows.any():
            break
        who, there = new[grows], at[grows]
        best[there] = tried[there, who]
        gained[there] += adds[there, who]
        noise[there] += adds_noise[there, who]
        member[there, who] = True
        adds[there] += excess[rows[there], who]
        adds_noise[there] += variances[rows[there], who]
    chosen = best.reshape(worlds, size).argmax(1) + np.arange(worlds) * size
    return best[chosen], member[chosen]


def _luck(size: int, members: int) -> float:
    """About the largest of the standard normal scores of all groups of so many: larger groups are compared fairly."""
    return math.sqrt(2.0 * math.log(math.comb(size, members)))


def _check_known(group: Group, words: Sequence[Word], known: Mapping[Hashable, bool], policy: ScreenPolicy) -> Group:
    """Whether known answers explain a group: it is right where it stands apart, and stands apart as often there."""
    apart: dict[bool, dict[int, list[bool]]] = {True: defaultdict(list), False: defaultdict(list)}
    right: dict[int, list[bool]] = defaultdict(list)
    if group.kind == "favour":
        for word in words:
            if word.line == group.line and word.rater in group.raters:
                is_known = word.item in known
                apart[is_known][word.task].append(word.approves == (group.share > group.expected))
                if is_known:
                    right[word.task].append(word.approves == known[word.item])
    else:
        of_item: dict[Hashable, list[Word]] = defaultdict(list)
        for word in words:
            of_item[word.item].append(word)
        for item, said in of_item.items():
            ours = [word for word in said if word.rater in group.raters]
            theirs = [word for word in said if word.rater not in group.raters]
            for mine in ours:
                for other in theirs:
                    is_apart = mine.approves != other.approves
                    apart[item in known][mine.task].append(is_apart)
                    if is_apart and item in known:
                        right[mine.task].append(mine.approves == known[item])
    interval = wilson_interval(sum(fmean(one) for one in right.values()), len(right))
    there, elsewhere = ([fmean(one) for one in apart[is_known].values()] for is_known in (True, False))
    is_skill = interval.items >= policy.least_known and interval.low > 0.5
    return replace(group, known=interval, is_cleared=is_skill and not _is_more(elsewhere, there, policy.clear_level))


def _is_more(one: Sequence[float], two: Sequence[float], level: float) -> bool:
    """Whether the first mean lies above the second by more than chance: Welch's test, by the normal distribution."""
    if min(len(one), len(two)) < 2:
        return False
    error = (variance(one) / len(one) + variance(two) / len(two) + 1e-6) ** 0.5
    return NormalDist().cdf((fmean(two) - fmean(one)) / error) < level
