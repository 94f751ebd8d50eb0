"""How well raters judge, as the quality pages show it."""

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations
from typing import TypeVar

from django.db.models import Q

from apps.accounts.models import Project
from apps.base.pages import take_page
from apps.calibration.models import Comparison, Rater
from apps.calibration.selectors import Point, find_sittings, trace_history
from apps.feedback.models import Feedback
from apps.scoring.models import RewardModel
from tentalis.core.scoring.agreement import (
    Agreement,
    bootstrap_interval,
    cohen_kappa,
    krippendorff_alpha,
    raw_agreement,
    spearman,
)
from tentalis.core.scoring.calibration import APPROVES, Confusion, approves, mean_absolute_error
from tentalis.core.scoring.pace import STREAK, Decline, Item, Pace, find_decline, measure_pace

Unit = TypeVar("Unit")

Said = tuple[int, int | None, str, float, str, float]
"""Attempt, step, who, what they said; against whom, what those said."""

RATERS = 200
PAIRED_ROWS = 1_500
PAIRS, PAIR_ITEMS = 10, 200
DRAWS = 200
PAGE = 12
RECENT = 200
"""Feedbacks behind the signs of haste."""
SCORERS_SHOWN = 20
SCORERS = {"prm": "PRM", "hallucination": "Hallucination check"}


@dataclass(frozen=True)
class RaterRow:
    """A rater with its error rates."""

    rater: Rater

    @property
    def name(self) -> str:
        return name_rater(self.rater.handle)

    @cached_property
    def found(self) -> Confusion:
        return self.rater.confusion

    @property
    def state(self) -> str:
        """quarantined, new (nothing was compared), drifting or used."""
        if self.rater.quarantined_at:
            return "quarantined"
        if not self.rater.audited:
            return "new"
        return "drifting" if self.rater.drifted_at and self.rater.weight < 0.5 else "used"


@dataclass(frozen=True)
class Figure:
    """A coefficient with its bootstrap interval."""

    found: Agreement
    interval: tuple[float, float] | None


@dataclass(frozen=True)
class PairRow:
    """Two people who judged the same."""

    first: str
    second: str
    raw: Agreement
    kappa: Figure


@dataclass(frozen=True)
class AgreementView:
    """How far people agree on what two of them judged.

    Args:
        alpha: Krippendorff's, of approving or not; alpha_of_scores: of the scores themselves.
    """

    items: int
    alpha: Figure
    alpha_of_scores: Agreement
    pairs: Sequence[PairRow]


@dataclass(frozen=True)
class JudgeRow:
    """A machine beside people's words on the same."""

    rater: Rater
    found: Confusion
    kappa: Agreement
    order: Agreement

    @property
    def name(self) -> str:
        return name_rater(self.rater.handle)

    @property
    def approved(self) -> int:
        """What people approved."""
        return self.found.true_approvals + self.found.false_rejections

    @property
    def rejected(self) -> int:
        return self.found.false_approvals + self.found.true_rejections


@dataclass(frozen=True)
class QualityView:
    """Everything the quality page shows.

    Args:
        agreement, judges: None, and none, for who sees only themselves.
    """

    people: Sequence[RaterRow]
    machines: Sequence[RaterRow]
    agreement: AgreementView | None
    judges: Sequence[JudgeRow]

    @property
    def quarantined(self) -> Sequence[RaterRow]:
        """Whose errors did that, not a person."""
        rows = (row for row in (*self.people, *self.machines) if row.state == "quarantined")
        return [row for row in rows if not row.rater.quarantined_by]


@dataclass(frozen=True)
class SourceRow:
    """A rater beside one kind of truth, over the last comparisons."""

    source: str
    found: Confusion
    distance: float | None


@dataclass(frozen=True)
class RaterView:
    """Everything the page of one rater shows.

    Args:
        pace, decline: of people only.
        wrong: what it judged unlike the truth, newest first; older: the id to go on below.
    """

    row: RaterRow
    history: Sequence[Point]
    sources: Sequence[SourceRow]
    pace: Pace | None
    decline: Decline
    wrong: Sequence[Comparison]
    older: int | None

    @property
    def subject(self) -> str:
        """What live updates call it."""
        return f"rater:{self.row.rater.pk}"

    @property
    def has_streak(self) -> bool:
        return self.pace is not None and self.pace.streak.length >= STREAK


def show_quality(project: Project, *, only: str = "") -> QualityView:
    """A constant number of queries.

    Args:
        only: the one handle to show; "": all.
    """
    raters = Rater.objects.filter(project=project)
    if only:
        raters = raters.filter(handle=only)
    rows = [RaterRow(rater) for rater in raters.order_by("weight", "handle")[:RATERS]]
    people = [row for row in rows if row.rater.kind == Rater.Kind.PERSON]
    machines = [row for row in rows if row.rater.kind != Rater.Kind.PERSON]
    if only:
        return QualityView(people, machines, None, ())
    return QualityView(people, machines, _find_agreement(project), _find_judges(project))


def show_rater(
    project: Project, rater_id: int, *, before: int | None = None, with_peers: bool = True
) -> RaterView | None:
    """A constant number of queries.

    Args:
        before: id below which the page of wrong judgements begins.
        with_peers: show whose word another reviewer's was unlike.
    """
    rater = Rater.objects.filter(project=project, pk=rater_id).first()
    if rater is None:
        return None
    sittings = find_sittings(rater)
    is_person = rater.kind == Rater.Kind.PERSON
    wrong, older = _find_wrong(rater, before=before, with_peers=with_peers)
    return RaterView(
        row=RaterRow(rater),
        history=trace_history(sittings),
        sources=_find_sources(rater),
        pace=_find_pace(rater) if is_person else None,
        decline=find_decline([(at.timestamp(), judged) for at, judged in sittings] if is_person else []),
        wrong=wrong,
        older=older,
    )


def name_rater(handle: str) -> str:
    """`user:alice` as "alice", `scorer:prm` as "PRM", `agent:rule-book` as "rule-book"."""
    kind, _, name = handle.partition(":")
    return SCORERS.get(name, name) if kind == "scorer" else name or handle


def _find_agreement(project: Project) -> AgreementView | None:
    """From the last pairs of words on the same; None where there are none."""
    rows = Comparison.objects.filter(project=project, source=Comparison.Source.PEER).order_by("-id")
    found = tuple(rows.values_list("attempt", "step", "rater__handle", "said", "against", "truth")[:PAIRED_ROWS])
    return _measure_agreement(found, seed=project.pk) if found else None


@lru_cache(maxsize=32)
def _measure_agreement(found: tuple[Said, ...], *, seed: int) -> AgreementView:
    """Of the same words the same figures: the intervals take a tenth of a second, so they are drawn once."""
    units: dict[tuple[int, int | None], dict[str, float]] = defaultdict(dict)
    for attempt, step, handle, said, against, truth in found:
        units[attempt, step] |= {handle: said, against: truth}
    rng = random.Random(seed)
    scores = list(units.values())[:PAIR_ITEMS]
    decided = [tuple(float(approves(score)) for score in unit.values()) for unit in scores]
    return AgreementView(
        items=len(units),
        alpha=_figure(decided, lambda drawn: krippendorff_alpha(drawn, level="nominal"), rng),
        alpha_of_scores=krippendorff_alpha([list(unit.values()) for unit in scores], level="interval"),
        pairs=_find_pairs(units.values(), rng),
    )


def _find_pairs(units: Iterable[dict[str, float]], rng: random.Random) -> list[PairRow]:
    """The pairs with most items between them."""
    shared: dict[tuple[str, str], list[tuple[bool, bool]]] = defaultdict(list)
    for unit in units:
        for first, second in combinations(sorted(unit), 2):
            shared[first, second].append((approves(unit[first]), approves(unit[second])))
    most = sorted(shared.items(), key=lambda pair: (-len(pair[1]), pair[0]))[:PAIRS]
    return [
        PairRow(
            name_rater(first),
            name_rater(second),
            raw_agreement([left for left, _ in items], [right for _, right in items]),
            _figure(items[:PAIR_ITEMS], _kappa, rng),
        )
        for (first, second), items in most
    ]


def _kappa(pairs: Sequence[tuple[bool, bool]]) -> Agreement:
    return cohen_kappa([left for left, _ in pairs], [right for _, right in pairs])


def _figure(units: Sequence[Unit], measure: Callable[[Sequence[Unit]], Agreement], rng: random.Random) -> Figure:
    return Figure(measure(units), bootstrap_interval(units, measure, rng=rng, draws=DRAWS))


def _find_sources(rater: Rater) -> list[SourceRow]:
    """By kind of truth, over the last comparisons; peers are no truth."""
    rows = Comparison.objects.filter(rater=rater).exclude(source=Comparison.Source.PEER).order_by("-id")
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for source, said, truth in rows.values_list("source", "said", "truth")[:PAIRED_ROWS]:
        found[source].append((said, truth))
    return [
        SourceRow(str(source.label), Confusion.of(found[source]), mean_absolute_error(found[source]))
        for source in Comparison.Source
        if source in found
    ]


def _find_wrong(rater: Rater, *, before: int | None, with_peers: bool) -> tuple[list[Comparison], int | None]:
    """A page of what was judged unlike the truth, and the id to go on below; None at the end."""
    rows = Comparison.objects.filter(rater=rater).select_related("attempt__task", "step")
    rows = rows.filter(Q(said__gte=APPROVES, truth__lt=APPROVES) | Q(said__lt=APPROVES, truth__gte=APPROVES))
    if not with_peers:
        rows = rows.exclude(source=Comparison.Source.PEER)
    rows = rows.defer("attempt__text", "attempt__task__reference", "attempt__score_details")
    return take_page(rows, before=before, size=PAGE)


def _find_pace(rater: Rater) -> Pace:
    """From the person's last feedbacks, but for those given in bulk."""
    given = Feedback.objects.filter(
        project=rater.project_id, author=rater.handle, in_bulk__isnull=True, retracted_at__isnull=True
    ).order_by("-id")
    rows = given.values_list("created_at", "active_s", "score")[:RECENT]
    return measure_pace([Item(at.timestamp(), active_s, score) for at, active_s, score in reversed(rows)])


def _find_judges(project: Project) -> list[JudgeRow]:
    """Machines beside people, over the last comparisons."""
    rows = Comparison.objects.filter(project=project, source=Comparison.Source.HUMAN).order_by("-id")
    found: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for rater, said, truth in rows.values_list("rater", "said", "truth")[:PAIRED_ROWS]:
        found[rater].append((said, truth))
    raters = Rater.objects.in_bulk(found)
    return [
        JudgeRow(
            raters[pk],
            Confusion.of(judged),
            _kappa([(approves(said), approves(truth)) for said, truth in judged]),
            spearman([said for said, _ in judged], [truth for _, truth in judged]),
        )
        for pk, judged in sorted(found.items(), key=lambda one: raters[one[0]].handle)
    ]


def find_scorers(project: Project) -> Sequence[RewardModel]:
    """The project's newest trained step scorers, with their workers."""
    return list(RewardModel.objects.filter(project=project).select_related("worker")[:SCORERS_SHOWN])
