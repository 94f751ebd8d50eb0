"""The desk's manager: knows the house rules, checks every step, and says the whole rule."""

from dataclasses import dataclass
from statistics import fmean

from apps.base.errors import TentalisError
from apps.feedback.managers.manager import ManagerScore, ManagerWord, NoWord
from apps.tasks.drafts import rebuild_draft
from apps.tasks.models import Attempt, Environment, Task
from apps.worlds.registry import get_world
from tentalis.core.desk import parse_ticket, rule_book_hints


@dataclass(frozen=True)
class RuleBookManager:
    author: str = "agent:rule-book"

    def review(self, task: Task, attempts: list[Attempt]) -> ManagerWord | NoWord:
        if task.environment != Environment.DESK:
            return NoWord(f"the rule book is the desk's and says nothing of environment {task.environment}")
        overall: dict[int, ManagerScore] = {}
        steps: dict[tuple[int, int], ManagerScore] = {}
        try:
            world, hints = get_world(task.environment), rule_book_hints(parse_ticket(task.prompt))
            for attempt in attempts:
                rows = list(attempt.steps.all())
                found = world.verify(task.prompt, task.reference, rebuild_draft(attempt, rows))
                if found is None:
                    return NoWord("the world could not verify an attempt")
                overall[attempt.pk] = ManagerScore(found.outcome)
                words = zip(rows, found.step_scores, found.step_reasons, strict=True)
                steps |= {(attempt.pk, row.pk): ManagerScore(score, reason) for row, score, reason in words}
        except (TentalisError, ValueError) as error:
            return NoWord(f"the rule book cannot be applied: {error}")
        if not overall:
            return NoWord("no attempt gave an answer")
        score = fmean(said.score for said in overall.values() if said.score is not None)
        return ManagerWord(text=", ".join(hints), score=score, attempts=overall, steps=steps)
