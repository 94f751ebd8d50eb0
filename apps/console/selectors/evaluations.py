"""Evaluations, for their pages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from django.core.cache import cache
from django.db.models import Count, QuerySet
from django.utils.translation import gettext as _

from apps.accounts.models import Project
from apps.base.errors import ConflictError
from apps.base.pages import take_page
from apps.console.words_facts import say_item_set
from apps.evals.asking import reopen_items
from apps.evals.comparing import EvaluationComparison
from apps.evals.experiments import answer_scenarios
from apps.evals.figures import EvaluationFigures, find_figures
from apps.evals.models import Evaluation, Experiment, Item, ItemTry, Scenario
from apps.evals.panels import key_of, read_item
from tentalis.core.alignment.figures import AlignmentFigures, FamilyFigures
from tentalis.core.alignment.suite import ABOUT
from tentalis.core.scoring.run_figures import SureMean
from tentalis.core.worlds import PanelItem

PAGE = 25
COMPARABLE = 20
ASKABLE = 100
"""Evaluations offered to an experiment: the newest."""
SHOWN_ITEMS = 20
FIGURES_FOR_S = 24 * 3600


@dataclass(frozen=True)
class TriedItem:
    """What became of an item.

    Args:
        number: its place in the set, from 1; prompt: "" where its set cannot be opened any more.
        outcome: the mean of its tries that have one; None: none has. reasons: why tries have none.
    """

    number: int
    prompt: str
    tries: int
    outcome: float | None
    reasons: Sequence[str]

    @property
    def place(self) -> int:
        """From 0."""
        return self.number - 1


def find_asked(project: Project, *, before: int | None = None) -> tuple[list[Evaluation], int | None]:
    """A page of what people asked for, newest first, and the id to go on below."""
    return take_page(_asked(project), before=before, size=PAGE)


def name_evaluation(evaluation: Evaluation) -> str:
    """Its number, its model and its items, in one line."""
    return f"{name_side(evaluation)}, {say_item_set(evaluation.item_set)}"


def name_side(evaluation: Evaluation) -> str:
    """Its number and its model: enough where another is of the same items."""
    model = evaluation.adapter or _("%(worker)s, the base model") % {"worker": evaluation.worker.name}
    return f"{evaluation.pk}: {model}"


def find_comparable(evaluation: Evaluation) -> list[Evaluation]:
    """The newest others that people asked for on the very same items."""
    same = _asked(evaluation.project).filter(item_set_hash=evaluation.item_set_hash, played__gt=0)
    return list(same.exclude(pk=evaluation.pk)[:COMPARABLE]) if evaluation.item_set_hash else []


def find_kept_figures(evaluation: Evaluation) -> EvaluationFigures | None:
    """Its figures, which are made once where it is done; None: nothing was tried."""
    if not evaluation.played:
        return None
    if evaluation.state != Evaluation.State.DONE or evaluation.finished_at is None:
        return find_figures(evaluation)
    name = f"figures:{evaluation.pk}:{evaluation.finished_at.timestamp()}"
    kept: EvaluationFigures | None = cache.get(name)
    if kept is None:
        kept = find_figures(evaluation)
        cache.set(name, kept, FIGURES_FOR_S)
    return kept


@dataclass(frozen=True)
class AlignmentRow:
    """Scenarios of one kind. Args: about: "" of all, and of a project's own."""

    title: str
    about: str
    found: FamilyFigures

    @property
    def shares(self) -> Sequence[tuple[str, SureMean | None]]:
        """Label -> share, in the order of the columns."""
        found = self.found
        return (
            (_("Honest"), found.honest),
            (_("Misaligned"), found.misaligned),
            (_("Answers differ"), found.diverged),
        )


def list_alignment(figures: AlignmentFigures) -> list[AlignmentRow]:
    """All scenarios, then each family's."""
    families = [AlignmentRow(one.family, ABOUT.get(one.family, ""), one) for one in figures.families]
    return [AlignmentRow(_("All of them"), "", figures.whole), *families]


def list_comparable(project: Project) -> QuerySet[Evaluation]:
    """What an experiment may be asked of: the newest that people asked for and that may still be, or are, measured."""
    lost = (Evaluation.State.FAILED, Evaluation.State.CANCELLED)
    newest = _asked(project).exclude(state__in=lost).exclude(item_set_hash="").values("pk")[:ASKABLE]
    return _asked(project).filter(pk__in=list(newest.values_list("pk", flat=True)))


@dataclass(frozen=True)
class AnsweredScenario:
    """A question of an experiment, and what it was answered or why it was not yet."""

    scenario: Scenario
    found: EvaluationComparison | None
    why: str

    @property
    def sign(self) -> int:
        """1 where the candidate is shown to be better, -1 where it is worse, 0 where neither is shown."""
        return 0 if self.found is None else {"better": 1, "worse": -1}.get(self.found.outcomes.verdict, 0)

    @property
    def candidate(self) -> str:
        return name_evaluation(self.scenario.candidate)

    @property
    def reference(self) -> str:
        return name_evaluation(self.scenario.reference)


def find_experiments(project: Project, *, before: int | None = None) -> tuple[list[Experiment], int | None]:
    """A page of experiments, newest first, and the id to go on below."""
    rows: QuerySet[Experiment] = project.experiments.annotate(questions=Count("scenarios"))
    return take_page(rows, before=before, size=PAGE)


def list_answered(experiment: Experiment) -> list[AnsweredScenario]:
    answers = answer_scenarios(experiment)
    sides = ("candidate__adapter", "candidate__worker", "reference__adapter", "reference__worker")
    return [
        AnsweredScenario(row, None, found)
        if isinstance(found := answers[row.pk], str)
        else AnsweredScenario(row, found, "")
        for row in experiment.scenarios.select_related(*sides)
    ]


def list_tried(evaluation: Evaluation, *, start: int = 0) -> tuple[list[TriedItem], int | None]:
    """A page of its items in their order, and where the next page starts."""
    rows: dict[int, list[ItemTry]] = {}
    end = start + SHOWN_ITEMS
    for row in evaluation.item_tries.filter(place__gte=start, place__lt=end).order_by("place", "number"):
        rows.setdefault(row.place, []).append(row)
    prompts = find_prompts(evaluation, {place: tries[0].key for place, tries in rows.items()})
    shown = [_sum_up(place, prompts.get(place, ""), tries) for place, tries in rows.items()]
    return shown, end if evaluation.item_tries.filter(place__gte=end).exists() else None


def _asked(project: Project) -> QuerySet[Evaluation]:
    asked = Evaluation.objects.filter(project=project).exclude(asked_by="")
    return asked.select_related("worker", "adapter").order_by("-id")


def _sum_up(place: int, prompt: str, tries: Sequence[ItemTry]) -> TriedItem:
    scored = [row.outcome for row in tries if row.outcome is not None]
    reasons = dict.fromkeys(row.reason for row in tries if row.reason)
    return TriedItem(place + 1, prompt, len(tries), fmean(scored) if scored else None, list(reasons))


def find_prompts(evaluation: Evaluation, keys: Mapping[int, int]) -> Mapping[int, str]:
    """Place -> prompt, of these places with their items' keys; without those that are not what they were."""
    items: Mapping[int, PanelItem]
    if (taskset := evaluation.taskset) is not None:
        chosen = evaluation.indices
        place_at = {chosen[place] if chosen else place: place for place in keys}
        ids = taskset.items.filter(split=evaluation.split).order_by("id").values_list("pk", flat=True)
        known = enumerate(ids[: max(place_at, default=-1) + 1])
        place_of = {pk: place_at[at] for at, pk in known if at in place_at}
        items = {place_of[row.pk]: read_item(row) for row in Item.objects.filter(pk__in=place_of)}
    else:
        try:
            items = dict(enumerate(reopen_items(evaluation).items))
        except ConflictError:  # it is the gate's own, or its set changed
            return {}
    return {place: items[place].prompt for place in keys.keys() & items.keys() if key_of(items[place]) == keys[place]}
