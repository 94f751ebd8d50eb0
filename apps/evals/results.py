"""Evaluations with their tries: what there is of one, what is left to try, and each block as it is committed."""

import hashlib
import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from functools import cached_property
from importlib.metadata import version
from math import inf
from statistics import fmean
from typing import Any, Final, NamedTuple

from django.db import IntegrityError, transaction
from django.db.models import F, Sum
from django.utils import timezone

from apps.accounts.models import Project
from apps.adapters.models import Adapter
from apps.audit.services import move
from apps.base.inserting import insert
from apps.checks.graders import convene_graders
from apps.evals.limits import RunLimits, RunSpent
from apps.evals.models import Evaluation, ItemTry, TryRecord
from apps.evals.panels import ItemSet
from apps.inference.kept_answers import find_written, forget_written, write_answers
from apps.inference.prices import Rates, find_price
from apps.workers.agents import is_quick
from apps.workers.base_names import count_parameters
from apps.workers.kinds import find_kind
from apps.workers.models import Worker
from apps.workers.selectors import find_base_model
from apps.worlds.identity import SHOWN, hash_packages, name_world
from tentalis.core.canon import content_hash
from tentalis.core.learning.collapse import (
    AnswerProfile,
    AnswerTraits,
    profile_answers,
)
from tentalis.core.weighing import count_effective, mean_weighted
from tentalis.core.worlds import PanelItem, World

QUICK_BLOCK, LARGE_BLOCK, BLOCK = 512, 32, 16
"""Tries that are asked for, and committed, together: of models that answer many as fast as one, of those among them
that are large, since what a processor computes for a block has to end within a link's time, and of others."""
LARGE_PARAMETERS = 50_000_000
MOST_LOST: Final = 0.1
"""Share of the tries that may be lost: where more are, nothing is said of the model."""
IDENTITY: Final = (
    *("worker", "adapter", "purpose", "item_set", "item_set_hash"),
    *("tries", "is_greedy", "scale", "seed", "asked_hash", "replay_of"),
)
"""What makes two evaluations the same one."""
SUMMARY: Final = (
    "played",
    "unscored",
    "items",
    "effective_items",
    "mean_outcome",
    "mean_step_score",
    "profile",
    "failure",
    "finished_at",
    "seconds",
)
CODE: Final = ("apps.evals", "apps.checks", "tentalis.core")
"""Packages that decide what is asked and how it is graded, beside the world's."""
COUNTED: Final = ("played", "unscored", "seconds")
SUM_UP_S: Final = 1.0
"""What all tries came to is summed up so often while they are made, and at the end; less often where that takes more
than a twentieth of the time."""
TRIED = frozenset({Evaluation.State.QUEUED, Evaluation.State.RUNNING, Evaluation.State.WAITING, Evaluation.State.DONE})


@dataclass(eq=False)
class Measured:
    """An evaluation with its tries: what is compared.

    Attributes:
        tries: (place, number) -> the try, in the order in which they were made.
    """

    evaluation: Evaluation
    tries: dict[tuple[int, int], ItemTry] = field(default_factory=dict)
    _sum_up_at: float = field(default_factory=lambda: time.monotonic() + SUM_UP_S)
    _worked_since: float | None = None
    _is_behind: bool = False

    @cached_property
    def outcomes(self) -> Mapping[int, float]:
        """Item's key -> the mean outcome of its tries that have one, in the order of the items."""
        return _means(self.tries.values(), "outcome")

    @cached_property
    def step_scores(self) -> Mapping[int, float]:
        return _means(self.tries.values(), "step_score")

    @cached_property
    def weights(self) -> Mapping[int, float]:
        """Item's key -> how much it counts."""
        return {row.key: row.weight for row in self.tries.values()}

    def mean(self, of_items: Mapping[int, float]) -> float | None:
        """Return the mean of the items' values (by key), each as much as it weighs; None where none has one."""
        weights = [self.weights[key] for key in of_items]
        return mean_weighted([*of_items.values()], weights) if weights else None

    @cached_property
    def limits(self) -> RunLimits:
        return RunLimits.from_json(self.evaluation.limits)

    @cached_property
    def spent(self) -> RunSpent:
        """What it took so far; kept up by `commit`."""
        found = ItemTry.objects.filter(evaluation=self.evaluation.pk).aggregate(
            tokens=Sum(F("prompt_tokens") + F("completion_tokens")), usd=Sum("cost_usd")
        )
        return RunSpent(found["tokens"] or 0, float(found["usd"] or 0), self.evaluation.seconds)

    def begin_work(self) -> None:
        """From now on time is counted."""
        self._worked_since = time.monotonic()

    def count_time(self) -> None:
        """Put the time at work so far into the row."""
        now = time.monotonic()
        if self._worked_since is not None:
            self.evaluation.seconds += now - self._worked_since
            self._worked_since = now

    def pause_spent(self, *, by: str) -> bool:
        """Whether its budget is used; it pauses then, and says so."""
        if not self.limits.has_budget:
            return False
        self.count_time()
        self.spent.seconds = self.evaluation.seconds
        if not (words := self.limits.find_reached(self.spent)):
            return False
        if self.evaluation.state in {Evaluation.State.RUNNING, Evaluation.State.WAITING}:
            move(self.evaluation, Evaluation.State.PAUSED, by=by, failure=words)
        return True

    def catch_up(self, *, by: str) -> None:
        """Sum up what was committed since it was summed up last."""
        if self._is_behind:
            self._sum_up_at = -inf
            commit(self, (), is_last=False, by=by)

    def writing(self, wanted: "WantedTry", *, is_new: bool = False) -> AbstractContextManager[Any]:
        """Within, each answer of a model to a try that is kept is written down as it comes; `is_new`: none is yet."""
        if not self._writes:
            return nullcontext()
        name = self._name(wanted.place, wanted.number)
        return write_answers(self.evaluation.project_id, name, is_new=is_new)

    def find_begun(self, wanted: "Iterable[WantedTry]") -> "set[WantedTry]":
        """Those of the tries of which something is written down."""
        names = {self._name(one.place, one.number): one for one in wanted} if self._writes else {}
        return {names[name] for name in find_written(self.evaluation.project_id, list(names))}

    @property
    def _writes(self) -> bool:
        return self.evaluation.keeps_records and not self.evaluation._state.adding

    def forget_written(self, rows: Sequence[ItemTry]) -> None:
        """Drop what was written down of tries that have ended."""
        if self.evaluation.keeps_records:
            forget_written(self.evaluation.project_id, [self._name(row.place, row.number) for row in rows])

    def _name(self, place: int, number: int) -> str:
        return f"evaluation:{self.evaluation.pk}:{place}:{number}"

    @cached_property
    def rates(self) -> Rates | None:
        """What its model costs now; None: nobody knows."""
        worker, adapter = self.evaluation.worker, self.evaluation.adapter
        kind = worker.provider.kind if worker.provider is not None else "engine"
        return find_price(provider=worker.provider, kind=kind, model=name_of(worker, adapter))

    @property
    def profile(self) -> AnswerProfile:
        return AnswerProfile(**self.evaluation.profile)

    @property
    def items(self) -> int:
        """Items that were tried, scored or not."""
        return len({place for place, _ in self.tries})

    def add(self, rows: Iterable[ItemTry]) -> None:
        self.tries |= {(row.place, row.number): row for row in rows}
        for name in ("outcomes", "step_scores", "weights"):
            self.__dict__.pop(name, None)


@dataclass(frozen=True, eq=False)
class WantedTries:
    """What is to be tried of an evaluation.

    Args:
        places: of items in the set; None for all.
        model: what the server knows the model by, where that is not the adapter's own name.
    """

    measured: Measured
    item_set: ItemSet
    places: Sequence[int] | None = None
    model: str = ""

    def list_left(self) -> list[tuple[int, int]]:
        """(place, number) of what was not tried yet."""
        evaluation, known = self.measured.evaluation, self.measured.tries
        places = range(len(self.item_set.items)) if self.places is None else self.places
        tries = ((place, number) for number in range(evaluation.tries) for place in places)
        return [one for one in tries if one not in known]

    def list_blocks(self) -> list[list["WantedTry"]]:
        left = [WantedTry(self, *one) for one in self.list_left()]
        size = find_block(self.measured.evaluation.worker)
        return [left[first : first + size] for first in range(0, len(left), size)]


def asks_in_blocks(worker: Worker) -> bool:
    """Whether many tries are one request; else each is answered, and committed, by itself."""
    return is_quick(worker) and not find_kind(worker.kind).takes_turns


def find_block(worker: Worker) -> int:
    """Tries of a worker that are asked for, and committed, together."""
    if not is_quick(worker):
        return BLOCK
    return LARGE_BLOCK if (count_parameters(worker) or 0) > LARGE_PARAMETERS else QUICK_BLOCK


class WantedTry(NamedTuple):
    """A try that is to be made."""

    asked: WantedTries
    place: int
    number: int

    @property
    def item(self) -> PanelItem:
        return self.asked.item_set.items[self.place]

    @property
    def is_looked_at(self) -> bool:
        """Whether the gate's alarms look at what comes of it."""
        return self.asked.measured.evaluation.purpose in (Evaluation.Purpose.PANEL, Evaluation.Purpose.MORE)


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
    replay_of: Evaluation | None = None,
) -> Measured:
    """What there is of this evaluation already; one that was never begun has no row yet."""
    asked_with = describe_asking(worker, item_set.world) | describe_grading(worker.project, item_set)
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
        "asked_hash": content_hash(asked_with)[:32],
        "replay_of": replay_of,
    }
    found = Evaluation.objects.filter(state__in=TRIED, **values).first()
    if found is not None:
        return read_measured(found)
    planned = len(item_set.items) * tries
    return Measured(Evaluation(project_id=worker.project_id, planned=planned, asked_with=asked_with, **values))


def describe_asking(worker: Worker, world: World) -> dict[str, Any]:
    """What decides a worker's answers and their grades beside the adapter: another of these is another evaluation."""
    prompt = worker.system_prompt
    return {
        "base_model": find_base_model(worker),
        "system_prompt": hashlib.sha256(prompt.encode()).hexdigest() if prompt else "",
        "sampling": worker.sampling,
        "world": name_world(world),
    }


def describe_making(worker: Worker, item_set: ItemSet) -> dict[str, Any]:
    """What an evaluation is made with, in full, for who wants to make it once more."""
    return {
        "tentalis": version("tentalis"),
        "python": platform.python_version(),
        "code": hash_packages(CODE)[:SHOWN],
        "agent": worker.kind,
        "system_prompt": worker.system_prompt,
        **{name: value for name, value in describe_asking(worker, item_set.world).items() if name != "system_prompt"},
        **describe_grading(worker.project, item_set),
    }


def describe_grading(project: Project, item_set: ItemSet) -> dict[str, Any]:
    """Who grades the items beside rules, with their versions; {} where nobody does: else it is another evaluation."""
    graders = convene_graders(project, [item.checks for item in item_set.items])
    return {"graders": graders.names} if graders else {}


def read_measured(evaluation: Evaluation) -> Measured:
    measured = Measured(evaluation)
    measured.add(evaluation.item_tries.order_by("number", "place"))
    return measured


def commit(measured: Measured, rows: Sequence[ItemTry], *, is_last: bool, by: str) -> None:
    """Write a block of tries with what all came to so far, and where it is the last, end the evaluation.

    Where somebody else began the same one or made the same tries meanwhile, theirs stay, and ours fill them up.
    """
    evaluation = measured.evaluation
    measured.add(rows)
    try:
        with transaction.atomic():
            _write(measured, rows, is_last=is_last, by=by)
    except IntegrityError:
        same = {name: getattr(evaluation, name) for name in IDENTITY}
        theirs = read_measured(Evaluation.objects.get(state__in=TRIED, **same))
        before = measured.tries.keys() - {(row.place, row.number) for row in rows}
        if not evaluation._state.adding and theirs.tries.keys() <= before:  # it is about something else
            raise
        measured.evaluation, measured.tries = theirs.evaluation, theirs.tries
        measured.__dict__.pop("spent", None)  # ours are counted again, and theirs were not
        ours = [row for row in rows if (row.place, row.number) not in theirs.tries]
        for row in ours:
            row.pk, row._state.adding = None, True
        commit(measured, ours, is_last=is_last, by=by)


def _write(measured: Measured, rows: Sequence[ItemTry], *, is_last: bool, by: str) -> None:
    evaluation = measured.evaluation
    measured.count_time()
    names: tuple[str, ...] = SUMMARY
    began = time.monotonic()
    if is_last or evaluation._state.adding or began > measured._sum_up_at:
        state = _sum_up(measured, is_last=is_last)
        now = time.monotonic()
        measured._sum_up_at, measured._is_behind = now + max(SUM_UP_S, 20 * (now - began)), False
    else:
        evaluation.played = len(measured.tries)
        evaluation.unscored += sum(row.outcome is None for row in rows)
        state, names, measured._is_behind = Evaluation.State(evaluation.state), COUNTED, True
    if evaluation._state.adding:
        evaluation.state = state
        evaluation.save(force_insert=True)
    else:
        values = {name: getattr(evaluation, name) for name in names}
        if state == evaluation.state:
            Evaluation.objects.filter(pk=evaluation.pk).update(**values)
        else:
            move(evaluation, state, by=by, **values)
    kept = [(row, row.new_record) for row in rows if row.new_record is not None]
    for row in rows:
        row.evaluation = evaluation
    for row, record in kept:
        _count_cost(measured, row, record)
    insert(rows)
    for row, record in kept:
        record.item_try_id = row.pk
    insert([record for _, record in kept])


def _count_cost(measured: Measured, row: ItemTry, record: TryRecord) -> None:
    prompt, completion = row.prompt_tokens or 0, row.completion_tokens or 0
    if measured.rates is not None and row.cost_usd is None:
        row.cost_usd = measured.rates.cost(prompt=prompt, completion=completion, cached=record.cached_tokens)
    measured.spent.tokens += prompt + completion
    measured.spent.usd += float(row.cost_usd or 0)


def _sum_up(measured: Measured, *, is_last: bool) -> Evaluation.State:
    """Put what the tries came to into the row; the state that it has then."""
    evaluation, rows = measured.evaluation, measured.tries.values()
    lost = sum(row.cause == ItemTry.Cause.INFRASTRUCTURE for row in rows)
    evaluation.played = len(rows)
    evaluation.unscored = sum(row.outcome is None for row in rows)
    evaluation.items = len(measured.outcomes)
    weights = [measured.weights[key] for key in measured.outcomes]
    evaluation.effective_items = count_effective(weights) if len(set(weights)) > 1 else None
    evaluation.mean_outcome = measured.mean(measured.outcomes)
    evaluation.mean_step_score = measured.mean(measured.step_scores)
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


def _means(rows: Iterable[ItemTry], name: str) -> dict[int, float]:
    found: dict[int, list[float]] = {}
    for row in sorted(rows, key=lambda row: row.place):
        if (value := getattr(row, name)) is not None:
            found.setdefault(row.key, []).append(value)
    return {key: fmean(values) for key, values in found.items()}
