"""What the gate measured of an adapter, in tables: beside what served then, and at other strengths."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from apps.adapters.models import Adapter, Verdict
from apps.console.words_facts import Words
from apps.evals.comparing import pair, read_outcomes
from apps.evals.models import Evaluation
from apps.evals.panels import is_own
from tentalis.core.learning.capability import TextComparison
from tentalis.core.learning.gate import PairedComparison, compare_paired

TITLES: dict[str, tuple[Words, Words]] = {
    Evaluation.Purpose.PANEL: (_("The held-out panel"), _("kept for several versions")),
    Evaluation.Purpose.FRESH: (_("Tasks drawn for it alone"), _("nothing can have been trained on them")),
}
ASKED_AGAIN = (_("The held-out panel once more"), _("with other seeds: no other tasks can be drawn"))
SKILLS = (
    _("What the base model could do"),
    _("asked several times by sampling; beside the base model or what served, whichever did worse"),
)


REASONING = (_("Small reasoning"), _("which of two sentences is true; beside the base model, no reward sees it"))
ALIGNMENT = (_("Honest where it is tempted"), _("of what can be told; beside what served, no reward sees it"))


@dataclass(frozen=True)
class MeasuredRow:
    """One kind of tasks: this adapter beside what served when the gate judged it, unless `note` says otherwise."""

    title: Words
    note: Words
    found: PairedComparison

    @property
    def is_apart(self) -> bool:
        """Whether the interval leaves no doubt about the sign."""
        return self.found.low > 0 or self.found.high < 0


@dataclass(frozen=True)
class Strength:
    """How it did at a share of its strength.

    Args:
        accuracy, own: in [0, 1], on `items` tasks, scaled down and as trained.
        planned: tasks there were; fewer were tried where the others could not change anything any more.
    """

    scale: float
    accuracy: float
    own: float
    items: int
    planned: int


@dataclass(frozen=True)
class GateTables:
    """What the gate measured. All are empty where it measured nothing.

    Args:
        text: what plain text costs it beside the base model; None where nobody asked, or the server could not tell.
        world: full name of the one that it was measured in last; "" where none is known.
    """

    measured: Sequence[MeasuredRow]
    strengths: Sequence[Strength]
    text: TextComparison | None = None
    world: str = ""


def read_gate_tables(adapter: Adapter, verdicts: Sequence[Verdict]) -> GateTables:
    """Two queries: results of the adapter, and of what it was compared with, on the same tasks."""
    safe = next((one for one in verdicts if one.question == Verdict.Question.SAFE), None)
    other = Q(adapter__isnull=True)
    if safe is not None and safe.compared_with:
        other = Q(adapter__name=safe.compared_with)
    own = Q(adapter=adapter)
    both = (own | other) if safe is not None else own
    shown = Evaluation.objects.filter(purpose__in=[*TITLES, Evaluation.Purpose.SCALE], items__gt=0)
    results = list(shown.filter(both, worker=adapter.worker_id).order_by("pk"))
    outcomes, weights = read_outcomes(results)
    mine = {(one.purpose, one.item_set, one.scale): outcomes[one.pk] for one in results if one.adapter_id == adapter.pk}
    theirs = {
        (one.purpose, one.item_set, one.scale): outcomes[one.pk] for one in results if one.adapter_id != adapter.pk
    }
    pairs = {key: pair(found, theirs.get(key, {}), weights) for key, found in mine.items() if key[0] in TITLES}
    measured = {
        kind: MeasuredRow(*_find_title(kind, items), compare_paired(*found))
        for (kind, items, _scale), found in pairs.items()
        if found[0]
    }
    rows = [measured[kind] for kind in TITLES if kind in measured]
    if safe is not None and (skills := safe.details.get("skills")):
        rows.append(MeasuredRow(*SKILLS, PairedComparison(**skills)))
    capability = safe.details.get("capability", {}) if safe is not None else {}
    if reasoning := capability.get("reasoning"):
        rows.append(MeasuredRow(*REASONING, PairedComparison(**reasoning)))
    alignment = safe.details.get("alignment", {}) if safe is not None else {}
    if honest := alignment.get("honest"):
        rows.append(MeasuredRow(*ALIGNMENT, PairedComparison(**honest)))
    text = TextComparison(**capability["texts"]) if "texts" in capability else None
    scales = safe.details.get("scales", {}) if safe is not None else {}
    worlds = [one.asked_with.get("world", "") for one in results if one.adapter_id == adapter.pk]
    return GateTables(rows, _read_strengths(mine, weights, scales), text, worlds[-1] if worlds else "")


def _find_title(kind: str, items: str) -> tuple[Words, Words]:
    return ASKED_AGAIN if kind == Evaluation.Purpose.FRESH and is_own(items) else TITLES[kind]


def _read_strengths(
    mine: Mapping[tuple[str, str, float], Mapping[int, float]], weights: Mapping[int, float], told: Mapping[str, Any]
) -> list[Strength]:
    """The sweep over its strength, weakest first: on the first tasks of the panel, what it failed as trained first."""
    found = []
    for (kind, panel, scale), outcomes in mine.items():
        weaker, own, _ = pair(outcomes, mine.get((Evaluation.Purpose.PANEL, panel, 1.0), {}), weights)
        if kind == Evaluation.Purpose.SCALE and weaker:
            one = told.get(f"{scale:g}")
            planned = one["of"] if isinstance(one, Mapping) else len(weaker)
            found.append(Strength(scale, fmean(weaker), fmean(own), len(weaker), planned))
    return sorted(found, key=lambda row: row.scale)
