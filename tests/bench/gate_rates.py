"""How often the gate is wrong of adapters that are as good as what they are compared with, and how sure of worse ones.

The answers are real (`tests.bench.gate_answers`); which of an item's answers a version gives, and which items are drawn
anew for it, is drawn here, so that thousands of lines can be judged by the product's functions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean

import numpy as np

from tentalis.core.learning.collapse import (
    AnswerProfile,
    AnswerTraits,
    CollapseLimits,
    decide_alarms,
    profile_answers,
)
from tentalis.core.learning.gate import (
    AnchorOutcome,
    Direction,
    GatePolicy,
    find_direction,
    judge_progress,
    judge_serving,
)
from tentalis.core.learning.gate_course import Answers, Course, Known, Pairs, confirm, may_show
from tests.bench.gate_answers import ANCHOR, PANEL

POINTS = (-2, -4, -6, -8, -10, -12)
PROVED_WITHIN = 8
MARKS = (16, 64)
MOST_FALSE = 0.05
OUTCOME, STEP, BROKEN = 0, 1, 2
_QUIET = AnswerProfile(
    answers=PANEL, broken_tag_rate=0.0, missing_end_rate=0.0, entropy_nats=1.0, length_tokens=20.0, self_overlap=0.0
)
Draw = Callable[[np.random.Generator, np.ndarray], np.ndarray]
"""Items -> (items, traits): one answer to each."""


@dataclass(frozen=True)
class Line:
    """What one honest line answered: version -> (items, rounds, traits), the panel's items first."""

    seed: int
    answers: Sequence[np.ndarray]

    @classmethod
    def open(cls, path: Path, seed: int) -> "Line":
        with np.load(path) as kept:
            return cls(seed, [kept[f"v{version}"] for version in range(len(kept.files))])

    @property
    def items(self) -> int:
        return len(self.answers[0])

    @property
    def anchor(self) -> int:
        return min(ANCHOR, len(self.answers) - 1)

    def truth(self, version: int) -> float:
        """Share of all answers that are right."""
        return float(self.answers[version][..., OUTCOME].mean())

    def draw(self, version: int) -> Draw:
        return lambda rng, items: _pick(self.answers[version], rng, items)

    def mix(self, first: int, second: int, share: float) -> Draw:
        """An adapter that answers each item as the first version does, and with this chance as the second one."""

        def draw(rng: np.random.Generator, items: np.ndarray) -> np.ndarray:
            mine, other = (_pick(self.answers[version], rng, items) for version in (first, second))
            return np.where((rng.random(len(items)) < share)[:, None], other, mine)

        return draw

    def as_good(self) -> Draw:
        """Another adapter exactly as good as the anchor: better at some items and worse at others.

        Raises:
            ValueError: no version of the line is better, or none is worse.
        """
        truth = self.truth(self.anchor)
        others = [version for version in range(1, len(self.answers)) if version != self.anchor]
        worse = max((one for one in others if self.truth(one) < truth), key=self.truth, default=None)
        better = min((one for one in others if self.truth(one) > truth), key=self.truth, default=None)
        if worse is None or better is None:
            raise ValueError(f"line {self.seed}: wanted a version better and one worse than v{self.anchor}")
        share = (self.truth(better) - truth) / (self.truth(better) - self.truth(worse))
        return self.mix(better, worse, share)

    def worse_by(self, points: float) -> Draw:
        """An adapter that is so many percentage points from the anchor, downwards: here and there an older version."""
        missing = self.truth(self.anchor) - self.truth(0)
        return self.mix(self.anchor, 0, -points / 100 / missing)


def _pick(answers: np.ndarray, rng: np.random.Generator, items: np.ndarray) -> np.ndarray:
    picked: np.ndarray = answers[items, rng.integers(answers.shape[1], size=len(items))]
    return picked


def run_course(
    mine: np.ndarray, theirs: np.ndarray, *, policy: GatePolicy, base: AnswerProfile | None = None
) -> tuple[Answers, int]:
    """A candidate through the gate's course, and the tries it took beside what was kept already.

    Args:
        mine, theirs: (items, traits) of candidate and of what serves, the panel's items first, then those drawn.
        base: what the base model's answers look like; None: the candidate's as well, and nothing rings.
    """
    asked = [0, 0]

    def measure(kept: int, drawn: int) -> Known:
        asked[:] = kept, drawn
        return Known(
            kept=_pair_first(mine, theirs, kept),
            drawn=_pair_first(mine[PANEL:], theirs[PANEL:], drawn),
            profile=_profile(mine[:kept]) if base else _QUIET,
            base=base or _QUIET,
        )

    found = Course(policy=policy, kept=PANEL, drawn=len(mine) - PANEL).run(measure, measure_more=lambda _: None)
    return found, asked[0] + 2 * asked[1]


def _pair_first(mine: np.ndarray, theirs: np.ndarray, count: int) -> Pairs:
    return Pairs(
        mine=mine[:count, OUTCOME].tolist(),
        theirs=theirs[:count, OUTCOME].tolist(),
        my_steps=mine[:count, STEP].tolist(),
        their_steps=theirs[:count, STEP].tolist(),
    )


@dataclass
class Found:
    """Of many lines of versions: in how many of them the gate said something at least once, by (rule, versions)."""

    lines: int = 0
    proved: dict[tuple[str, int], int] = field(default_factory=dict)
    worse: dict[tuple[str, int], int] = field(default_factory=dict)

    def add(self, rule: str, marks: Sequence[int], proved: int | None, worse: int | None) -> None:
        """Note at which version a line was first called better and worse; None: never."""
        for mark in marks:
            for counts, first in ((self.proved, proved), (self.worse, worse)):
                key = rule, mark
                counts[key] = counts.get(key, 0) + (first is not None and first <= mark)


def judge_line(
    line: Line, draw: Draw, anchor_draw: Draw, rng: np.random.Generator, *, versions: int, policy: GatePolicy
) -> dict[str, tuple[int | None, int | None]]:
    """One line of versions that all answer alike, through the gate's second question.

    Args:
        draw, anchor_draw: what a version answers, and what the anchor does.
    Returns:
        By rule, the first version that was called better, and the first that was called worse: `confirmed` is the
        product's; `panel` is what the kept panel alone would have said.
    """
    firsts: dict[str, list[int | None]] = {"confirmed": [None, None], "panel": [None, None]}
    panel, looks = np.arange(PANEL), 0
    for version in range(1, versions + 1):
        if (version - 1) % policy.panel_lifetime == 0 and version > 1:
            panel = rng.choice(line.items, PANEL, replace=False)
        others = rng.permutation(np.setdiff1d(np.arange(line.items), panel))[: policy.confirm_size]
        items = np.concatenate([panel, others])
        if version == 1 or (version - 1) % policy.panel_lifetime == 0:
            anchor = anchor_draw(rng, panel)
        mine, theirs = draw(rng, items), np.concatenate([anchor, anchor_draw(rng, others)])
        found, _ = run_course(mine, theirs, policy=policy)
        kept = found.known.kept
        outcomes, steps = kept.compare(policy.confidence)
        shown = find_direction(outcomes, policy=policy, second=steps)
        if shown is Direction.NEITHER and may_show(outcomes, steps, policy=policy, items=PANEL):
            outcomes, steps = _pair_first(mine, theirs, PANEL).compare(policy.confidence)
            shown = find_direction(outcomes, policy=policy, second=steps)
        if outcomes.low > 0 and steps.low > 0:
            firsts["panel"][0] = firsts["panel"][0] or version
        if outcomes.high < 0 or steps.high < 0:
            firsts["panel"][1] = firsts["panel"][1] or version
        if shown is Direction.NEITHER:
            continue
        looks += 1
        confirmation = confirm(
            shown,
            look=looks,
            policy=policy,
            items=len(others),
            measure=partial(_pair_first, mine[PANEL:], theirs[PANEL:]),
        )
        verdict = judge_progress(
            outcomes,
            against="",
            policy=policy,
            updates_since_anchor=version,
            second=steps,
            confirmation=confirmation,
        )
        if verdict.outcome is AnchorOutcome.PROVED:
            firsts["confirmed"][0] = firsts["confirmed"][0] or version
            anchor, anchor_draw, looks = mine[:PANEL], draw, 0
        if verdict.outcome is AnchorOutcome.WORSE:
            firsts["confirmed"][1] = firsts["confirmed"][1] or version
    return {rule: (first[0], first[1]) for rule, first in firsts.items()}


def judge_null_lines(
    lines: Sequence[Line], *, kind: str, repeats: int, marks: Sequence[int], policy: GatePolicy
) -> Found:
    """Many lines of versions as good as what they come from.

    Args:
        kind: `same` weights, answering with other seeds; or `other` adapters, exactly as good over all items.
    """
    found = Found()
    for line in lines:
        draw = line.draw(line.anchor) if kind == "same" else line.as_good()
        for repeat in range(repeats):
            rng, anchor = np.random.default_rng((line.seed, repeat)), line.draw(line.anchor)
            for rule, firsts in judge_line(line, draw, anchor, rng, versions=max(marks), policy=policy).items():
                found.add(rule, marks, *firsts)
            found.lines += 1
    return found


def measure_proofs(lines: Sequence[Line], points: float, *, repeats: int, versions: int, policy: GatePolicy) -> float:
    """Share of lines truly so many points better than their anchor that are proved so within this many versions."""
    proved = 0
    for line in lines:
        draw, anchor = line.draw(line.anchor), line.worse_by(-points)
        for repeat in range(repeats):
            rng = np.random.default_rng((line.seed, repeat, int(points), 1))
            firsts = judge_line(line, draw, anchor, rng, versions=versions, policy=policy)
            proved += firsts["confirmed"][0] is not None
    return proved / (len(lines) * repeats)


@dataclass(frozen=True, kw_only=True)
class Verdicts:
    """Of many candidates that are truly as good: shares of them, and the tries each took beside what was kept already.

    Args:
        refused: may not serve. sure: of those, by an interval that lies wholly beyond the margin, before all is tried.
        leaks: of all, under suspicion of a leak.
        tries: sorted.
    """

    refused: float
    sure: float
    leaks: float
    tries: Sequence[int]

    @property
    def median_tries(self) -> int:
        return self.tries[len(self.tries) // 2]


def judge_candidates(
    lines: Sequence[Line], candidate: Callable[[Line], Draw], *, repeats: int, policy: GatePolicy, leaked: float = 0.0
) -> Verdicts:
    """Many candidates through the gate's course against their line's anchor, which serves.

    Args:
        leaked: chance that a task of the kept panel is answered right because it is known.
    """
    refused = sure = leaks = 0
    tries: list[int] = []
    for line in lines:
        draw, served = candidate(line), line.draw(line.anchor)
        base = _profile(line.draw(0)(np.random.default_rng(line.seed), np.arange(PANEL)))
        for repeat in range(repeats):
            rng = np.random.default_rng((line.seed, repeat, 11))
            items = np.concatenate(
                [np.arange(PANEL), rng.permutation(np.arange(PANEL, line.items))[: policy.confirm_size]]
            )
            mine, theirs = draw(rng, items), served(rng, items)
            known = rng.random(PANEL) < leaked
            mine[:PANEL][known, OUTCOME] = mine[:PANEL][known, STEP] = 1.0
            found, asked = run_course(mine, theirs, policy=policy, base=base)
            verdict = judge_serving(found.outcomes, against="", policy=policy, second=found.steps)
            refused += not verdict.is_safe
            sure += found.outcomes.high < -policy.margin or found.steps.high < -policy.second_margin
            leaks += bool(found.leaks)
            tries.append(asked)
    total = len(tries)
    return Verdicts(refused=refused / total, sure=sure / total, leaks=leaks / total, tries=sorted(tries))


@dataclass(frozen=True)
class TagAlarms:
    """How often the alarm of broken tags rang, of honest updates.

    Args:
        false: share of those whose tags are truly no more than the bar allows.
        true: share of those whose tags are truly worse than that; None where no version's are.
        versions: how many versions are of either kind.
    """

    false: float
    true: float | None
    versions: tuple[int, int]


def measure_tag_alarms(lines: Sequence[Line], *, repeats: int) -> TagAlarms:
    """Ask of every version again and again, on the panel and what is measured besides, whether its tags are broken."""
    allowed = CollapseLimits().broken_tags_over_base
    within: list[float] = []
    beyond: list[float] = []
    panel = np.arange(PANEL)
    for line in lines:
        base = line.draw(0)
        for version in range(1, len(line.answers)):
            draw, rang = line.draw(version), 0
            for repeat in range(repeats):
                rng = np.random.default_rng((line.seed, version, repeat, 9))

                def measure_more(
                    count: int, draw: Draw = draw, base: Draw = base, rng: np.random.Generator = rng, line: Line = line
                ) -> tuple[AnswerProfile, AnswerProfile]:
                    items = rng.permutation(np.arange(PANEL, line.items))[:count]
                    return _profile(draw(rng, items)), _profile(base(rng, items))

                found = decide_alarms(_profile(draw(rng, panel)), _profile(base(rng, panel)), measure_more=measure_more)
                rang += any(alarm.detector == "broken_tags" for alarm in found.alarms)
            truth = float(line.answers[version][..., BROKEN].mean() - line.answers[0][..., BROKEN].mean())
            (beyond if truth > allowed else within).append(rang / repeats)
    return TagAlarms(fmean(within), fmean(beyond) if beyond else None, (len(within), len(beyond)))


def _profile(answers: np.ndarray) -> AnswerProfile:
    return profile_answers(
        [
            AnswerTraits(
                has_broken_tags=bool(broken),
                has_end=bool(ended),
                entropy_nats=float(entropy),
                length_tokens=int(length),
                self_overlap=float(overlap),
            )
            for _, _, broken, ended, entropy, length, overlap in answers.tolist()
        ]
    )
