"""Who does how well on a benchmark, ranked as far as what was measured can tell, and no further."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

from django.core.cache import cache
from django.db.models import Q

from apps.evals.comparing import CONFIDENCE, EvaluationComparison, compare_together
from apps.evals.models import Benchmark, Evaluation
from apps.workers.models import Worker
from tentalis.core.canon import content_hash
from tentalis.core.learning.places import Place, find_places

MOST_RANKED: Final = 20
"""Models of one table: the newest measured. Each two of them are compared."""
MOST_READ: Final = 1_000
KEPT_FOR_S: Final = 24 * 3600


@dataclass(frozen=True)
class RankedModel:
    """A model on a table.

    Attributes:
        evaluation: its newest on these items.
        place: the places that it may have.
        behind, ahead: of how many others it is shown to be worse, and better.
    """

    evaluation: Evaluation
    place: Place
    behind: int
    ahead: int

    @property
    def apart(self) -> int:
        """From how many others it is told apart."""
        return self.behind + self.ahead


@dataclass(frozen=True)
class Board:
    """Models measured alike: on the very same items, verified and graded by the same versions, with answers chosen the
    same way.

    Attributes:
        rows: best mean first; who cannot be told apart shares places.
        is_greedy, graders, items: as they were measured.
        compared: pairs that could be compared, each p corrected for all of them.
        why: why others could not.
        left_out: models that were measured earlier than `MOST_RANKED` others.
    """

    rows: Sequence[RankedModel]
    is_greedy: bool
    graders: Sequence[str]
    items: int
    compared: int
    why: Sequence[str]
    left_out: int

    @property
    def is_ranked(self) -> bool:
        """Whether any two are told apart."""
        return any(row.apart for row in self.rows)


@dataclass(frozen=True)
class Leaderboard:
    """What is known of a benchmark's models.

    Attributes:
        boards: those with most models first; models of two of them cannot be ranked against each other.
        elsewhere: models that were measured on other versions of it alone.
        confidence: that all places hold together.
    """

    benchmark: Benchmark
    boards: Sequence[Board]
    elsewhere: Sequence[str]
    confidence: float = CONFIDENCE


def find_leaderboard(benchmark: Benchmark, *, line: Worker | None = None) -> Leaderboard:
    """Every model that was measured on this version to the end, by its newest run.

    Args:
        line: only of these workers: the one that learns and those that learn with it.
    """
    rows = Evaluation.objects.filter(
        project=benchmark.project_id,
        benchmark__name=benchmark.name,
        purpose=Evaluation.Purpose.REPORT,
        state=Evaluation.State.DONE,
        mean_outcome__isnull=False,
    ).exclude(item_set_hash="")
    if line is not None:
        rows = rows.filter(Q(worker=line.line_id) | Q(worker__learns_with=line.line_id))
    found = list(rows.select_related("worker", "adapter").order_by("-id")[:MOST_READ])
    here = [one for one in found if one.benchmark_id == benchmark.pk]
    alike: dict[str, dict[tuple[int, int | None], Evaluation]] = {}
    for one in here:
        alike.setdefault(_measured_how(one), {}).setdefault((one.worker_id, one.adapter_id), one)
    boards = [_rank(list(models.values())) for models in alike.values()]
    names = {name_model(one) for one in here}
    return Leaderboard(
        benchmark,
        sorted(boards, key=lambda board: -len(board.rows)),
        sorted({name_model(one) for one in found} - names),
    )


def name_model(evaluation: Evaluation) -> str:
    """Its adapter, or whose base model it is."""
    return evaluation.adapter.name if evaluation.adapter else f"{evaluation.worker.name}, base model"


def _measured_how(evaluation: Evaluation) -> str:
    """Models of which this is the same may be ranked. What a worker itself is, its prompt and sampling, is no part."""
    asked = evaluation.asked_with
    return content_hash(
        [evaluation.item_set_hash, evaluation.is_greedy, evaluation.scale, asked.get("world"), asked.get("graders")]
    )


def _rank(models: Sequence[Evaluation]) -> Board:
    rows = sorted(models[:MOST_RANKED], key=lambda one: (-(one.mean_outcome or 0), one.pk))
    better, compared, why = _find_better(rows)
    places = find_places([one.pk for one in rows], better)
    first = rows[0]
    return Board(
        rows=[
            RankedModel(one, place, behind=place.best - 1, ahead=len(rows) - place.worst)
            for one, place in zip(rows, places.values(), strict=True)
        ],
        is_greedy=first.is_greedy,
        graders=first.asked_with.get("graders", []),
        items=max(one.items for one in rows),
        compared=compared,
        why=why,
        left_out=len(models) - len(rows),
    )


def _find_better(rows: Sequence[Evaluation]) -> tuple[list[tuple[int, int]], int, list[str]]:
    """(who is shown to be better, than whom), how many pairs were compared, and why others were not. Of the same runs
    the same, so it is found once."""
    key = "leaderboard:" + content_hash([[one.pk, str(one.finished_at)] for one in rows])
    kept: Mapping[str, Any] | None = cache.get(key)
    if kept is None:
        answers = compare_together(list(combinations(rows, 2)), with_steps=False)
        found = [one for one in answers if isinstance(one, EvaluationComparison)]
        shown = [one for one in found if one.outcomes.verdict != "no difference shown"]
        kept = {
            "better": [(one.a, one.b) if one.outcomes.verdict == "better" else (one.b, one.a) for one in shown],
            "compared": len(found),
            "why": list(dict.fromkeys(one for one in answers if isinstance(one, str))),
        }
        cache.set(key, kept, KEPT_FOR_S)
    return [(best, worse) for best, worse in kept["better"]], kept["compared"], list(kept["why"])
