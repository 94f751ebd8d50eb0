"""What the gate found of a candidate, and how its verdicts tell it: in words for a person, in numbers for the pages."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any

from apps.adapters.models import Adapter, Verdict
from apps.evals.panels import Panel
from apps.gate.pairs import SideBySide
from tentalis.core.learning.gate import (
    LEAST_CONFIRMED,
    AnchorOutcome,
    AnchorVerdict,
    GatePolicy,
    PairedComparison,
    ServingOutcome,
    ServingVerdict,
    find_items_needed,
)
from tentalis.core.learning.quarantine_checks import Finding

_SAFE = {
    ServingOutcome.SAFE: Verdict.Outcome.YES,
    ServingOutcome.UNDECIDED: Verdict.Outcome.INCONCLUSIVE,
    ServingOutcome.REFUSED: Verdict.Outcome.NO,
}
_PROVED = {
    AnchorOutcome.PROVED: Verdict.Outcome.YES,
    AnchorOutcome.WORSE: Verdict.Outcome.NO,
    AnchorOutcome.TOO_EARLY: Verdict.Outcome.INCONCLUSIVE,
    AnchorOutcome.INCONCLUSIVE: Verdict.Outcome.INCONCLUSIVE,
}
LEFT = "nothing is proved; a person may promote it"


@dataclass(frozen=True)
class Examination:
    """What the gate found, before it is written.

    Attributes:
        faults: what is suspicious; a broken thing refuses, another one asks for a person.
        details: numbers behind both verdicts, for the pages.
    """

    deployed: Adapter | None
    anchor: Adapter | None
    panel: Panel
    faults: Sequence[Finding]
    serving: ServingVerdict
    progress: AnchorVerdict
    details: dict[str, Any]
    details_then: dict[str, Any]

    @property
    def state(self) -> Adapter.State:
        """What becomes of the adapter."""
        if self.serving.outcome is ServingOutcome.REFUSED or self.progress.outcome is AnchorOutcome.WORSE:
            return Adapter.State.REFUSED
        if self.faults:
            return Adapter.State.QUARANTINED
        return Adapter.State.VERIFIED if self.serving.is_safe else Adapter.State.CANDIDATE

    @property
    def safe(self) -> Verdict.Outcome:
        return _SAFE[self.serving.outcome]

    @property
    def proved(self) -> Verdict.Outcome:
        return _PROVED[self.progress.outcome]

    @property
    def words(self) -> str:
        """Why it may serve, or may not."""
        suspicious = [one for one in self.faults if not one.is_broken]
        compared, details = self.serving.comparison, self.details
        words = [f"{self.serving.words} (on {compared.items} of {details['asked']['planned']} tasks)"]
        if self.panel.own:
            words.append(_say_own(details["own_items"], details["evidence"]))
        words += [details[name]["words"] for name in ("capability", "alignment") if name in details]
        if "untried" in details:
            words.append(details["untried"])
        if suspicious:
            words.append(f"under suspicion: {join_words(suspicious)}")
        if self.serving.outcome is ServingOutcome.UNDECIDED:
            words.append(LEFT)
        return "; ".join(words)


def _say_own(own: dict[str, Any], evidence: dict[str, Any]) -> str:
    words = f"by the checks of {own['items']} held-out items of the project's own, each tried {own['tries']} times"
    if evidence["kind"] != "checks":
        words = f"by answers to {own['items']} held-out items, side by side, {evidence['words']}"
    if own["missing"]:
        words += f"; about {own['missing']} more of them would tell a difference of {100 * own['effect']:.0f} points"
    return words


def join_words(findings: Sequence[Finding]) -> str:
    """What is suspicious, in one sentence."""
    return "; ".join(one.words for one in findings)


def describe_evidence(
    panel: Panel, serving: ServingVerdict, policy: GatePolicy, side_by_side: SideBySide | None
) -> dict[str, Any]:
    """What a verdict stands on; where the project's own items are all there is, also what is missing: items, for the
    margin to be seen; 0 where they told enough."""
    if not panel.own:
        return {"evidence": {"kind": "verification"}}
    found, missing = serving.comparison, 0
    if not serving.is_safe and found.high >= -policy.margin:
        needed = ceil(
            found.items
            / found.size
            * find_items_needed(effect=policy.margin, std=found.std, confidence=policy.confidence, power=policy.power)
        )
        least = LEAST_CONFIRMED if serving.outcome is ServingOutcome.UNDECIDED else 0
        missing = max(max(needed, least) - panel.size, 0)
    return {
        "own_items": {"items": panel.size, "tries": panel.tries, "missing": missing, "effect": policy.margin},
        "evidence": side_by_side.describe() if side_by_side else {"kind": "checks"},
    }


def describe_comparisons(outcomes: PairedComparison, steps: PairedComparison | None) -> dict[str, Any]:
    """By outcomes and step scores; without these by pairs of answers that were won."""
    if steps is None:
        return {"pairs won": asdict(outcomes)}
    return {"sampled accuracy": asdict(outcomes), "step scores": asdict(steps)}
