"""A manager that is a model: holds every attempt to the project's rubric."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean
from typing import Any

from apps.accounts.models import Project
from apps.base.errors import TentalisError
from apps.feedback.managers.manager import ManagerScore, ManagerWord, NoWord
from apps.inference.client import ModelClient
from apps.inference.errors import ProviderRefusedError
from apps.inference.judges import Voter, cast_vote
from apps.judges.models import name_llm_manager, name_pair_rater, tell_judge
from apps.tasks.drafts import read_context
from apps.tasks.models import Attempt, Task
from tentalis.core.scoring.judging import (
    Decision,
    Judgement,
    build_judge_request,
    build_pair_request,
    join_orders,
    parse_decision,
    parse_preference,
)
from tentalis.core.scoring.protocol import Score, Unscored
from tentalis.core.scoring.quoting import Message
from tentalis.outbound.scopes import ScopedThreadPool

PAIR_TOKENS = DECISION_TOKENS = 1024
AT_ONCE = 8


@dataclass(frozen=True)
class PairQuestion:
    """Two answers to a task, of which one may be better."""

    project: Project
    prompt: str
    first: str
    second: str

    @property
    def swapped(self) -> "PairQuestion":
        return replace(self, first=self.second, second=self.first)


@dataclass(frozen=True)
class LlmManager:
    """Asks the model once an attempt; an answer that is not the JSON asked for is no judgement.

    Args:
        open_client: called when something is asked.
        model: "": none is configured.
        find_bar: called when it is to say what trains: why it may not; "" where it may.
        provider_id: its server's; None: the installation's own.
    """

    open_client: Callable[[], ModelClient]
    model: str
    find_bar: Callable[[], str]
    provider_id: int | None = None

    @property
    def told(self) -> dict[str, Any]:
        return tell_judge(self.provider_id, self.model)

    @property
    def author(self) -> str:
        return name_llm_manager(self.model)

    @property
    def rater(self) -> str:
        """Its handle where it says which of two answers is better, which is another skill than scoring one."""
        return name_pair_rater(self.model)

    def prefer(self, pairs: Sequence[PairQuestion]) -> list[Score]:
        """How far the first answer of each is better, in [0, 1], each pair asked in both orders.

        Raises:
            ProviderBusyError: the model cannot be asked now.
            ConflictError, SealedKeyError: its server is switched off, or its key cannot be read.
        """
        client = self.open_client()
        with ScopedThreadPool(AT_ONCE) as pool:
            said = list(
                pool.map(partial(self._prefer, client), [one for pair in pairs for one in (pair, pair.swapped)])
            )
        return [_join_orders(*both) for both in zip(said[::2], said[1::2], strict=True)]

    def _prefer(self, client: ModelClient, pair: PairQuestion) -> Score:
        messages = build_pair_request(
            prompt=pair.prompt,
            first=pair.first,
            second=pair.second,
            rubric=pair.project.rubric,
            constitution=pair.project.constitution,
        )
        try:
            answers = client.chat(messages, model=self.model, max_tokens=PAIR_TOKENS, temperature=0.0)
        except ProviderRefusedError as error:
            return Unscored(f"{type(error).__name__}: {error}")
        return parse_preference(answers[0].text)

    def decide(self, messages: Sequence[Message]) -> Decision | Unscored:
        """Whether an agent may do what it proposes, by `build_decision_request`; Unscored where nothing can be read.

        Raises:
            ProviderBusyError: the model cannot be asked now.
            ConflictError, SealedKeyError: its server is switched off, or its key cannot be read.
        """
        if not self.model:
            return Unscored("no model is configured for the AI manager")
        if barred := self.find_bar():
            return Unscored(barred)
        client = self.open_client()
        try:
            answers = client.chat(messages, model=self.model, max_tokens=DECISION_TOKENS, temperature=0.0)
        except ProviderRefusedError as error:
            return Unscored(f"{type(error).__name__}: {error}")
        return parse_decision(answers[0].text)

    def review(self, task: Task, attempts: list[Attempt]) -> ManagerWord | NoWord:
        if not self.model:
            return NoWord("no model is configured for the AI manager")
        if not attempts:
            return NoWord("no attempt gave an answer")
        if barred := self.find_bar():
            return NoWord(barred)
        try:
            client = self.open_client()
        except TentalisError as error:
            return NoWord(f"the model cannot be asked: {error}")
        with ScopedThreadPool(AT_ONCE) as pool:
            judgements = list(pool.map(lambda attempt: self._judge(client, task, attempt), attempts))
        return _join(attempts, judgements, judge=self.told)

    def _judge(self, client: ModelClient, task: Task, attempt: Attempt) -> Judgement | Unscored:
        request = build_judge_request(read_context(task, attempt), criterion="manager")
        return cast_vote(Voter(self.model, client), request, temperature=0.0)


def _join_orders(first: Score, second: Score) -> Score:
    if isinstance(first, Unscored) or isinstance(second, Unscored):
        return first if isinstance(first, Unscored) else second
    return join_orders(first, second)


def _join(
    attempts: Sequence[Attempt], judgements: Sequence[Judgement | Unscored], *, judge: Mapping[str, Any]
) -> ManagerWord | NoWord:
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
    return ManagerWord(text="\n".join(words), score=score, attempts=overall, steps=steps, judge=judge)
