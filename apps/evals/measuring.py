"""The machine that measures: has a model try items, grades the answers, and commits each block of tries when it ends.

Whoever is killed goes on behind the last block. What says nothing of the model (it could not be asked, its answer could
not be graded) is tried again a few times and then kept as unscored, with its cause; it is never a 0.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from math import inf
from statistics import fmean
from typing import Any, Final

from django.db import IntegrityError, transaction
from django.utils import timezone

from apps.adapters.models import Adapter
from apps.audit.services import move
from apps.base.inserting import insert
from apps.evals.errors import EvaluationStoppedError
from apps.evals.models import Evaluation, ItemTry
from apps.evals.panels import ItemSet
from apps.inference.errors import ModelNotServedError, ProviderRefusedError
from apps.workers.agents import get_agent, is_quick
from apps.workers.models import Worker
from apps.workers.selectors import find_base_model
from apps.worlds.verifying import verify_answer
from tentalis.core.learning.collapse import AnswerProfile, AnswerTraits, measure_self_overlap, profile_answers
from tentalis.core.worlds import AttemptDraft, PanelItem, Verification

AGAIN: Final = 7_919
"""Added to an item's seed for each further try of it."""
QUICK_BLOCK, BLOCK = 512, 8
"""Tries that are asked for, and committed, together: of models that answer many as fast as one, and of others."""
ROUNDS: Final = 3
"""Times that an item is tried which could not be asked or graded."""
MOST_LOST: Final = 0.1
"""Share of the tries that may be lost: where more are, nothing is said of the model."""
IDENTITY: Final = ("worker", "adapter", "purpose", "item_set", "item_set_hash", "tries", "is_greedy", "scale", "seed")
"""What makes two evaluations the same one."""
SUMMARY: Final = ("played", "unscored", "items", "mean_outcome", "mean_step_score", "profile", "failure", "finished_at")
TRIED = frozenset({Evaluation.State.QUEUED, Evaluation.State.RUNNING, Evaluation.State.DONE})


@dataclass
class Measured:
    """An evaluation with its tries: what is compared.

    Attributes:
        tries: (place, number) -> the try, in the order in which they were made.
    """

    evaluation: Evaluation
    tries: dict[tuple[int, int], ItemTry] = field(default_factory=dict)

    @cached_property
    def outcomes(self) -> Mapping[int, float]:
        """Item's key -> the mean outcome of its tries that have one, in the order of the items."""
        return _means(self.tries.values(), "outcome")

    @cached_property
    def step_scores(self) -> Mapping[int, float]:
        return _means(self.tries.values(), "step_score")

    @property
    def profile(self) -> AnswerProfile:
        return AnswerProfile(**self.evaluation.profile)

    @property
    def items(self) -> int:
        """Items that were tried, scored or not."""
        return len({place for place, _ in self.tries})

    def add(self, rows: Iterable[ItemTry]) -> None:
        self.tries |= {(row.place, row.number): row for row in rows}
        for name in ("outcomes", "step_scores"):
            self.__dict__.pop(name, None)


def name_of(worker: Worker, adapter: Adapter | None) -> str:
    """What the server knows the adapter, or the worker's base model, by."""
    return adapter.name if adapter else find_base_model(worker)


def find_measured(
    worker: Worker,
    adapter: Adapter | None,
    item_set: ItemSet,
    purpose: Evaluation.Purpose,
    *,
    tries: int = 1,
    is_greedy: bool = False,
    scale: float = 1.0,
    seed: int = 0,
) -> Measured:
    """What there is of this evaluation already; one that was never begun has no row yet."""
    values = {
        "worker": worker,
        "adapter": adapter,
        "purpose": purpose,
        "item_set": item_set.name,
        "item_set_hash": item_set.hash,
        "tries": tries,
        "is_greedy": is_greedy,
        "scale": scale,
        "seed": seed,
    }
    found = Evaluation.objects.filter(state__in=TRIED, **values).first()
    if found is not None:
        return read_measured(found)
    planned = len(item_set.items) * tries
    return Measured(Evaluation(project_id=worker.project_id, planned=planned, **values))


def read_measured(evaluation: Evaluation) -> Measured:
    measured = Measured(evaluation)
    measured.add(evaluation.item_tries.order_by("number", "place"))
    return measured


def measure(
    worker: Worker,
    adapter: Adapter | None,
    item_set: ItemSet,
    purpose: Evaluation.Purpose,
    **settings: Any,
) -> Measured:
    """How a model does on all the items, asked for what is not known yet; see `find_measured` and `play`."""
    measured = find_measured(worker, adapter, item_set, purpose, **settings)
    play(measured, item_set)
    return measured


def play(
    measured: Measured,
    item_set: ItemSet,
    *,
    places: Sequence[int] | None = None,
    model: str = "",
    patience_s: float = inf,
    by: str = "gate",
) -> None:
    """Try what was not tried yet of these places, a block after the other; the last one ends the evaluation.

    Args:
        places: of items in the set; None for all.
        model: what the server knows the model by, where that is not the adapter's own name.
        patience_s: after so long no further block is begun, and it stays running.
    Raises:
        ProviderBusyError, ProviderRefusedError: the model could not be asked at all; what was tried before is kept.
        EvaluationStoppedError: somebody paused or cancelled it.
    """
    evaluation, until = measured.evaluation, time.monotonic() + patience_s
    places = range(len(item_set.items)) if places is None else places
    tries = ((place, number) for number in range(evaluation.tries) for place in places)
    wanted = [one for one in tries if one not in measured.tries]
    size = QUICK_BLOCK if is_quick(evaluation.worker) else BLOCK
    blocks = [wanted[start : start + size] for start in range(0, len(wanted), size)]
    if not blocks and evaluation.state == Evaluation.State.RUNNING:
        commit(measured, (), is_last=True, by=by)
    for count, block in enumerate(blocks, start=1):
        require_going_on(evaluation)
        if count > 1 and time.monotonic() > until:
            return
        rows = _try_block(measured, item_set, block, model=model or name_of(evaluation.worker, evaluation.adapter))
        commit(measured, rows, is_last=count == len(blocks), by=by)


def require_going_on(evaluation: Evaluation) -> None:
    """Raises EvaluationStoppedError where somebody paused or cancelled what a person asked for."""
    if evaluation.asked_by and not evaluation._state.adding:
        state = Evaluation.objects.values_list("state", flat=True).get(pk=evaluation.pk)
        if state not in TRIED:
            raise EvaluationStoppedError(f"evaluation {evaluation.pk} is {state}")


def commit(measured: Measured, rows: Sequence[ItemTry], *, is_last: bool, by: str) -> None:
    """Write a block of tries with what all came to so far, and where it is the last, end the evaluation.

    Where somebody else began the same one or made the same tries meanwhile, theirs stay, and ours fill them up.
    """
    evaluation, before = measured.evaluation, set(measured.tries)
    measured.add(rows)
    try:
        with transaction.atomic():
            _write(measured, rows, is_last=is_last, by=by)
    except IntegrityError:
        same = {name: getattr(evaluation, name) for name in IDENTITY}
        theirs = read_measured(Evaluation.objects.get(state__in=TRIED, **same))
        if not evaluation._state.adding and theirs.tries.keys() <= before:  # it is about something else
            raise
        measured.evaluation, measured.tries = theirs.evaluation, theirs.tries
        ours = [row for row in rows if (row.place, row.number) not in theirs.tries]
        for row in ours:
            row.pk, row._state.adding = None, True
        commit(measured, ours, is_last=is_last, by=by)


def _write(measured: Measured, rows: Sequence[ItemTry], *, is_last: bool, by: str) -> None:
    evaluation = measured.evaluation
    state = _sum_up(measured, is_last=is_last)
    if evaluation._state.adding:
        evaluation.state = state
        evaluation.save(force_insert=True)
    else:
        values = {name: getattr(evaluation, name) for name in SUMMARY}
        if state == evaluation.state:
            Evaluation.objects.filter(pk=evaluation.pk).update(**values)
        else:
            move(evaluation, state, by=by, **values)
    for row in rows:
        row.evaluation = evaluation
    insert(rows)


def _sum_up(measured: Measured, *, is_last: bool) -> Evaluation.State:
    """Put what the tries came to into the row; the state that it has then."""
    evaluation, rows = measured.evaluation, measured.tries.values()
    lost = sum(row.cause == ItemTry.Cause.INFRASTRUCTURE for row in rows)
    evaluation.played = len(rows)
    evaluation.unscored = sum(row.outcome is None for row in rows)
    evaluation.items = len(measured.outcomes)
    evaluation.mean_outcome = fmean(measured.outcomes.values()) if measured.outcomes else None
    evaluation.mean_step_score = fmean(measured.step_scores.values()) if measured.step_scores else None
    traits = [AnswerTraits(**row.traits) for row in rows if row.traits is not None]
    evaluation.profile = asdict(profile_answers(traits)) if traits else {}
    if not is_last:
        return Evaluation.State.RUNNING if evaluation._state.adding else Evaluation.State(evaluation.state)
    evaluation.finished_at = timezone.now()
    if lost > MOST_LOST * len(rows):
        reason = next(row.reason for row in rows if row.cause == ItemTry.Cause.INFRASTRUCTURE)
        evaluation.failure = f"{lost} of {len(rows)} tries could not be made or graded: {reason}"
        return Evaluation.State.FAILED
    return Evaluation.State.DONE


def _try_block(measured: Measured, item_set: ItemSet, block: Sequence[tuple[int, int]], *, model: str) -> list[ItemTry]:
    """Try each (place, number), and those again, a few times, that say nothing of the model."""
    made: dict[tuple[int, int], ItemTry] = {}
    lost: Sequence[tuple[int, int]] = block
    for _ in range(ROUNDS):
        try:
            rows = _try_once(measured.evaluation, item_set, lost, model=model)
        except ModelNotServedError:
            raise
        except ProviderRefusedError as error:
            if not made and not measured.tries:  # it never answered anything: that is the server's word, not an item's
                raise
            rows = [_make_lost(item_set, one, str(error)) for one in lost]
        made |= {(row.place, row.number): row for row in rows}
        lost = [one for one, row in made.items() if row.cause == ItemTry.Cause.INFRASTRUCTURE]
        if not lost:
            break
    return list(made.values())


def _try_once(
    evaluation: Evaluation, item_set: ItemSet, block: Sequence[tuple[int, int]], *, model: str
) -> list[ItemTry]:
    items = [item_set.items[place] for place, _ in block]
    drafts = get_agent(evaluation.worker).work(
        prompts=[item.prompt for item in items],
        world=item_set.world,
        group_size=1,
        seeds=[item.seed + evaluation.seed + AGAIN * number for item, (_, number) in zip(items, block, strict=True)],
        model=model,
        greedy=evaluation.is_greedy,
    )
    return [_make_try(item_set, one, item, group[0]) for one, item, group in zip(block, items, drafts, strict=True)]


def _make_try(item_set: ItemSet, one: tuple[int, int], item: PanelItem, draft: AttemptDraft) -> ItemTry:
    if draft.is_lost:
        return _make_lost(item_set, one, draft.error)
    environment = item_set.world.name
    found = verify_answer(
        environment=environment, prompt=item.prompt, reference=item.reference, draft=draft, checks=item.checks or ()
    )
    if found is not None and found.outcome is None:
        return _make_lost(item_set, one, found.infrastructure)
    row = ItemTry(place=one[0], number=one[1], key=item_set.keys[one[0]], traits=vars(read_traits(draft)))
    if found is not None and found.outcome is not None:
        row.outcome, row.grader = round(float(found.outcome), 4), found.grader[:64]
        row.step_score = round(_mean_step_score(found, found.outcome), 4)
    elif draft.error:  # the model wrote nothing that could be right
        row.outcome = row.step_score = 0.0
    else:
        row.cause, row.reason = ItemTry.Cause.UNCHECKED, f"{environment} has nothing to check it with"
    return row


def _make_lost(item_set: ItemSet, one: tuple[int, int], reason: str) -> ItemTry:
    cause = ItemTry.Cause.INFRASTRUCTURE
    return ItemTry(place=one[0], number=one[1], key=item_set.keys[one[0]], cause=cause, reason=reason[:300])


def _means(rows: Iterable[ItemTry], name: str) -> dict[int, float]:
    found: dict[int, list[float]] = {}
    for row in sorted(rows, key=lambda row: row.place):
        if (value := getattr(row, name)) is not None:
            found.setdefault(row.key, []).append(value)
    return {key: fmean(values) for key, values in found.items()}


def _mean_step_score(found: Verification, outcome: float) -> float:
    scores = [score for score in found.step_scores if score is not None] + [0.0] * found.missing_steps
    return fmean(scores) if scores else outcome


def read_traits(draft: AttemptDraft) -> AnswerTraits:
    """What an answer looks like."""
    chosen = [token for token, sampled in zip(draft.token_ids, draft.sampled, strict=True) if sampled]
    logprobs: Sequence[float] = [value for value, sampled in zip(draft.logprobs, draft.sampled, strict=True) if sampled]
    return AnswerTraits(
        has_broken_tags=any(step.kind in {"other", "bad"} for step in draft.steps) or not draft.steps,
        has_end=draft.ended,
        entropy_nats=-fmean(logprobs) if logprobs else 0.0,
        length_tokens=len(chosen),
        self_overlap=measure_self_overlap(chosen),
    )
