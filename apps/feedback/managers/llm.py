"""A manager that is a model: holds every attempt to the project's rubric."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from apps.base.errors import TentalisError
from apps.feedback.managers.manager import ManagerScore, ManagerWord, NoWord
from apps.inference.client import ModelClient
from apps.tasks.drafts import read_context
from apps.tasks.models import Attempt, Task
from tentalis.core.scoring.judging import Judgement, build_judge_request, parse_judgement
from tentalis.core.scoring.protocol import Unscored
from tentalis.outbound.scopes import ScopedThreadPool

MAX_TOKENS = 4096
AT_ONCE = 8


@dataclass(frozen=True)
class LlmManager:
    """Asks the model once an attempt; an answer that is not the JSON asked for is no judgement.

    Args:
        open_client: called when something is asked.
        model: "": none is configured.
    """

    open_client: Callable[[], ModelClient]
    model: str

    @property
    def author(self) -> str:
        return f"agent:llm:{self.model}"[:120]

    def review(self, task: Task, attempts: list[Attempt]) -> ManagerWord | NoWord:
        if not self.model:
            return NoWord("no model is configured for the AI manager")
        if not attempts:
            return NoWord("no attempt gave an answer")
        try:
            client = self.open_client()
        except TentalisError as error:
            return NoWord(f"the model cannot be asked: {error}")
        with ScopedThreadPool(AT_ONCE) as pool:
            judgements = list(pool.map(lambda attempt: self._judge(client, task, attempt), attempts))
        return _join(attempts, judgements)

    def _judge(self, client: ModelClient, task: Task, attempt: Attempt) -> Judgement | Unscored:
        request = build_judge_request(read_context(task, attempt), criterion="manager")
        try:
            answers = client.chat(request.messages, model=self.model, max_tokens=MAX_TOKENS, temperature=0.0)
        except TentalisError as error:
            return Unscored(f"{type(error).__name__}: {error}")
        return parse_judgement(answers[0].text, step_count=request.step_count)


def _join(attempts: Sequence[Attempt], judgements: Sequence[Judgement | Unscored]) -> ManagerWord | NoWord:
    overall: dict[int, ManagerScore] = {}
    steps: dict[tuple[int, int], ManagerScore] = {}
    words, faults = [], []
    for attempt, judgement in zip(attempts, judgements, strict=True):
        if isinstance(judgement, Unscored):
            faults.append(f"attempt {attempt.index}: {judgement.reason}")
            continue
        overall[attempt.pk] = ManagerScore(judgement.overall, judgement.reason)
        for row, verdict in zip(attempt.ordered_steps, judgement.steps, strict=False):
            steps[attempt.pk, row.pk] = ManagerScore(verdict.score, verdict.reason)
        if judgement.reason:
            words.append(f"Attempt {attempt.index + 1}: {judgement.reason}")
    if not overall:
        return NoWord("; ".join(faults))
    score = fmean(said.score for said in overall.values() if said.score is not None)
    return ManagerWord(text="\n".join(words), score=score, attempts=overall, steps=steps)
