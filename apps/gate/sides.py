"""What the gate measures beside the kept panel: tasks drawn anew, skills no reward sees, other strengths, the noise."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from statistics import fmean
from typing import Any

from apps.adapters.errors import AdapterNotServableError
from apps.adapters.models import Adapter, Verdict
from apps.adapters.serving import client_of
from apps.evals.comparing import compare_measured, pair
from apps.evals.measuring import AGAIN, Measured, find_measured, measure, play
from apps.evals.models import Evaluation
from apps.evals.panels import ItemSet, Panel, draw_fresh, draw_skills
from apps.gate.strength_sweep import serve_scaled
from tentalis.core.learning.collapse import Alarm, AnswerProfile, decide_alarms
from tentalis.core.learning.gate import (
    LEAST_CONFIRMED,
    Confirmation,
    GatePolicy,
    PairedComparison,
    compare_paired,
    spend_alpha,
)
from tentalis.core.learning.quarantine_checks import (
    SURE_OF_LEAK,
    WEAKER,
    Finding,
    may_be_better,
    suspect_leak,
    suspect_skills,
    suspect_strength,
)

SKILLS_SEED = 90_000
SKILLS_DRAWN = 4
"""Tasks that the base model is tried on for each one that it is hoped to do right."""
SKILLS_ROUNDS = 4
"""Times that each of those is answered at most, where the base model does few right."""
FIRST_MORE = 10
"""Tasks that a weaker adapter is tried on first of those that it gets right as trained: most fail enough of them."""

CONFIRMATION = "confirmation"
"""Under which a verdict keeps what was measured to confirm it; those that have one count the looks at an anchor."""


class SideMeasurements:
    """The measurements beside the panel, each made once and kept."""

    def __init__(self, adapter: Adapter, panel: Panel, policy: GatePolicy) -> None:
        self.adapter, self.worker, self.panel, self.policy = adapter, adapter.worker, panel, policy
        self.fresh = draw_fresh(panel, key=adapter.sha256, policy=policy)
        self.details: dict[str, Any] = {}
        self._known: dict[Any, Measured] = {}

    def find_alarms(self, candidate: Measured, base: Measured) -> tuple[Alarm, ...]:
        """Whether its answers fall apart; what a small panel cannot tell from noise is asked of tasks behind it too."""

        def measure_more(count: int) -> tuple[AnswerProfile, AnswerProfile] | None:
            items = replace(self.panel, size=self.panel.size + count).items[self.panel.size :]
            if not items:
                return None
            more = ItemSet(f"{self.panel.name}+{len(items)}", self.panel.world, items)
            mine, theirs = (self._measure(Evaluation.Purpose.MORE, model, more) for model in (self.adapter, None))
            return mine.profile, theirs.profile

        found = decide_alarms(candidate.profile, base.profile, measure_more=measure_more)
        if found.doubted:
            self.details["doubted alarms"] = [asdict(one) for one in found.doubted]
        return found.alarms

    def measure_fresh(self, model: Adapter | None) -> Measured:
        """On tasks that are drawn for this candidate alone."""
        return self._measure(Evaluation.Purpose.FRESH, model, self.fresh.first)

    def measure_further(self, model: Adapter | None) -> list[Measured]:
        """On those, and on the further ones that were drawn with them."""
        first = [self.measure_fresh(model)] if self.fresh.first.items else []
        if not self.fresh.further.items:
            return first
        return [*first, self._measure(Evaluation.Purpose.MORE, model, self.fresh.further)]

    def confirm(self, anchor: Adapter | None) -> Confirmation | None:
        """What the panel shows against the anchor, asked once more of tasks that nobody looked at before.

        Returns:
            None where fewer than `LEAST_CONFIRMED` tasks are left to be drawn.
        """
        if len(self.fresh.first.items) + len(self.fresh.further.items) < LEAST_CONFIRMED:
            return None
        mine, theirs = self.measure_further(self.adapter), self.measure_further(anchor)
        before = Verdict.objects.filter(
            adapter__worker=self.worker,
            adapter__end_user=self.adapter.end_user,
            question=Verdict.Question.PROVED,
            compared_with=anchor.name if anchor else "",
            details__has_key=CONFIRMATION,
        )
        look = before.count() + 1
        error = spend_alpha(look, confidence=self.policy.confidence)
        outcomes, steps = compare_measured(mine, theirs, confidence=1 - 2 * error)
        return Confirmation(look=look, comparison=outcomes, second=steps)

    def suspect_leak(self, kept: PairedComparison, deployed: Adapter | None) -> Iterator[Finding]:
        """Whether it gained on the kept panel alone; what few fresh tasks may show by chance is asked of more.

        Every update is asked this, most of them honest: the second question is put to the few that the first one rang
        for, and must be as sure as all of them together want it.
        """
        confidence = self.policy.confidence
        first, _ = compare_measured(
            [self.measure_fresh(self.adapter)], [self.measure_fresh(deployed)], confidence=confidence
        )
        if suspect_leak(kept, first):
            more = self.measure_further(self.adapter), self.measure_further(deployed)
            drawn, _ = compare_measured(*more, confidence=confidence)
            yield from suspect_leak(kept, drawn, confidence=SURE_OF_LEAK)

    def suspect_skills(self, deployed: Adapter | None) -> Iterator[Finding]:
        """On tasks whose likeliest answer by the base model is right: chosen by it alone, so neither side is favoured.

        They are answered as in service, by sampling: one token that overtakes another by a hair turns the likeliest
        answer to all tasks of a kind, and says nothing of what the model can do.
        """
        size = min(self.policy.skills_size, self.panel.size)
        drawn = draw_skills(replace(self.panel, size=SKILLS_DRAWN * size, seed=SKILLS_SEED)) if size else ()
        if not drawn:
            return
        name = f"{self.panel.world.name}/{len(drawn)}/skills"
        asked = ItemSet(name, self.panel.world, drawn)
        base = self._measure(Evaluation.Purpose.SKILLS, None, asked, is_greedy=True).outcomes
        items = [item for item, key in zip(drawn, asked.keys, strict=True) if base.get(key) == 1.0][:size]
        if not items:
            return
        rounds = min(SKILLS_ROUNDS, -(-size // len(items)))
        known = ItemSet(f"{name}/{len(items)}", self.panel.world, items)
        mine, *before = (
            self._measure(Evaluation.Purpose.SKILLS, model, known, tries=rounds)
            for model in dict.fromkeys((self.adapter, None, deployed))
        )
        found, _ = compare_measured(
            [mine], [min(before, key=lambda one: fmean(one.outcomes.values()))], confidence=self.policy.confidence
        )
        self.details["skills"] = asdict(found)
        yield from suspect_skills(found, margin=self.policy.skills_margin)

    def suspect_strength(self, candidate: Measured) -> Iterator[Finding]:
        """At a part of its strength, on the first tasks of the panel; what is not tried is told.

        Those that it did not get right come first, for on no others can a weaker one do better; the others are tried
        only where it may then be clearly better.
        """
        size = min(self.policy.sweep_size, self.panel.size)
        if not size:
            return
        panel = self.panel.item_set
        scored = [place for place in range(size) if panel.keys[place] in candidate.outcomes]
        places = sorted(scored, key=lambda place: bool(candidate.outcomes[panel.keys[place]] == 1.0))
        keys = [panel.keys[place] for place in places]
        whole = [candidate.outcomes[key] for key in keys]
        failed = sum(outcome < 1.0 for outcome in whole)
        if not failed:
            self.details["untried"] = f"other strengths were not tried: all {size} tasks are right as trained"
            return
        client, at = client_of(self.worker), dict[float, Sequence[float]]({1.0: whole})
        for scale in WEAKER:
            try:
                with serve_scaled(client, self.adapter, scale) as name:
                    tried = find_measured(self.worker, self.adapter, panel, Evaluation.Purpose.SCALE, scale=scale)
                    for upto in (failed, failed + FIRST_MORE, len(places)):
                        play(tried, panel, places=places[:upto], model=name)
                        at[scale] = [tried.outcomes.get(key, candidate.outcomes[key]) for key in keys[:upto]]
                        if not may_be_better(at[scale], whole):
                            break
            except AdapterNotServableError as error:
                self.details["untried"] = f"other strengths were not tried: {error}"
                return
        self.details["scales"] = {
            f"{scale:g}": {"tried": len(found), "of": size, "right": sum(found)} for scale, found in at.items()
        }
        yield from suspect_strength(at)

    def measure_noise(self, deployed: Adapter | None) -> float:
        """Spread of an item's difference between two measurements of what serves."""
        panel = self.panel.item_set
        kept = Evaluation.objects.filter(
            worker=self.worker, purpose=Evaluation.Purpose.REPEAT, item_set=panel.name, item_set_hash=panel.hash
        ).last()
        model = kept.adapter if kept is not None else deployed
        again = find_measured(self.worker, model, panel, Evaluation.Purpose.REPEAT, seed=AGAIN)
        play(again, panel, places=range(min(self.policy.fresh_size, len(panel.items))))
        first = self._measure(Evaluation.Purpose.PANEL, model, panel)
        return compare_paired(*pair(again.outcomes, first.outcomes)).std

    def _measure(self, purpose: Evaluation.Purpose, model: Adapter | None, asked: ItemSet, **settings: Any) -> Measured:
        key = (purpose, model, asked.hash, *settings.values())
        if key not in self._known:
            self._known[key] = measure(self.worker, model, asked, purpose, **settings)
        return self._known[key]
