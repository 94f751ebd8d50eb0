"""A manager that is its rubric: the items found in an attempt, each with a weight that audits can refit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from django.conf import settings

from apps.accounts.models import Project
from apps.base.errors import TentalisError
from apps.calibration.selectors import find_rubric
from apps.feedback.managers.llm import LlmManager
from apps.feedback.managers.manager import ManagerScore, ManagerWord, NoWord
from apps.inference.errors import raise_if_paced
from apps.inference.judges import Voter, cast_vote
from apps.tasks.drafts import read_context
from apps.tasks.models import Attempt, Task
from apps.worlds.registry import find_world
from tentalis.core.canon import content_hash
from tentalis.core.meta import judge_items
from tentalis.core.scoring.criteria import build_criteria_request, read_criteria, read_items, weigh_criteria
from tentalis.core.scoring.judging import Judgement
from tentalis.core.scoring.protocol import Unscored
from tentalis.core.worlds import ItemRubric
from tentalis.outbound.scopes import ScopedThreadPool

AT_ONCE = 8
PREFIX = "agent:rubric:"

Found = Mapping[str, float] | Unscored
"""The items of one attempt, or why they could not be found."""


def name_rubric_manager(environment: str) -> str:
    """Handle of the rubric manager of an environment: each has weights of its own."""
    return f"{PREFIX}{environment}"


def written_weights(project: Project, environment: str) -> dict[str, float]:
    """The weights a rubric manager starts from: what the project's rubric says, word by word.

    Raises:
        ValueError: the environment reads rubrics by itself, and not this one.
    """
    if own := find_world(environment).rubric:
        return own.weigh(project.rubric)
    return weigh_criteria(read_criteria(project.rubric))


@dataclass(frozen=True)
class RubricManager:
    """Scores an attempt by sigmoid(w . phi); its world finds phi, or a model judges each criterion.

    Args:
        judge: the model that judges; a world that finds the items by itself asks none.
    """

    environment: str
    judge: LlmManager

    @property
    def author(self) -> str:
        return name_rubric_manager(self.environment)

    def review(self, task: Task, attempts: list[Attempt]) -> ManagerWord | NoWord:
        if not attempts:
            return NoWord("no attempt gave an answer")
        try:
            written = written_weights(task.project, self.environment)
            fitted, gate = find_rubric(task.project_id, self.author, of=content_hash(written))
            weights = fitted or written
            if own := find_world(self.environment).rubric:
                found, text, judge = _look(own, task, attempts), own.tell(task.prompt, weights), {}
            else:
                found, text, judge = self._ask(task, attempts), "", self.judge.told
        except (TentalisError, ValueError) as error:
            raise_if_paced(error)
            return NoWord(f"the rubric cannot be applied: {error}")
        pairs = list(zip(attempts, found, strict=True))
        said = {
            attempt.pk: ManagerScore(judge_items(weights, items), _explain(weights, items), items)
            for attempt, items in pairs
            if not isinstance(items, Unscored)
        }
        if not said:
            faults = (f"attempt {one.index}: {items.reason}" for one, items in pairs if isinstance(items, Unscored))
            return NoWord("; ".join(faults))
        is_audited_only = gate is None and settings.TENTALIS["META_RL_ENABLED"]
        return ManagerWord(
            text=text,
            score=fmean(one.score for one in said.values() if one.score is not None),
            attempts=said,
            trust=0.0 if is_audited_only else 1.0,
            judge=judge,
        )

    def _ask(self, task: Task, attempts: Sequence[Attempt]) -> list[Found]:
        if not self.judge.model:
            return [Unscored("no model is configured for the rubric's criteria")] * len(attempts)
        if barred := self.judge.find_bar():
            return [Unscored(barred)] * len(attempts)
        criteria = read_criteria(task.project.rubric)
        voter = Voter(self.judge.model, self.judge.open_client())

        def ask(attempt: Attempt) -> Found:
            request = build_criteria_request(read_context(task, attempt), criteria)
            judged = cast_vote(voter, request, temperature=0.0)
            return read_items(judged, criteria) if isinstance(judged, Judgement) else judged

        with ScopedThreadPool(AT_ONCE) as pool:
            return list(pool.map(ask, attempts))


def _look(rubric: ItemRubric, task: Task, attempts: Sequence[Attempt]) -> list[Found]:
    return [
        rubric.find(task.prompt, [(step.kind, step.text) for step in attempt.ordered_steps]) for attempt in attempts
    ]


def _explain(weights: Mapping[str, float], items: Mapping[str, float]) -> str:
    """The items that moved the score, the strongest first: `order, new: ship +1.5; …`."""
    parts = {name: weights.get(name, 0.0) * value for name, value in items.items()}
    strongest = sorted((part for part in parts.items() if part[1]), key=lambda part: -abs(part[1]))[:5]
    return "; ".join(f"{name} {amount:+.1f}" for name, amount in strongest)
