"""The machine that measures: has a model try items, grades the answers, and commits each block of tries when it ends.

Whoever is killed goes on behind the last block. What says nothing of the model (it could not be asked, its answer could
not be graded) is tried again a few times and then kept as unscored, with its cause; it is never a 0.
"""

import time
from collections import ChainMap, Counter
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import Any, Final, NamedTuple

from django.db import connection

from apps.adapters.models import Adapter
from apps.adapters.serving import client_of
from apps.base.errors import ConflictError
from apps.evals.answering import Answered, answer_tries
from apps.evals.errors import EvaluationStoppedError, TriesAwaitedError
from apps.evals.grading import grade_try, note_lost
from apps.evals.models import Evaluation, ItemTry
from apps.evals.panels import ItemSet, refuse_tries
from apps.evals.results import TRIED, Measured, WantedTries, WantedTry, commit, find_measured, name_of
from apps.inference.errors import ModelNotServedError, ProviderBusyError, ProviderRefusedError
from apps.workers.agents import get_agent, works_outside
from apps.workers.models import Worker
from tentalis.core.scoring.quoting import clean_text
from tentalis.core.worlds import AttemptDraft, Verification, World
from tentalis.outbound.scopes import ScopedThreadPool

MOST_READ: Final = 5
"""Answers of a report that are kept for people to read."""
TOO_MANY: Final = 429
"""What a server answers that wants fewer requests."""
SOON_S: Final = 10.0
"""Who wants to be asked again after so long at most has too many at the same time: fewer are asked at once."""
ROUNDS: Final = 3
"""Times that an item is tried which could not be asked or graded."""


def measure(
    worker: Worker,
    adapter: Adapter | None,
    item_set: ItemSet,
    purpose: Evaluation.Purpose,
    **settings: Any,
) -> Measured:
    """How a model does on all the items, asked for what is not known yet; see `find_measured` and `play`."""
    measured = find_measured(worker, adapter, item_set, purpose, **settings)
    play(WantedTries(measured, item_set))
    return measured


def play(*asked: WantedTries, patience_s: float = inf, by: str = "gate") -> None:
    """Try what was not tried yet, a block of each evaluation after the other; its last one ends an evaluation.

    The blocks of all go to the server together: those of one model in one call of its agent, different models' at the
    same time.

    Args:
        patience_s: after so long no further block is begun, and what is not done stays running.
    Raises:
        ProviderBusyError, ProviderRefusedError: the model could not be asked at all; what was tried before is kept.
        EvaluationStoppedError: somebody paused or cancelled it.
        TriesAwaitedError: its agent works outside, and has not made them yet.
        ConflictError: tries in this world are made for tasks alone.
    """
    until, blocks = time.monotonic() + patience_s, {one: one.list_blocks() for one in asked}
    for one in asked:
        if blocks[one] and (words := refuse_tries(one.measured.evaluation.worker, one.item_set.world)):
            raise ConflictError(words)
    for one in asked:
        if not blocks[one] and one.measured.evaluation.state == Evaluation.State.RUNNING:
            commit(one.measured, (), is_last=True, by=by)
    if awaited := [one for one in asked if blocks[one] and works_outside(one.measured.evaluation.worker)]:
        raise TriesAwaitedError(awaited)
    for count in range(max(map(len, blocks.values()), default=0)):
        now = {one: left[count] for one, left in blocks.items() if count < len(left)}
        for one in now:
            require_going_on(one.measured.evaluation)
        if count and time.monotonic() > until:
            return
        tried = _try_together([each for block in now.values() for each in block])
        for one, block in now.items():
            rows = [tried.made[each] for each in block if each in tried.made]
            if rows:
                commit(one.measured, rows, is_last=count + 1 == len(blocks[one]) and len(rows) == len(block), by=by)
        if tried.busy is not None:
            raise tried.busy


def require_going_on(evaluation: Evaluation) -> None:
    """Raises EvaluationStoppedError where somebody paused or cancelled what a person asked for."""
    if evaluation.asked_by and not evaluation._state.adding:
        state = Evaluation.objects.values_list("state", flat=True).get(pk=evaluation.pk)
        if state not in TRIED:
            raise EvaluationStoppedError(f"evaluation {evaluation.pk} is {state}")


class _Tried(NamedTuple):
    """What was made; what kept the server from the others, which wait."""

    made: dict[WantedTry, ItemTry]
    busy: ProviderBusyError | None = None


def _try_together(tries: Sequence[WantedTry]) -> _Tried:
    """Each model's in one go, and all models' at the same time."""
    by_model: dict[tuple[Worker, str, World, bool], list[WantedTry]] = {}
    for one in tries:
        evaluation = one.asked.measured.evaluation
        model = one.asked.model or name_of(evaluation.worker, evaluation.adapter)
        key = (evaluation.worker, model, one.asked.item_set.world, evaluation.is_greedy)
        by_model.setdefault(key, []).append(one)
    agents = {worker: get_agent(worker) for worker, *_ in by_model}
    scored = {one.asked.measured.evaluation.worker for one in tries if one.is_looked_at}
    servers = {worker: client_of(worker) for worker in scored}  # here: it asks the database
    calls = [
        partial(
            _try_block,
            some,
            partial(
                answer_tries, agents[worker], worker, world, model=model, greedy=is_greedy, server=servers.get(worker)
            ),
        )
        for (worker, model, world, is_greedy), some in by_model.items()
    ]
    if len(calls) == 1:
        return calls[0]()

    def try_aside(call: Callable[[], _Tried]) -> _Tried:
        try:
            return call()
        finally:
            connection.close()

    with ScopedThreadPool(len(calls)) as pool:
        found = list(pool.map(try_aside, calls))
    made = dict(ChainMap(*(one.made for one in found)))
    return _Tried(made, next((one.busy for one in found if one.busy is not None), None))


def _try_block(tries: Sequence[WantedTry], answer: Callable[[Sequence[WantedTry]], Sequence[Answered]]) -> _Tried:
    """Try them with one model, and those again, a few times, that say nothing of it; fewer at a time where the server
    wants that."""
    made: dict[WantedTry, ItemTry] = {}
    times, left, size = Counter[WantedTry](), list(tries), len(tries)
    while left:
        now, left = left[:size], left[size:]
        try:
            rows = {one: _grade(one, *said) for one, said in zip(now, answer(now), strict=True)}
        except ModelNotServedError:
            raise
        except ProviderBusyError as error:
            left = now + left
            is_about_now = error.http_status == TOO_MANY and (error.retry_after_s or 0.0) <= SOON_S
            if is_about_now and len(now) > 1:
                size = len(now) // 2
                continue
            return _Tried({one: row for one, row in made.items() if one not in left}, error)
        except ProviderRefusedError as error:
            if len(now) == len(tries) and not made and not any(one.asked.measured.tries for one in tries):
                raise  # it never answered anything: that is the server's word, not an item's
            rows = {one: note_lost(_open_row(one), str(error)) for one in now}
        made |= rows
        times.update(now)
        lost = ItemTry.Cause.INFRASTRUCTURE
        left += [one for one, row in rows.items() if row.cause == lost and times[one] < ROUNDS]
    return _Tried(made)


def _is_read(one: WantedTry) -> bool:
    """Whether people are shown the answer."""
    evaluation = one.asked.measured.evaluation
    is_reported = evaluation.purpose == Evaluation.Purpose.REPORT and evaluation.is_greedy
    return is_reported and one.place < MOST_READ and one.number == 0


def _grade(one: WantedTry, draft: AttemptDraft, found: Verification | None, base_nats: float | None) -> ItemTry:
    row = grade_try(_open_row(one), one.item, one.asked.item_set.world, draft, found)
    if row.traits is not None:
        row.traits |= {"base_nats": base_nats}
        if _is_read(one):
            row.answer = clean_text(draft.answer or draft.text)
    return row


def _open_row(one: WantedTry) -> ItemTry:
    return ItemTry(place=one.place, number=one.number, key=one.asked.item_set.keys[one.place], weight=one.item.weight)
