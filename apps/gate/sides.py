"""What the gate measures beside the kept panel: tasks drawn anew, skills no reward sees, other strengths, the noise."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from statistics import fmean
from typing import Any

from apps.adapters.errors import AdapterNotServableError
from apps.adapters.models import Adapter, PanelResult, SideResult, Verdict
from apps.adapters.panels import (
    Panel,
    Tried,
    draw_fresh,
    draw_skills,
    name_of,
    profile_of,
    try_items,
)
from apps.adapters.serving import client_of
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
from tentalis.core.worlds import PanelItem

SKILLS_SEED = 90_000
SKILLS_DRAWN = 4
"""Tasks that the base model is tried on for each one that it is hoped to do right."""
SKILLS_ROUNDS = 4
"""Times that each of those is answered at most, where the base model does few right."""
FIRST_MORE = 10
"""Tasks that a weaker adapter is tried on first of those that it gets right as trained: most fail enough of them."""
AGAIN = 7_919
"""Added to a panel's seeds where it is measured once more."""

CONFIRMATION = "confirmation"
"""Under which a verdict keeps what was measured to confirm it; those that have one count the looks at an anchor."""


class SideMeasurements:
    """The measurements beside the panel, each made once and kept."""

    def __init__(self, adapter: Adapter, panel: Panel, policy: GatePolicy) -> None:
        self.adapter, self.worker, self.panel, self.policy = adapter, adapter.worker, panel, policy
        self.fresh = draw_fresh(panel, key=adapter.sha256, policy=policy)
        self.made: list[SideResult] = []
        self.details: dict[str, Any] = {}

    def find_alarms(self, candidate: PanelResult, base: PanelResult) -> tuple[Alarm, ...]:
        """Whether its answers fall apart; what a small panel cannot tell from noise is asked of tasks behind it too."""

        def measure_more(count: int) -> tuple[AnswerProfile, AnswerProfile] | None:
            items = replace(self.panel, size=self.panel.size + count).items[self.panel.size :]
            if not items:
                return None
            name = f"{self.panel.name}+{len(items)}"
            mine, theirs = (
                profile_of(self._find_or_try(SideResult.Kind.MORE, model, items, panel=name))
                for model in (self.adapter, None)
            )
            return mine, theirs

        found = decide_alarms(profile_of(candidate), profile_of(base), measure_more=measure_more)
        if found.doubted:
            self.details["doubted alarms"] = [asdict(one) for one in found.doubted]
        return found.alarms

    def measure_fresh(self, model: Adapter | None) -> SideResult:
        """On tasks that are drawn for this candidate alone."""
        return self._find_or_try(SideResult.Kind.FRESH, model, self.fresh.items, panel=self.fresh.name)

    def measure_further(self, model: Adapter | None) -> list[SideResult]:
        """On those, and on the further ones that were drawn with them."""
        first = [self.measure_fresh(model)] if self.fresh.items else []
        if not self.fresh.further:
            return first
        name = self.fresh.further_name
        return [*first, self._find_or_try(SideResult.Kind.MORE, model, self.fresh.further, panel=name)]

    def confirm(self, anchor: Adapter | None) -> Confirmation | None:
        """What the panel shows against the anchor, asked once more of tasks that nobody looked at before.

        Returns:
            None where fewer than `LEAST_CONFIRMED` tasks are left to be drawn.
        """
        if len(self.fresh.items) + len(self.fresh.further) < LEAST_CONFIRMED:
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
        outcomes, steps = compare_results(mine, theirs, 1 - 2 * error)
        return Confirmation(look=look, comparison=outcomes, second=steps)

    def suspect_leak(self, kept: PairedComparison, deployed: Adapter | None) -> Iterator[Finding]:
        """Whether it gained on the kept panel alone; what few fresh tasks may show by chance is asked of more.

        Every update is asked this, most of them honest: the second question is put to the few that the first one rang
        for, and must be as sure as all of them together want it.
        """
        first, _ = compare_results(
            [self.measure_fresh(self.adapter)], [self.measure_fresh(deployed)], self.policy.confidence
        )
        if suspect_leak(kept, first):
            more = self.measure_further(self.adapter), self.measure_further(deployed)
            drawn, _ = compare_results(*more, self.policy.confidence)
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
        base = self._find_or_try(SideResult.Kind.SKILLS, None, drawn, panel=name, greedy=True)
        items = [item for item, outcome in zip(drawn, base.outcomes, strict=True) if outcome == 1.0][:size]
        if not items:
            return
        rounds = range(min(SKILLS_ROUNDS, -(-size // len(items))))
        asked = [replace(item, seed=item.seed + AGAIN * again) for again in rounds for item in items]
        mine, *before = (
            _means(self._find_or_try(SideResult.Kind.SKILLS, model, asked, panel=f"{name}/{len(asked)}"), len(items))
            for model in dict.fromkeys((self.adapter, None, deployed))
        )
        found = compare_paired(mine, min(before, key=fmean), confidence=self.policy.confidence)
        self.details["skills"] = asdict(found)
        yield from suspect_skills(found, margin=self.policy.skills_margin)

    def suspect_strength(self, candidate: PanelResult) -> Iterator[Finding]:
        """At a part of its strength, on the first tasks of the panel; what is not tried is told.

        Those that it did not get right come first, for on no others can a weaker one do better; the others are tried
        only where it may then be clearly better.
        """
        size = min(self.policy.sweep_size, self.panel.size)
        if not size:
            return
        places = sorted(range(size), key=lambda place: bool(candidate.outcomes[place] == 1.0))
        whole = [candidate.outcomes[place] for place in places]
        failed = sum(outcome < 1.0 for outcome in whole)
        if not failed:
            self.details["untried"] = f"other strengths were not tried: all {size} tasks are right as trained"
            return
        client, at = client_of(self.worker), dict[float, Sequence[float]]({1.0: whole})
        items = [self.panel.items[place] for place in places]
        for scale in WEAKER:
            try:
                with serve_scaled(client, self.adapter, scale) as name:
                    tried = try_items(self.worker, self.panel.world, items[:failed], model=name)
                    for block in (items[failed : failed + FIRST_MORE], items[failed + FIRST_MORE :]):
                        if block and may_be_better(tried.outcomes, whole):
                            further = try_items(self.worker, self.panel.world, block, model=name)
                            tried = tried.followed_by(further)
            except AdapterNotServableError as error:
                self.details["untried"] = f"other strengths were not tried: {error}"
                return
            self._keep(SideResult.Kind.SCALE, self.adapter, tried, panel=self.panel.name, scale=scale)
            at[scale] = tried.outcomes
        self.details["scales"] = {
            f"{scale:g}": {"tried": len(found), "of": size, "right": sum(found)} for scale, found in at.items()
        }
        yield from suspect_strength(at)

    def measure_noise(self, deployed: Adapter | None, first: PanelResult) -> float:
        """Spread of an item's difference between two measurements of what serves."""
        items = self.panel.items[: self.policy.fresh_size]
        again = SideResult.objects.filter(worker=self.worker, kind="repeat", panel=self.panel.name).last()
        if again is not None and again.adapter_id != (deployed.pk if deployed else None):
            kept = PanelResult.objects.filter(worker=self.worker, adapter=again.adapter_id, panel=self.panel.name)
            first = kept.first() or first
        else:
            again = self._find_or_try(SideResult.Kind.REPEAT, deployed, items, panel=self.panel.name, again=AGAIN)
        return compare_paired(again.outcomes, first.outcomes[: len(again.outcomes)]).std

    def _find_or_try(
        self,
        kind: SideResult.Kind,
        model: Adapter | None,
        items: Sequence[PanelItem],
        *,
        panel: str,
        greedy: bool = False,
        again: int = 0,
    ) -> SideResult:
        for made in self.made:
            if (made.adapter, made.kind, made.panel, made.scale) == (model, kind, panel, 1.0):
                return made
        kept = SideResult.objects.filter(worker=self.worker, adapter=model, kind=kind, panel=panel, scale=1.0).first()
        if kept is not None:
            return kept
        name = name_of(self.worker, model)
        tried = try_items(self.worker, self.panel.world, items, model=name, greedy=greedy, again=again)
        return self._keep(kind, model, tried, panel=panel)

    def _keep(
        self, kind: SideResult.Kind, model: Adapter | None, tried: Tried, *, panel: str, scale: float = 1.0
    ) -> SideResult:
        made = SideResult(worker=self.worker, adapter=model, kind=kind, panel=panel, scale=scale, **asdict(tried))
        self.made.append(made)
        return made


def compare_results(
    candidate: Sequence[PanelResult | SideResult], reference: Sequence[PanelResult | SideResult], confidence: float
) -> tuple[PairedComparison, PairedComparison]:
    """Outcomes, and step scores, of the same tasks; those of several panels are one after the other."""
    outcomes, steps = (
        compare_paired(
            [value for one in candidate for value in getattr(one, name)],
            [value for one in reference for value in getattr(one, name)],
            confidence=confidence,
        )
        for name in ("outcomes", "step_scores")
    )
    return outcomes, steps


def _means(result: SideResult, items: int) -> list[float]:
    """(items,) mean outcome of each task that was answered in several rounds, one round after the other."""
    return [fmean(result.outcomes[place::items]) for place in range(items)]
