"""What the gate measures beside the kept panel: tasks drawn anew, skills no reward sees, other strengths, the noise."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import reduce
from math import ceil
from statistics import fmean
from typing import Any, NamedTuple

from apps.adapters.errors import AdapterNotServableError
from apps.adapters.models import Adapter, Verdict
from apps.adapters.serving import client_of, serve_scaled
from apps.evals.answering import AGAIN
from apps.evals.comparing import pair, pair_first
from apps.evals.measuring import play
from apps.evals.models import Evaluation
from apps.evals.panels import ItemSet, Panel, draw_fresh
from apps.evals.results import Measured, WantedTries, find_measured
from apps.gate.pairs import SideBySide, compare
from apps.workers.agents import works_outside
from tentalis.core.learning.collapse import ENOUGH_ANSWERS, Alarm, AnswerProfile, decide_alarms, join_profiles
from tentalis.core.learning.gate import (
    LEAST_CONFIRMED,
    Confirmation,
    Direction,
    GatePolicy,
    compare_paired,
    foresee_bound,
)
from tentalis.core.learning.gate_course import Answers, Course, Known, Pairs, confirm, limits_of
from tentalis.core.learning.quarantine_checks import (
    LEAST_CHANCE,
    WEAKER,
    Finding,
    may_be_better,
    suspect_skills,
    suspect_strength,
)
from tentalis.core.learning.sequential import Looks

SKILLS_DRAWN = 4
"""Tasks that the base model is tried on for each one that it is hoped to do right."""
SKILLS_ROUNDS = 4
"""Times that each of those is answered at most, where the base model does few right."""
SKILLS_SHARE = 1 / 5
"""Of those, at each look."""
STRENGTH_BLOCK = 20
"""Tasks that a weaker adapter is tried on at a time."""

CONFIRMATION = "confirmation"
"""Under which a verdict keeps what was measured to confirm it; those that have one count the looks at an anchor."""


class _Question(NamedTuple):
    """What one model is to say to these places of a set; None for all of it."""

    purpose: Evaluation.Purpose
    model: Adapter | None
    asked: ItemSet
    places: Sequence[int] | None = None
    tries: int = 1
    is_greedy: bool = False
    seed: int = 0


class SideMeasurements:
    """All that is measured of a candidate, each answer asked for once and kept."""

    def __init__(
        self, adapter: Adapter, panel: Panel, policy: GatePolicy, side_by_side: SideBySide | None = None
    ) -> None:
        """`side_by_side`: what tells answers apart where nothing says what is right."""
        self.adapter, self.worker, self.panel, self.policy = adapter, adapter.worker, panel, policy
        self.side_by_side = side_by_side
        self.fresh = draw_fresh(panel, key=adapter.sha256, policy=policy)
        self.details: dict[str, Any] = {}
        self._known: dict[Any, Measured] = {}

    def run_course(self, deployed: Adapter | None, *, asks_leak: bool) -> Answers:
        """Whether it may serve, whether its answers fall apart, and whether its gain is on known tasks alone."""
        panel = self.panel

        def measure(kept: int, drawn: int) -> Known:
            models, sides = dict.fromkeys((self.adapter, None, deployed)), (self.adapter, deployed)
            both = [self._on_drawn(model, drawn) for model in sides if drawn]
            mine, theirs, *_ = self._ask(*(self._on_kept(model, kept) for model in models), *both)
            return Known(
                kept=self.compare_kept(deployed, kept),
                drawn=self._compare_drawn(deployed, drawn),
                profile=mine.profile,
                base=theirs.profile,
            )

        course = Course(
            policy=self.policy,
            kept=len(panel.items),
            drawn=len(self.fresh.items) if self.policy.fresh_size and not panel.own else 0,
            asks_leak=asks_leak,
        )
        found = course.run(measure, measure_more=self._measure_more)
        self._tell_doubted(found.doubted)
        self.details["asked"] = {
            "kept": found.kept,
            "drawn": found.drawn,
            "planned": found.planned,
            "looks": found.looks,
        }
        return found

    def ask_alarms(self) -> Sequence[Alarm]:
        """Whether its answers fall apart, by all that it and the base model were tried on: a confirmation's too."""
        mine, base = (self._profile(model) for model in (self.adapter, None))
        limits = limits_of(self.policy)
        found = decide_alarms(mine, base, measure_more=self._measure_more, limits=limits)
        self._tell_doubted(found.doubted)
        return found.alarms

    def _profile(self, model: Adapter | None) -> AnswerProfile:
        """Of its answers to the panel, to what was drawn for this candidate, and where few answers left a doubt."""
        purposes = (Evaluation.Purpose.PANEL, Evaluation.Purpose.FRESH, Evaluation.Purpose.MORE)
        found = [
            one.profile
            for (purpose, asked, *_), one in self._known.items()
            if asked == model and purpose in purposes and one.evaluation.profile
        ]
        return reduce(join_profiles, found)

    def _measure_more(self, count: int) -> tuple[AnswerProfile, AnswerProfile]:
        panel = self.panel
        if panel.own:  # none can be drawn besides them: they are tried again
            more, tries, seed = panel.item_set, ceil(count / panel.size), AGAIN * panel.tries
        else:
            items = panel.draw_behind(count)
            more, tries, seed = ItemSet(f"{panel.name}+{len(items)}", panel.world, items), 1, 0
        asked = (_Question(Evaluation.Purpose.MORE, one, more, None, tries, seed=seed) for one in (self.adapter, None))
        mine, theirs = self._ask(*asked)
        return mine.profile, theirs.profile

    def _tell_doubted(self, alarms: Sequence[Alarm]) -> None:
        if alarms:
            self.details["doubted alarms"] = [asdict(one) for one in alarms]

    def confirm(self, anchor: Adapter | None, shown: Direction) -> Confirmation | None:
        """What the panel shows against the anchor, asked once more of tasks that nobody looked at before.

        A project's own items are asked with other seeds instead. The same items at every look: so each version since
        the anchor counts as one, confirmed or not.

        Returns:
            None where fewer than `LEAST_CONFIRMED` tasks are left to be drawn.
        """
        if len(self.fresh.items) < LEAST_CONFIRMED:
            return None
        since = anchor.line_version if anchor else 0
        before = Verdict.objects.filter(
            adapter__worker=self.worker,
            adapter__end_user=self.adapter.end_user,
            question=Verdict.Question.PROVED,
            compared_with=anchor.name if anchor else "",
            details__has_key=CONFIRMATION,
        )
        found = confirm(
            shown,
            look=self.adapter.line_version - since if self.panel.own else before.count() + 1,
            policy=self.policy,
            items=len(self.fresh.items),
            measure=lambda count: self._compare_drawn(anchor, count),
        )
        return replace(found, is_again=bool(self.panel.own))

    def compare_kept(self, other: Adapter | None, count: int) -> Pairs:
        """On the first tasks of the kept panel."""
        mine, theirs = self._ask(*(self._on_kept(model, count) for model in (self.adapter, other)))
        return self._pair(mine, theirs, self.panel.item_set, count)

    def _compare_drawn(self, other: Adapter | None, count: int) -> Pairs:
        """On the first tasks that are drawn for this candidate alone."""
        if not count:
            return Pairs()
        mine, theirs = self._ask(*(self._on_drawn(model, count) for model in (self.adapter, other)))
        return self._pair(mine, theirs, self.fresh, count)

    def _pair(self, mine: Measured, theirs: Measured, asked: ItemSet, count: int) -> Pairs:
        if self.side_by_side is not None:
            return compare(self.side_by_side, mine, theirs, asked, count)
        return pair_first(mine, theirs, asked.keys[:count])

    def _on_kept(self, model: Adapter | None, count: int) -> _Question:
        return _Question(Evaluation.Purpose.PANEL, model, self.panel.item_set, range(count), self.panel.tries)

    def _on_drawn(self, model: Adapter | None, count: int) -> _Question:
        return _Question(Evaluation.Purpose.FRESH, model, self.fresh, range(count), self.panel.tries)

    def _ask(self, *questions: _Question) -> list[Measured]:
        """What models answer; only what is not known yet is tried, all of it together."""
        found = []
        for purpose, model, asked, _, tries, is_greedy, seed in questions:
            key = (purpose, model, asked.hash, tries, is_greedy, seed)
            if key not in self._known:
                self._known[key] = find_measured(
                    self.worker, model, asked, purpose, tries=tries, is_greedy=is_greedy, seed=seed
                )
            found.append(self._known[key])
        play(*(WantedTries(one, each.asked, each.places) for one, each in zip(found, questions, strict=True)))
        return found

    def suspect_skills(self, deployed: Adapter | None) -> Iterator[Finding]:
        """On tasks whose likeliest answer by the base model is right: chosen by it alone, so neither side is favoured.

        They are answered as in service, by sampling: one token that overtakes another by a hair turns the likeliest
        answer to all tasks of a kind, and says nothing of what the model can do. A block at a time, until it is sure
        that too much was lost, or all of them will hardly show that.
        """
        size = min(self.policy.skills_size, self.panel.size)
        drawn = self.panel.draw_skills(SKILLS_DRAWN * size) if size else ()
        if not drawn:
            return
        name = f"{self.panel.world.name}/{len(drawn)}/skills"
        asked = ItemSet(name, self.panel.world, drawn)
        (greedy,) = self._ask(_Question(Evaluation.Purpose.SKILLS, None, asked, is_greedy=True))
        base = greedy.outcomes
        items = [item for item, key in zip(drawn, asked.keys, strict=True) if base.get(key) == 1.0][:size]
        if not items:
            return
        rounds = min(SKILLS_ROUNDS, -(-size // len(items)))
        known = ItemSet(f"{name}/{len(items)}", self.panel.world, items)
        looks, count = Looks(len(items), confidence=self.policy.confidence), 0
        while True:
            count = min(count + ceil(len(items) * SKILLS_SHARE), len(items))
            mine, *others = self._ask(
                *(
                    _Question(Evaluation.Purpose.SKILLS, model, known, range(count), rounds)
                    for model in dict.fromkeys((self.adapter, None, deployed))
                )
            )
            pairs = [pair_first(mine, other, known.keys[:count]) for other in others]
            chosen = min(pairs, key=lambda one: fmean(one.theirs))
            found, _ = chosen.compare(looks.look(count, chosen.weights))
            lost = suspect_skills(found, margin=self.policy.skills_margin)
            chance = foresee_bound(found, items=len(items), below=-self.policy.skills_margin)
            if lost or count == len(items) or chance < LEAST_CHANCE:
                break
        self.details["skills"] = asdict(found)
        yield from lost

    def suspect_strength(self) -> Iterator[Finding]:
        """At a part of its strength, on the first tasks of the panel; what is not tried is told.

        Those that it did not get right come first, for on no others can a weaker one do better; a strength is left as
        soon as it will hardly be clearly better.
        """
        panel, (candidate,) = self.panel.item_set, self._ask(self._on_kept(self.adapter, 0))
        scored = [place for place, key in enumerate(panel.keys) if key in candidate.outcomes][: self.policy.sweep_size]
        if not scored:
            self.details["untried"] = "other strengths were not tried: nothing says what is right"
            return
        places = sorted(scored, key=lambda place: bool(candidate.outcomes[panel.keys[place]] == 1.0))
        keys = [panel.keys[place] for place in places]
        whole, size = [candidate.outcomes[key] for key in keys], len(places)
        if not sum(outcome < 1.0 for outcome in whole):
            self.details["untried"] = f"other strengths were not tried: all {size} tasks are right as trained"
            return
        if works_outside(self.worker):
            self.details["untried"] = "other strengths were not tried: its agent tries what is served for longer alone"
            return
        client, at = client_of(self.worker), dict[float, Sequence[float]]({1.0: whole})
        tried = {
            scale: find_measured(self.worker, self.adapter, panel, Evaluation.Purpose.SCALE, scale=scale)
            for scale in WEAKER
        }
        try:
            with ExitStack() as stack:
                names = {scale: stack.enter_context(serve_scaled(client, self.adapter, scale)) for scale in WEAKER}
                left: Sequence[float] = WEAKER
                for upto in range(STRENGTH_BLOCK, size + STRENGTH_BLOCK, STRENGTH_BLOCK):
                    play(*(WantedTries(tried[scale], panel, places[:upto], names[scale]) for scale in left))
                    for scale in left:
                        known = tried[scale].outcomes
                        at[scale] = [known.get(key, candidate.outcomes[key]) for key in keys[:upto]]
                    left = [scale for scale in left if may_be_better(at[scale], whole)]
        except AdapterNotServableError as error:
            self.details["untried"] = f"other strengths were not tried: {error}"
            return
        self.details["scales"] = {
            f"{scale:g}": {"tried": len(found), "of": size, "right": sum(found)} for scale, found in at.items()
        }
        yield from suspect_strength(at)

    def measure_noise(self, deployed: Adapter | None, count: int) -> float:
        """Spread of an item's difference between two measurements of what serves, of so many tasks; once a panel."""
        panel = self.panel.item_set
        kept = Evaluation.objects.filter(
            worker=self.worker, purpose=Evaluation.Purpose.REPEAT, item_set=panel.name, item_set_hash=panel.hash
        ).last()
        model = kept.adapter if kept is not None else deployed
        places = range(count if kept is None else kept.played)
        again, first = self._ask(
            _Question(Evaluation.Purpose.REPEAT, model, panel, places, seed=AGAIN),
            _Question(Evaluation.Purpose.PANEL, model, panel, places),
        )
        return compare_paired(*pair(again.outcomes, first.outcomes, again.weights)).std


def list_measured(panel: Panel, policy: GatePolicy, *, sha256: str = "") -> set[str]:
    """Prompts of the panel and of what makes a small one longer, of the skills that must not be lost, and of what is
    drawn for one candidate alone.

    Args:
        sha256: the candidate's; "" before there is one, when nobody can know what will be drawn for it.
    """
    drawn = [*panel.items, *panel.draw_behind(max(ENOUGH_ANSWERS - panel.size, 0))]
    if size := min(policy.skills_size, panel.size):
        drawn += panel.draw_skills(SKILLS_DRAWN * size)
    if sha256:
        drawn += draw_fresh(panel, key=sha256, policy=policy).items
    return {item.prompt for item in drawn}
