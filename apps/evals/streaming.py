"""Tries that are answered one by one: so many under way at any time as may be, each committed when it ends, and
those that end within a moment together. What ends makes room for the next by itself, while others are written down."""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
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
AHEAD: Final = 4
"""Times as many as may be under way at once are begun and not read yet: while some are written down, others end."""
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
    """A try under way, or ended and not read yet.

    Args:
        generation: how often fewer were asked before it began.
        answered, error: what it ended with.
    """

    one: WantedTry
    is_new: bool
    generation: int
    scope: CancelScope = field(default_factory=CancelScope)
    began: float = field(default_factory=time.monotonic)
    is_late: bool = False
    answered: Answered | None = None
    error: BaseException | None = None

    @property
    def has_ended(self) -> bool:
        return self.answered is not None or self.error is not None


class _Stream:
    def __init__(self, tries: Sequence[WantedTry], until: float, by: str) -> None:
        self.queue, self.until, self.by = deque(tries), until, by
        self.asked = list(dict.fromkeys(one.asked for one in tries))
        self.left = Counter(one.asked for one in tries)
        self.answer = {one: self._open(one) for one in self.asked}
        self.begun = {
            each for one in self.asked for each in one.measured.find_begun(t for t in tries if t.asked is one)
        }
        self.lock = threading.Lock()  # of what is begun: the queue, running, under_way, width
        self.running: set[_Running] = set()
        self.under_way = 0
        self.unread_errors = 0
        self.seats: set[Future[None]] = set()
        self.read: SimpleQueue[_Running] = SimpleQueue()
        self.times = Counter[WantedTry]()
        self.refused: list[tuple[WantedTry, ProviderRefusedError]] = []
        self.knows_answers = any(one.measured.tries for one in self.asked)
        self.width = max(one.measured.limits.at_once for one in self.asked)
        self.generation = 0
        self.has_begun = self.is_over = False
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
        self.committed_at = time.monotonic()
        pool = ScopedThreadPool(self.width + len(self.queue))  # one that does not end keeps its thread
        try:
            while self._seat(pool) or self.running:
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
        self.is_over = True
        wait(list(self.seats), timeout=GRACE_S)
        for running in list(self.running):
            running.scope.cancel("whoever asked has ended")

    def _seat(self, pool: ScopedThreadPool) -> bool:
        """Begin what there is room for. Returns whether anything was begun."""
        begun = 0
        while (running := self._begin()) is not None:
            begun += 1
            seat = pool.submit(self._sit, running)
            self.seats.add(seat)
            seat.add_done_callback(self.seats.discard)
        return begun > 0

    def _begin(self) -> _Running | None:
        """The next try, as under way; None where there is none, or no room, or what could not be asked is not read yet.
        What ended and waits to be read is bounded too."""
        with self.lock:
            has_room = self.under_way < self.width and len(self.running) < AHEAD * self.width
            if not self.queue or not has_room or self.unread_errors or not self._may_begin():
                return None
            one = self.queue.popleft()
            running = _Running(one, one not in self.begun, self.generation)
            self.has_begun = True
            self.begun.add(one)
            self.running.add(running)
            self.under_way += 1
            return running

    def _may_begin(self) -> bool:
        is_over = self.is_over or self.failure is not None
        return not is_over and (not self.has_begun or time.monotonic() <= self.until)

    def _sit(self, running: _Running | None) -> None:
        """Try it, and one after the other behind it, in a thread of the pool, until one is not answered."""
        while running is not None:
            try:
                with running.scope:
                    running.answered = self.answer[running.one.asked](running.one, running.is_new)
            except BaseException as error:  # noqa: BLE001 - whoever reads it raises it
                running.error = error
            with self.lock:
                if running not in self.running:  # it was left alone, and its place is another's
                    return
                self.under_way -= 1
                self.unread_errors += running.error is not None
            self.read.put(running)
            goes_on = running.error is None and not self.has_budget
            running = self._begin() if goes_on else None

    def _take(self) -> None:
        """Wait for what is under way, and read what has ended."""
        until = self.committed_at + MOMENT_S - time.monotonic() if self.ended else LOOK_S
        done: list[_Running] = []
        with suppress(Empty):
            done.append(self.read.get(timeout=max(0.0, min(until, LOOK_S))))
            while True:
                done.append(self.read.get_nowait())
        if (scope := current_scope()) is not None:
            scope.require()
        for running in done:
            for one, row in self._read(running):
                self.ended.setdefault(one.asked, []).append(row)
            with self.lock:
                self.running.discard(running)
                self.unread_errors -= running.error is not None
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

    def _read(self, running: _Running) -> list[tuple[WantedTry, ItemTry]]:
        """What is to be committed of a try that ended; what is to be tried again is put back."""
        one, error = running.one, running.error
        if running.answered is not None:
            self.knows_answers = True
            found = self._try_again(one, grade_answered(one, running.answered))
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
        with self.lock:
            self.queue.appendleft(running.one)
            if wants_fewer(error) and running.generation < self.generation:
                return  # fewer are asked since then
            if not wants_fewer(error) or self.width <= 1:
                self.failure = self.failure or error
            else:
                self.width //= 2
                self.generation += 1

    def _try_again(self, one: WantedTry, row: ItemTry) -> list[tuple[WantedTry, ItemTry]]:
        """Put back what could not be asked or graded, a few times."""
        self.times[one] += 1
        if row.cause != ItemTry.Cause.INFRASTRUCTURE or self.times[one] >= ROUNDS:
            return [(one, row)]
        one.asked.measured.forget_written([row])
        with self.lock:
            self.queue.append(one)
        return []

    def _drop_late(self) -> list[tuple[WantedTry, ItemTry]]:
        """Cancel what took too long, and leave alone what does not end even so."""
        now, dropped = time.monotonic(), []
        for running in list(self.running):
            most = running.one.asked.measured.limits.timeout_s
            if most is None or now < running.began + most or running.has_ended:
                continue
            if not running.is_late:
                running.is_late = True
                running.scope.cancel(f"it took longer than {most:g} s")
            elif now > running.began + most + GRACE_S and self._leave_alone(running):
                dropped.append((running.one, _note_late(running.one)))
        return dropped

    def _leave_alone(self, running: _Running) -> bool:
        """Give its place away, unless it has ended after all."""
        with self.lock:
            if running.has_ended:
                return False
            self.running.discard(running)
            self.under_way -= 1
            return True

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
