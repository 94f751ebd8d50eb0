"""The manager who knows a world's rules: it checks every step, and says the whole rule."""

from dataclasses import dataclass
from statistics import fmean

from apps.base.errors import TentalisError
from apps.feedback.managers.manager import ManagerScore, ManagerWord, NoWord
from apps.tasks.models import Attempt, Task
from apps.tasks.verifying import read_verification
from apps.worlds.registry import find_world


@dataclass(frozen=True)
class RuleBookManager:
    author: str = "agent:rule-book"

    def review(self, task: Task, attempts: list[Attempt]) -> ManagerWord | NoWord:
        overall: dict[int, ManagerScore] = {}
        steps: dict[tuple[int, int], ManagerScore] = {}
        try:
            hints = find_world(task.environment).find_rules(task.prompt)
        except (TentalisError, ValueError) as error:
            return NoWord(f"the rule book cannot be applied: {error}")
        if hints is None:
            return NoWord(f"environment {task.environment} has no rule book")
        why = "no attempt gave an answer"
        for attempt in attempts:
            found = read_verification(attempt)
            if found is None or found.outcome is None:
                why = f"no attempt could be verified: {found.infrastructure if found else 'nothing was found out'}"
                continue
            overall[attempt.pk] = ManagerScore(found.outcome)
            words = zip(attempt.ordered_steps, found.step_scores, found.step_reasons, strict=False)
            steps |= {(attempt.pk, row.pk): ManagerScore(score, reason) for row, score, reason in words}
        if not overall:
            return NoWord(why)
        score = fmean(said.score for said in overall.values() if said.score is not None)
        return ManagerWord(text=", ".join(hints), score=score, attempts=overall, steps=steps)
