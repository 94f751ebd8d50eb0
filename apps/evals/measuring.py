"""The machine that measures: has a model try items, grades the answers, and commits each block of tries when it ends.

Whoever is killed goes on behind the last block. What says nothing of the model (it could not be asked, its answer could
not be graded) is tried again a few times and then kept as unscored, with its cause; it is never a 0.
"""

import hashlib
import logging
import time
import uuid
from collections import ChainMap, Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from math import inf
from statistics import fmean
from typing import Any, Final, NamedTuple

from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from apps.accounts.models import Project
from apps.adapters.models import Adapter
from apps.adapters.serving import client_of
from apps.audit.services import move
from apps.base.errors import ConflictError
from apps.base.inserting import insert
from apps.checks.graders import ATTEMPTS_AT_ONCE, Graders, convene_graders
from apps.evals.errors import EvaluationStoppedError, TriesAwaitedError
from apps.evals.models import Evaluation, ItemTry
from apps.evals.panels import ItemSet, refuse_tries
from apps.inference.client import ModelClient
from apps.inference.errors import ModelNotServedError, ProviderBusyError, ProviderRefusedError
from apps.inference.metering import charge
from apps.workers.agents import get_agent, is_quick, works_outside
from apps.workers.base_names import count_parameters
from apps.workers.models import Worker
from apps.workers.selectors import find_base_model
from apps.worlds.episodes import Episode
from apps.worlds.identity import name_world
from apps.worlds.playing import play as play_episodes
from apps.worlds.verifying import verify_answer
from tentalis.core.canon import content_hash
from tentalis.core.learning.collapse import (
    AnswerProfile,
    AnswerTraits,
    measure_repeated_words,
    measure_self_overlap,
    profile_answers,
)
from tentalis.core.learning.gate import count_effective, mean_weighted
from tentalis.core.scoring.quoting import clean_text
from tentalis.core.worlds import Agent, AttemptDraft, PanelItem, TurnAgent, TurnAsked, Verification, World
from tentalis.outbound.scopes import ScopedThreadPool

AGAIN: Final = 7_919
"""Added to an item's seed for each further try of it."""
MOST_READ: Final = 5
"""Answers of a report that are kept for people to read."""
QUICK_BLOCK, LARGE_BLOCK, BLOCK = 512, 32, 16
"""Tries that are asked for, and committed, together: of models that answer many as fast as one, of those among them
that are large, since what a processor computes for a block has to end within a link's time, and of others."""
LARGE_PARAMETERS = 50_000_000
logger = logging.getLogger(__name__)

TOO_MANY: Final = 429
"""What a server answers that wants fewer requests."""
SOON_S: Final = 10.0
"""Who wants to be asked again after so long at most has too many at the same time: fewer are asked at once."""
ROUNDS: Final = 3
"""Times that an item is tried which could not be asked or graded."""
MOST_LOST: Final = 0.1
"""Share of the tries that may be lost: where more are, nothing is said of the model."""
IDENTITY: Final = (
    *("worker", "adapter", "purpose", "item_set", "item_set_hash"),
    *("tries", "is_greedy", "scale", "seed", "asked_hash"),
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
)
TRIED = frozenset({Evaluation.State.QUEUED, Evaluation.State.RUNNING, Evaluation.State.WAITING, Evaluation.State.DONE})


@dataclass(eq=False)
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

    @cached_property
    def weights(self) -> Mapping[int, float]:
        """Item's key -> how much it counts."""
        return {row.key: row.weight for row in self.tries.values()}

    def mean(self, of_items: Mapping[int, float]) -> float | None:
        """Return the mean of the items' values (by key), each as much as it weighs; None where none has one."""
        weights = [self.weights[key] for key in of_items]
        return mean_weighted([*of_items.values()], weights) if weights else None

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

    def list_blocks(self) -> list[list["_WantedTry"]]:
        left = [_WantedTry(self, *one) for one in self.list_left()]
        size = find_block(self.measured.evaluation.worker)
        return [left[first : first + size] for first in range(0, len(left), size)]


def find_block(worker: Worker) -> int:
    """Tries of a worker that are asked for, and committed, together."""
    if not is_quick(worker):
        return BLOCK
    return LARGE_BLOCK if (count_parameters(worker) or 0) > LARGE_PARAMETERS else QUICK_BLOCK


class _WantedTry(NamedTuple):
    """A try that is to be made."""

    asked: WantedTries
    place: int
    number: int

    @property
    def item(self) -> PanelItem:
        return self.asked.item_set.items[self.place]


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


def describe_grading(project: Project, item_set: ItemSet) -> dict[str, Any]:
    """Who grades the items beside rules, with their versions; {} where nobody does: else it is another evaluation."""
    graders = convene_graders(project, [item.checks for item in item_set.items])
    return {"graders": graders.names} if graders else {}


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


class _Tried(NamedTuple):
    """What was made; what kept the server from the others, which wait."""

    made: dict[_WantedTry, ItemTry]
    busy: ProviderBusyError | None = None


def _try_together(tries: Sequence[_WantedTry]) -> _Tried:
    """Each model's in one go, and all models' at the same time."""
    by_model: dict[tuple[Worker, str, World, bool], list[_WantedTry]] = {}
    for one in tries:
        evaluation = one.asked.measured.evaluation
        model = one.asked.model or name_of(evaluation.worker, evaluation.adapter)
        key = (evaluation.worker, model, one.asked.item_set.world, evaluation.is_greedy)
        by_model.setdefault(key, []).append(one)
    agents = {worker: get_agent(worker) for worker, *_ in by_model}
    scored = {one.asked.measured.evaluation.worker for one in tries if _is_looked_at(one)}
    servers = {worker: client_of(worker) for worker in scored}  # here: it asks the database
    calls = [
        partial(
            _try_block,
            some,
            partial(_answer, agents[worker], worker, world, model=model, greedy=is_greedy, server=servers.get(worker)),
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


class _Answered(NamedTuple):
    """What came of a try, and what is known of it; None: nothing, or it says nothing of the model.

    Args:
        base_nats: of `AnswerTraits`.
    """

    draft: AttemptDraft
    found: Verification | None
    base_nats: float | None = None


def _try_block(tries: Sequence[_WantedTry], answer: Callable[[Sequence[_WantedTry]], Sequence[_Answered]]) -> _Tried:
    """Try them with one model, and those again, a few times, that say nothing of it; fewer at a time where the server
    wants that."""
    made: dict[_WantedTry, ItemTry] = {}
    times, left, size = Counter[_WantedTry](), list(tries), len(tries)
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


def _answer(
    agent: Agent,
    worker: Worker,
    world: World,
    tries: Sequence[_WantedTry],
    *,
    model: str,
    greedy: bool,
    server: ModelClient | None = None,
) -> list[_Answered]:
    """Have the agent try them; in a world with turns their episodes are played to their end, and kept nowhere.

    Args:
        server: is asked what the base model gives the answers; None: nobody is.
    """
    seeds = [one.item.seed + one.asked.measured.evaluation.seed + AGAIN * one.number for one in tries]
    if world.has_turns and isinstance(agent, TurnAgent):
        return _play(agent, worker, world, tries, seeds, model=model, greedy=greedy)
    asked = list(zip(tries, seeds, strict=True))
    made: dict[_WantedTry, AttemptDraft] = {}
    if isinstance(agent, TurnAgent) and (told := [one for one in asked if one[0].item.messages]):
        turns = [TurnAsked(messages=one.item.messages, seed=seed) for one, seed in told]
        said = agent.take_turns(turns, world=world, tools=(), model=model, greedy=greedy)
        made |= {one: turn.draft for (one, _), turn in zip(told, said, strict=True)}
    if plain := [one for one in asked if one[0] not in made]:
        prompts, of_plain = [one.item.prompt for one, _ in plain], [seed for _, seed in plain]
        groups = agent.work(prompts=prompts, world=world, group_size=1, seeds=of_plain, model=model, greedy=greedy)
        made |= {one: draft for (one, _), (draft,) in zip(plain, groups, strict=True)}
    drafts, evaluation = [made[one] for one in tries], tries[0].asked.measured.evaluation
    found = verify_items([one.item for one in tries], world, drafts, evaluation=evaluation)
    return list(map(_Answered, drafts, found, _measure_base_nats(server, worker, tries, drafts)))


def _is_looked_at(one: _WantedTry) -> bool:
    """Whether the gate's alarms look at what comes of it."""
    return one.asked.measured.evaluation.purpose in (Evaluation.Purpose.PANEL, Evaluation.Purpose.MORE)


def _is_read(one: _WantedTry) -> bool:
    """Whether people are shown the answer."""
    evaluation = one.asked.measured.evaluation
    is_reported = evaluation.purpose == Evaluation.Purpose.REPORT and evaluation.is_greedy
    return is_reported and one.place < MOST_READ and one.number == 0


def _measure_base_nats(
    server: ModelClient | None, worker: Worker, tries: Sequence[_WantedTry], drafts: Sequence[AttemptDraft]
) -> list[float | None]:
    """Mean of -log p under the base model of what each answer's tokens are; one request for all of them.

    Returns:
        Nats a token; 0 of nothing said; None where no alarm looks at it, or the server refused.
    """
    looked_at = {
        place: draft
        for place, (one, draft) in enumerate(zip(tries, drafts, strict=True))
        if _is_looked_at(one) and draft.token_ids and draft.prompt_token_ids
    }
    found: list[float | None] = [None if draft.text else 0.0 for draft in drafts]
    if not looked_at or server is None:
        return found
    rows = [[*draft.prompt_token_ids, *draft.token_ids] for draft in looked_at.values()]
    try:
        scores = server.score(rows, model=name_of(worker, None))
    except ProviderRefusedError as error:
        logger.warning("the model server of %s would not score answers: %s", worker, error)
        return found
    for (place, draft), score in zip(looked_at.items(), scores, strict=True):
        said = score[len(score) - len(draft.token_ids) :]
        chosen = [value for value, sampled in zip(said, draft.sampled, strict=True) if sampled]
        found[place] = -fmean(chosen) if chosen else 0.0
    return found


def _play(
    agent: TurnAgent,
    worker: Worker,
    world: World,
    tries: Sequence[_WantedTry],
    seeds: Sequence[int],
    *,
    model: str,
    greedy: bool,
) -> list[_Answered]:
    with _charging_judges(tries[0].asked.measured.evaluation):
        graders = convene_graders(worker.project, [one.item.checks for one in tries])
        episodes = [
            Episode(
                key=uuid.uuid4().hex,  # nobody goes on with it, and another evaluation of the item is another episode
                prompt=one.item.prompt,
                reference=one.item.reference,
                checks=one.item.checks,
                graders=graders,
                seed=seed,
                sampling_seed=seed,
                opening=one.item.messages or world.messages_for(one.item.prompt, worker.system_prompt),
            )
            for one, seed in zip(tries, seeds, strict=True)
        ]
        play_episodes(episodes, world=world, agent=agent, model=model, greedy=greedy)
    return [_Answered(_join_tokens(one), one.verification) for one in episodes]


def verify_items(
    items: Sequence[PanelItem], world: World, drafts: Sequence[AttemptDraft], *, evaluation: Evaluation
) -> list[Verification | None]:
    """What is known of each answer to an item; None where nothing is, or it says nothing of the model."""
    with _charging_judges(evaluation):
        graders = convene_graders(evaluation.worker.project, [item.checks for item in items])
        verify = partial(_verify_item, world, graders)
        if graders is None:
            return list(map(verify, items, drafts))
        with ScopedThreadPool(ATTEMPTS_AT_ONCE) as pool:
            return list(pool.map(verify, items, drafts))


def _verify_item(world: World, graders: Graders | None, item: PanelItem, draft: AttemptDraft) -> Verification | None:
    if draft.is_lost:
        return None
    return verify_answer(
        environment=world.name,
        prompt=item.prompt,
        reference=item.reference,
        draft=draft,
        checks=item.checks or (),
        graders=graders,
    )


def _charging_judges(evaluation: Evaluation) -> AbstractContextManager[Any]:
    """Keeps what is asked of judges about a try, as the cost of the adapter that is measured."""
    name = evaluation.adapter.name if evaluation.adapter else ""
    return charge(project=evaluation.worker.project, turn="judge", adapter_name=name)


def _join_tokens(episode: Episode) -> AttemptDraft:
    """An episode as one try, with all that its model wrote, for what an answer looks like."""
    drafts = [turn.draft for turn in episode.turns]
    told: dict[str, Any] = {
        name: [value for draft in drafts for value in getattr(draft, name)]
        for name in ("token_ids", "logprobs", "sampled")
    }
    return replace(episode.join(), **told)


def grade_try(
    row: ItemTry, item: PanelItem, world: World, draft: AttemptDraft, verification: Verification | None
) -> ItemTry:
    """Put what an answer is worth into the row of its try, which is not saved; `verification` is of `verify_item`."""
    if draft.is_lost:
        return note_lost(row, draft.error)
    if verification is not None and verification.infrastructure:
        return note_lost(row, verification.infrastructure)
    row.traits = vars(read_traits(draft))
    if item.reference is None and item.checks is None:
        row.answer = clean_text(draft.answer or draft.text)
    if verification is not None and verification.outcome is not None:
        row.outcome, row.grader = round(float(verification.outcome), 4), verification.grader[:64]
        row.step_score = round(_mean_step_score(verification, verification.outcome), 4)
    elif draft.error:  # the model wrote nothing that could be right
        row.outcome = row.step_score = 0.0
    else:
        row.cause, row.reason = ItemTry.Cause.UNCHECKED, f"{world.name} has nothing to check it with"
    return row


def _grade(one: _WantedTry, draft: AttemptDraft, found: Verification | None, base_nats: float | None) -> ItemTry:
    row = grade_try(_open_row(one), one.item, one.asked.item_set.world, draft, found)
    if row.traits is not None:
        row.traits |= {"base_nats": base_nats}
        if _is_read(one):
            row.answer = clean_text(draft.answer or draft.text)
    return row


def note_lost(row: ItemTry, reason: str) -> ItemTry:
    """Put into the row of a try, which is not saved, that it says nothing of the model."""
    row.cause, row.reason = ItemTry.Cause.INFRASTRUCTURE, reason[:300]
    return row


def _open_row(one: _WantedTry) -> ItemTry:
    return ItemTry(place=one.place, number=one.number, key=one.asked.item_set.keys[one.place], weight=one.item.weight)


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
        repeated_words=measure_repeated_words(draft.answer or draft.text),
    )
