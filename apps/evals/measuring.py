"""The machine that measures: has a model try items, grades the answers, and commits each try when it ends
(`apps.evals.streaming`), or a block of them where many are answered in one request.

Whoever is killed goes on behind what was committed. What says nothing of the model (it could not be asked, its answer
could not be graded) is tried again a few times and then kept as unscored, with its cause; it is never a 0.
"""

import time
from collections import ChainMap, Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import zip_longest
from math import inf
from typing import Any, NamedTuple

from django.db import connection

from apps.adapters.models import Adapter
from apps.adapters.serving import client_of
from apps.base.errors import ConflictError
from apps.evals.answering import Answered, answer_tries
from apps.evals.errors import TriesAwaitedError
from apps.evals.grading import grade_answered, note_lost, open_row
from apps.evals.models import Evaluation, ItemTry
from apps.evals.panels import ItemSet, refuse_tries
from apps.evals.results import Measured, WantedTries, WantedTry, asks_in_blocks, commit, find_measured, name_of
from apps.evals.streaming import ROUNDS, require_going_on, stream, wants_fewer
from apps.inference.errors import ModelNotServedError, ProviderBusyError, ProviderRefusedError
from apps.workers.agents import get_agent, works_outside
from apps.workers.models import Worker
from tentalis.core.worlds import World
from tentalis.outbound.scopes import ScopedThreadPool


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

    Where blocks are asked for as such, those of all go to the server together: those of one model in one call of its
    agent, different models' at the same time. Else so many tries are under way at any time as may be.

    Args:
        patience_s: after so long no further try is begun, and what is not done stays running.
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
        one.measured.begin_work()
    for one in asked:
        if not blocks[one] and one.measured.evaluation.state == Evaluation.State.RUNNING:
            commit(one.measured, (), is_last=True, by=by)
    if awaited := [one for one in asked if blocks[one] and works_outside(one.measured.evaluation.worker)]:
        raise TriesAwaitedError(awaited)
    if not all(asks_in_blocks(one.measured.evaluation.worker) for one in blocks):
        stream(
            [each for block in zip_longest(*blocks.values(), fillvalue=()) for some in block for each in some],
            until=until,
            by=by,
        )
        return
    for count in range(max(map(len, blocks.values()), default=0)):
        now = {one: left[count] for one, left in blocks.items() if count < len(left)}
        for one in now:
            require_going_on(one.measured.evaluation)
            if one.measured.pause_spent(by=by):
                return
        if count and time.monotonic() > until:
            return
        tried = _try_together([each for block in now.values() for each in block])
        for one, block in now.items():
            rows = [tried.made[each] for each in block if each in tried.made]
            if rows:
                commit(one.measured, rows, is_last=count + 1 == len(blocks[one]) and len(rows) == len(block), by=by)
                one.measured.forget_written(rows)
        if tried.busy is not None:
            raise tried.busy


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
            with now[0].asked.measured.writing(now[0]):
                rows = {one: grade_answered(one, said) for one, said in zip(now, answer(now), strict=True)}
        except ModelNotServedError:
            raise
        except ProviderBusyError as error:
            left = now + left
            if wants_fewer(error) and len(now) > 1:
                size = len(now) // 2
                continue
            return _Tried({one: row for one, row in made.items() if one not in left}, error)
        except ProviderRefusedError as error:
            if len(now) == len(tries) and not made and not any(one.asked.measured.tries for one in tries):
                raise  # it never answered anything: that is the server's word, not an item's
            rows = {one: note_lost(open_row(one), str(error)) for one in now}
        made |= rows
        times.update(now)
        lost = ItemTry.Cause.INFRASTRUCTURE
        left += [one for one, row in rows.items() if row.cause == lost and times[one] < ROUNDS]
    return _Tried(made)
