"""Tries that are answered one by one: so many under way at any time as may be, each committed when it ends, and
those that end within a moment together."""

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from functools import partial
from typing import Final

from django.db import connection

from apps.adapters.serving import client_of
from apps.evals.answering import Answered, answer_tries
from apps.evals.errors import EvaluationStoppedError
from apps.evals.grading import grade_answered, note_lost, open_row
from apps.evals.models import Evaluation, ItemTry
from apps.evals.results import BLOCK, TRIED, WantedTries, WantedTry, commit, name_of
from apps.inference.errors import ModelNotServedError, ProviderBusyError, ProviderRefusedError
from apps.workers.agents import get_agent
from tentalis.outbound.scopes import CancelScope, ScopedThreadPool, current_scope

ROUNDS: Final = 3
"""Times that an item is tried which could not be asked or graded."""
TOO_MANY: Final = 429
"""What a server answers that wants fewer requests."""
SOON_S: Final = 10.0
"""Who wants to be asked again after so long at most has too many at the same time: fewer are asked at once."""
LOOK_S: Final = 0.5
MOMENT_S: Final = 0.05
"""Tries that end within so long are committed together: alone, each costs as much as many. Of what has a budget none
is begun before all that ended is counted."""
GRACE_S: Final = 5.0
"""A try that took too long is cancelled, and left alone where it does not end within so long."""


def wants_fewer(error: ProviderBusyError) -> bool:
    """Whether the server has too many requests just now."""
    return error.http_status == TOO_MANY and (error.retry_after_s or 0.0) <= SOON_S


def require_going_on(evaluation: Evaluation) -> None:
    """Raises EvaluationStoppedError where somebody paused or cancelled what a person asked for."""
    if evaluation.asked_by and not evaluation._state.adding:
        state = Evaluation.objects.values_list("state", flat=True).get(pk=evaluation.pk)
        if state not in TRIED:
            raise EvaluationStoppedError(f"evaluation {evaluation.pk} is {state}")


def stream(tries: Sequence[WantedTry], *, until: float, by: str) -> None:
    """Make the tries, begun in their order; the last one of an evaluation ends it.

    Args:
        until: by `time.monotonic`: from then on none is begun.
    Raises:
        As `measuring.play`; what is under way then is done and kept.
    """
    if tries:
        _Stream(tries, until, by).run()


@dataclass(eq=False)
class _Running:
    """A try under way. Args: generation: how often fewer were asked before it began."""

    one: WantedTry
    scope: CancelScope
    began: float
    generation: int
    is_late: bool = False


class _Stream:
    def __init__(self, tries: Sequence[WantedTry], until: float, by: str) -> None:
        self.queue, self.until, self.by = deque(tries), until, by
        self.asked = list(dict.fromkeys(one.asked for one in tries))
        self.left = Counter(one.asked for one in tries)
        self.answer = {one: self._open(one) for one in self.asked}
        self.begun = {
            each for one in self.asked for each in one.measured.find_begun(t for t in tries if t.asked is one)
        }
        self.running: dict[Future[Answered], _Running] = {}
        self.times = Counter[WantedTry]()
        self.refused: list[tuple[WantedTry, ProviderRefusedError]] = []
        self.knows_answers = any(one.measured.tries for one in self.asked)
        self.width = max(one.measured.limits.at_once for one in self.asked)
        self.generation = 0
        self.has_begun = False
        self.has_budget = any(one.measured.limits.has_budget for one in self.asked)
        self.ended: dict[WantedTries, list[ItemTry]] = {}
        self.committed_at = 0.0
        self.failure: BaseException | None = None

    def _open(self, asked: WantedTries) -> Callable[[WantedTry, bool], Answered]:
        """What answers one try of an evaluation, where it is new without looking for what was answered already, in
        whatever thread; all that it asks of the database is asked here."""
        evaluation, worker = asked.measured.evaluation, asked.measured.evaluation.worker
        _ = worker.project, evaluation.adapter
        looks = evaluation.purpose in (Evaluation.Purpose.PANEL, Evaluation.Purpose.MORE)
        answer = partial(
            answer_tries,
            get_agent(worker),
            worker,
            asked.item_set.world,
            model=asked.model or name_of(worker, evaluation.adapter),
            greedy=evaluation.is_greedy,
            server=client_of(worker) if looks else None,
        )

        def answer_one(one: WantedTry, is_new: bool) -> Answered:
            try:
                with asked.measured.writing(one, is_new=is_new):
                    [said] = answer([one])
                return said
            finally:
                connection.close()

        return answer_one

    def run(self) -> None:
        pool = ScopedThreadPool(self.width + len(self.queue))  # one that does not end keeps its thread
        try:
            while self.running or (self.queue and self._may_begin()):
                while self.queue and len(self.running) < self.width and self._may_begin():
                    self._begin(pool, self.queue.popleft())
                self._take()
                if self.has_budget or not self.running or time.monotonic() >= self.committed_at + MOMENT_S:
                    self._commit()
        finally:
            self._leave()
            pool.shutdown(wait=False, cancel_futures=True)
        for one in self.asked:
            one.measured.catch_up(by=self.by)
        if not self.knows_answers and self.refused and self.failure is None:
            self.failure = self.refused[0][1]  # it never answered anything: that is the server's word
        if self.failure is not None:
            raise self.failure

    def _leave(self) -> None:
        """Where something broke off, what comes soon is written down for who goes on; the rest is not waited for."""
        wait(self.running, timeout=GRACE_S)
        for future, running in self.running.items():
            if not future.done():
                running.scope.cancel("whoever asked has ended")

    def _may_begin(self) -> bool:
        return self.failure is None and (not self.has_begun or time.monotonic() <= self.until)

    def _begin(self, pool: ScopedThreadPool, one: WantedTry) -> None:
        self.has_begun = True
        scope = CancelScope()
        running = _Running(one, scope, time.monotonic(), self.generation)
        is_new = one not in self.begun
        self.begun.add(one)

        def work() -> Answered:
            with scope:
                return self.answer[one.asked](one, is_new)

        self.running[pool.submit(work)] = running

    def _take(self) -> None:
        """Wait for what is under way, and read what has ended."""
        until = self.committed_at + MOMENT_S - time.monotonic() if self.ended else LOOK_S
        done, _ = wait(self.running, timeout=max(0.0, min(until, LOOK_S)), return_when=FIRST_COMPLETED)
        if (scope := current_scope()) is not None:
            scope.require()
        for future in done:
            for one, row in self._read(self.running[future], future):
                self.ended.setdefault(one.asked, []).append(row)
        for future in done:  # not before: all of them were under way together
            del self.running[future]
        for one, row in self._drop_late():
            self.ended.setdefault(one.asked, []).append(row)

    def _commit(self) -> None:
        """Write down what has ended, and look whether it goes on."""
        ended, self.ended = self.ended, {}
        for asked, made in ended.items():
            self.left[asked] -= len(made)
            commit(asked.measured, made, is_last=self.left[asked] == 0, by=self.by)
            asked.measured.forget_written(made)
        self._look_round()
        self.committed_at = time.monotonic()

    def _read(self, running: _Running, future: Future[Answered]) -> list[tuple[WantedTry, ItemTry]]:
        """What is to be committed of a try that ended; what is to be tried again is put back."""
        one, error = running.one, future.exception()
        if error is None:
            self.knows_answers = True
            found = self._try_again(one, grade_answered(one, future.result()))
            put_aside, self.refused = self.refused, []
            for other, refusal in put_aside:
                found += self._try_again(other, note_lost(open_row(other), str(refusal)))
            return found
        if running.is_late:
            return [(one, _note_late(one))]
        if isinstance(error, ProviderBusyError):
            self._note_busy(running, error)
        elif isinstance(error, ProviderRefusedError) and not isinstance(error, ModelNotServedError):
            if self.knows_answers:
                return self._try_again(one, note_lost(open_row(one), str(error)))
            self.refused.append((one, error))
            if len(self.refused) >= BLOCK:
                self.failure = self.failure or error
        else:
            self.failure = self.failure or error
        return []

    def _note_busy(self, running: _Running, error: ProviderBusyError) -> None:
        """Put it back; ask for fewer at one time where the server wants that, else for no more."""
        self.queue.appendleft(running.one)
        if not wants_fewer(error) or self.width <= 1:
            self.failure = self.failure or error
        elif running.generation == self.generation:
            self.width = max(1, min(self.width, len(self.running)) // 2)
            self.generation += 1

    def _try_again(self, one: WantedTry, row: ItemTry) -> list[tuple[WantedTry, ItemTry]]:
        """Put back what could not be asked or graded, a few times."""
        self.times[one] += 1
        if row.cause != ItemTry.Cause.INFRASTRUCTURE or self.times[one] >= ROUNDS:
            return [(one, row)]
        one.asked.measured.forget_written([row])
        self.queue.append(one)
        return []

    def _drop_late(self) -> list[tuple[WantedTry, ItemTry]]:
        """Cancel what took too long, and leave alone what does not end even so."""
        now, dropped = time.monotonic(), []
        for future, running in list(self.running.items()):
            most = running.one.asked.measured.limits.timeout_s
            if most is None or now < running.began + most:
                continue
            if not running.is_late:
                running.is_late = True
                running.scope.cancel(f"it took longer than {most:g} s")
            elif now > running.began + most + GRACE_S and not future.done():
                del self.running[future]
                dropped.append((running.one, _note_late(running.one)))
        return dropped

    def _look_round(self) -> None:
        """Begin no more of what somebody stopped, or whose budget is used."""
        try:
            for asked in self.asked:
                if self.left[asked]:
                    require_going_on(asked.measured.evaluation)
                    if asked.measured.pause_spent(by=self.by):
                        raise EvaluationStoppedError(asked.measured.evaluation.failure)
        except EvaluationStoppedError as error:
            self.failure = self.failure or error


def _note_late(one: WantedTry) -> ItemTry:
    row = open_row(one)
    most = one.asked.measured.limits.timeout_s
    row.cause, row.reason = ItemTry.Cause.TIMEOUT, f"it took longer than {most:g} s"
    return row
