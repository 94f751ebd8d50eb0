"""Labels of steps: what completions from a step's end come to, and what the world itself says of the step."""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from django.conf import settings
from django.db.models import Exists, OuterRef, QuerySet

from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.checks.withholding import withhold_fallen
from apps.evals.holding import find_held_out
from apps.judges.selectors import find_below
from apps.outbox.services import final_write
from apps.scoring.answers import Answer, read_answers
from apps.scoring.models import StepLabel
from apps.tasks.models import WITH_STEPS, Attempt, Step, Task
from apps.tasks.verifying import read_verification, verify_draft
from apps.workers.agents import get_agent
from apps.workers.kinds import find_kind
from apps.workers.models import Worker
from apps.workers.selectors import find_base_model
from apps.worlds.registry import get_world
from tentalis.core.scoring.step_labels import Split, choose_split, hard_label
from tentalis.core.worlds import Begun, FinishingAgent, Verification

AT_ONCE = 400
"""Attempts one link labels at most; the rest waits for the next."""
_BEGUN_AT_ONCE = 256


@dataclass(frozen=True)
class Verified:
    """An attempt that the world verified, with its exact tokens."""

    attempt: Attempt
    answer: Answer
    found: Verification

    def truth_of(self, step: Step) -> float | None:
        """What the world says of one step, in [0, 1]."""
        scores = self.found.step_scores
        return scores[step.index] if step.index < len(scores) else None


def find_unlabelled(worker: Worker) -> QuerySet[Attempt]:
    """The worker's answered and scored attempts that have no label yet and whose verification is stored."""
    labelled = StepLabel.objects.filter(attempt=OuterRef("pk"))
    return Attempt.objects.filter(
        ~Exists(labelled),
        worker=worker,
        state=Attempt.State.ANSWERED,
        unfit="",
        is_private=False,
        outcome__isnull=False,
        verification__isnull=False,
        exchange__isnull=False,
        task__project__learning_enabled=True,
        task__state__in=[Task.State.IN_REVIEW, Task.State.LEARNING, Task.State.DONE],
    )


def can_label(worker: Worker) -> bool:
    """Whether completions can be had from the middle of this kind of worker's answers."""
    return find_kind(worker.kind).finishes


def label_steps(worker_id: int, *, by: str) -> int:
    """Label the steps of the worker's newest attempts that have none. Returns how many attempts.

    Held-out tasks get the world's own word alone: nothing learns from them, so completions are not spent on them.

    Raises:
        ProviderBusyError, ProviderRefusedError: the engine cannot be asked; nothing is kept.
    """
    worker = Worker.objects.select_related("project", "provider").get(pk=worker_id)
    if not can_label(worker):
        return 0
    attempts = find_unlabelled(worker).select_related("task", "exchange").prefetch_related(WITH_STEPS).order_by("-pk")
    verified = list(_verify(attempts[:AT_ONCE]))
    splits = choose_splits([one.attempt.task for one in verified])
    values = _complete(worker, [one for one in verified if splits[one.attempt.task_id] == "train" and _may_finish(one)])
    labels = [
        label for one in verified for label in _make_labels(one, values, trains=splits[one.attempt.task_id] == "train")
    ]
    with final_write():
        StepLabel.objects.bulk_create(labels, ignore_conflicts=True)
        if labels:
            payload = {"attempts": len(verified), "labels": len(labels), "completions": _completions() * len(values)}
            record(Kind.STEPS_LABELLED, subject=worker, by=by, payload=payload)
    return len(verified)


def choose_splits(tasks: Sequence[Task]) -> dict[int, Split]:
    """Task id -> which use the labels of its steps have."""
    held_out = find_held_out(tasks)
    return {task.pk: choose_split(task.prompt, is_held_out=task.pk in held_out) for task in tasks}


def _may_finish(one: Verified) -> bool:
    """Whether going on from the middle of it changes nothing: where it would act outside, the world's word is all."""
    return get_world(one.attempt.task.environment).keeps_nothing


def _completions() -> int:
    return int(settings.TENTALIS["PRM_COMPLETIONS"])


def _verify(attempts: QuerySet[Attempt]) -> Iterator[Verified]:
    found = list(attempts)
    below = find_below(found[0].task.project_id) if any("checked_by" in one.score_details for one in found) else {}
    answers = read_answers(attempt.pk for attempt in found)
    for attempt in found:
        answer, said = answers[attempt.pk], read_verification(attempt)
        if said is not None and isinstance(answer, Answer):
            judges = attempt.score_details.get("checked_by", [])
            without = withhold_fallen(below, judges, outcome=said.outcome, checks=said.checks)
            if without is None or without.outcome is not None:
                yield Verified(attempt, answer, said)


def _complete(worker: Worker, verified: Sequence[Verified]) -> dict[int, float]:
    """Step id -> the hard label of its completions; the last step of an attempt needs none."""
    agent = get_agent(worker)
    if not isinstance(agent, FinishingAgent):
        return {}
    n = _completions()
    asked = [(one, step) for one in verified for step in one.answer.steps[:-1]]
    reached: dict[int, float] = {}
    for start in range(0, len(asked), _BEGUN_AT_ONCE):
        part = asked[start : start + _BEGUN_AT_ONCE]
        world = get_world(part[0][0].attempt.task.environment)
        begun = [
            Begun(
                one.attempt.task.prompt,
                one.answer.prompt_token_ids,
                one.answer.token_ids,
                one.answer.sampled,
                _end_of(one.answer, step),
            )
            for one, step in part
        ]
        seed = zlib.crc32(repr([step.pk for _, step in part]).encode())
        drafts = agent.finish(begun, world=world, n=n, seed=seed, model=find_base_model(worker))
        for (one, step), group in zip(part, drafts, strict=True):
            said = [verify_draft(one.attempt.task, draft) for draft in group]
            if outcomes := [found.outcome for found in said if found and found.outcome is not None]:
                reached[step.pk] = hard_label(outcomes)
    return reached


def _end_of(answer: Answer, step: Step) -> int:
    """Tokens up to the step's end, a tool's result right behind it included."""
    assert step.token_end is not None
    end = step.token_end
    while end < len(answer.token_ids) and not answer.sampled[end]:
        end += 1
    return end


def _make_labels(one: Verified, values: Mapping[int, float], *, trains: bool) -> Iterator[StepLabel]:
    last = one.answer.steps[-1]
    for step in one.answer.steps:
        if (truth := one.truth_of(step)) is not None:
            yield StepLabel(attempt=one.attempt, step=step, source=StepLabel.Source.VERIFIED, value=truth)
        if not trains:
            continue
        if step.pk == last.pk and one.found.outcome is not None:
            value, n = hard_label([one.found.outcome]), 0
        elif step.pk in values:
            value, n = values[step.pk], _completions()
        else:
            continue
        yield StepLabel(
            attempt=one.attempt,
            step=step,
            source=StepLabel.Source.MONTE_CARLO,
            value=value,
            details={"completions": n},
        )
