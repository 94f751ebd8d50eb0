"""Reads of the ledger: a batch as the trainer reads it, and why nothing trains."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple

from django.db.models import Q

from apps.accounts.models import Project
from apps.feedback.selectors import find_hints
from apps.inference.provider_kinds import find_kind
from apps.outbox.models import Segment
from apps.outbox.selectors import find_server_wait
from apps.rollouts.contents import count_contents
from apps.rollouts.models import Batch, Rollout
from apps.rollouts.tokens import TokenPart, load_conversations, read_parts
from apps.tasks.models import Task
from apps.tasks.selectors import MOST, count_tasks
from apps.workers.bases import say_missing
from apps.workers.models import Worker
from apps.worlds.registry import get_world
from tentalis.core.contracts import RolloutRecord
from tentalis.core.conversation_delta import Conversation
from tentalis.core.hints import list_candidates
from tentalis.core.rendering import describe_rendering
from tentalis.core.sampling import read_temperature

LATEST = 2_000
PAGE = 200
WHY_STOPPED = {"failed": "failed", "refused": "was refused", "cancelled": "was cancelled"}
"""State of a run whose batch waits for another try -> in words."""


@dataclass(frozen=True)
class Finding:
    """One reason why something does not train.

    Args:
        kind: what a page links to: tasks, reviews, rollouts, batches, segments, workers, project.
        count: how many it holds back.
    """

    words: str
    count: int
    kind: str


def iterate_records(batch: Batch) -> Iterator[RolloutRecord]:
    """The batch's rollouts in order of task and attempt, exact tokens included; none whose tokens are those of a base
    model that the worker had before."""
    ours = Q(attempt__exchange__created_at__gte=batch.worker.base_since) if batch.worker.base_since else Q()
    rollouts = (
        Rollout.objects.filter(ours, training_use__batch=batch)
        .select_related("task", "adapter", "hint", "attempt__exchange")
        .order_by("task_id", "attempt__index")
    )
    found = rollouts.iterator(chunk_size=PAGE)
    while page := list(islice(found, PAGE)):
        yield from make_records(page)


def make_records(rollouts: Sequence[Rollout]) -> Iterator[RolloutRecord]:
    """Rollouts as they go over the wire, one record a sequence of tokens: three queries, up to three for hints to
    choose from.

    Raises:
        ContractError, ValueError: parts of one do not fit each other.
        IncompleteConversationError: a part of a conversation was deleted.
    """
    conversations = load_conversations(rollout.attempt for rollout in rollouts)
    hinted = {rollout.task_id for rollout in rollouts if _may_choose(rollout)}
    hints = find_hints(hinted) if hinted else {}
    for rollout in rollouts:
        parts = read_parts(rollout.attempt, conversations)
        if not parts:
            raise ValueError(f"rollout {rollout.pk} is usable and has no exchange")
        for part in parts:
            told = hints.get(rollout.task_id, ())
            yield _make_record(rollout, part, conversations, told, is_last=part is parts[-1])


def _may_choose(rollout: Rollout) -> bool:
    """Whether a hint is chosen for it: it has one, and the likeliest tokens to choose by."""
    exchange = rollout.attempt.exchange
    return rollout.hint_id is not None and exchange is not None and bool(exchange.top_token_ids)


def _make_record(
    rollout: Rollout,
    part: TokenPart,
    conversations: Mapping[int, Conversation],
    hints: Sequence[str],
    *,
    is_last: bool,
) -> RolloutRecord:
    tokens, end = part.joined, part.start + len(part.joined.tokens)
    conversation = conversations[part.exchange.pk]
    messages, rendering = conversation.messages, describe_rendering(conversation.request, part.exchange.created_at)
    if rollout.attempt.is_private:
        messages, rendering = [], {}
    hinted = _put_hint(rollout, messages, hints, chooses=part.top is not None and _may_choose(rollout))
    # attempts at one task are compared with each other; parts of one attempt are not: their reward is the same
    is_beside = not is_last and rollout.task.group_size == 1
    return RolloutRecord(
        rollout_id=rollout.pk,
        group_id=-part.exchange.pk if is_beside else rollout.task_id,
        adapter=part.exchange.adapter_name,
        policy_version=rollout.adapter.line_version if rollout.adapter is not None else part.exchange.policy_version,
        messages=messages,
        rendering=rendering,
        hinted_messages=hinted.messages,
        hint_fault=hinted.fault,
        temperature=read_temperature(part.exchange.sampling),
        is_cut=part.is_cut,
        prompt_token_ids=tokens.prompt,
        token_ids=tokens.tokens,
        logprobs=tokens.logprobs,
        sampled=tokens.sampled,
        reward=rollout.reward,
        steps=tuple(
            replace(step, start=step.start - part.start, end=step.end - part.start)
            for step in rollout.step_rewards
            if part.start <= step.start and step.end <= end
        ),
        missing_steps=rollout.missing_steps if is_last else 0,
        weight=rollout.weight,
        hint_weight=rollout.hint_weight,
        candidate_hints=tuple(hinted.candidates),
        top_token_ids=None if part.top is None else [[token for token, _ in top] for top in part.top],
        top_logprobs=None if part.top is None else [[value for _, value in top] for top in part.top],
    )


class _Hinted(NamedTuple):
    """A conversation with a rollout's hint in it, and with others; or why it has none."""

    messages: list[dict[str, Any]] | None = None
    candidates: Sequence[list[dict[str, Any]]] = ()
    fault: str = ""


def _put_hint(rollout: Rollout, messages: Sequence[Any], hints: Sequence[str], *, chooses: bool) -> _Hinted:
    """A hint that finds no place in a conversation is lost with a reason, and the rest of its batch is not.

    Args:
        hints: others given for the same work; chooses: the teacher may choose among them.
    """
    if not messages or rollout.hint is None or not rollout.hint.text:
        return _Hinted()
    world, text = get_world(rollout.task.environment), rollout.hint.text
    try:
        hinted = world.hinted_messages(messages, text)
    except (AttributeError, LookupError, TypeError, ValueError) as error:  # clients send messages of every shape
        return _Hinted(fault=(str(error) or type(error).__name__)[:300])
    candidates: list[list[dict[str, Any]]] = []
    for other in list_candidates(text, hints) if chooses else ():
        with suppress(AttributeError, LookupError, TypeError, ValueError):
            if (found := world.hinted_messages(messages, other)) not in candidates:
                candidates.append(found)
    return _Hinted(hinted, candidates)


def why_nothing_trains(project: Project) -> list[Finding]:
    """Everything that keeps this project's work from becoming weights, most immediate first; [] when nothing does.

    Counts stop at ten thousand; unusable rollouts are those among the latest.
    """
    findings = []
    if project.archived_at is not None:
        findings.append(Finding("The project is archived: it takes no task and starts no training.", 1, "project"))
    if not project.learning_enabled:
        findings.append(Finding("Learning is switched off for this project.", 1, "project"))
    if (waits := find_server_wait(project.pk)) is not None:
        findings.append(Finding(f"Work waits and goes on by itself: {waits.reason}", waits.count, "tasks"))
    states = count_tasks(project.pk, Task.State.values)
    if not states:
        findings.append(Finding("No task was ever submitted.", 0, "tasks"))
    waiting = sum(states.get(state, 0) for state in (Task.State.QUEUED, Task.State.WORKING, Task.State.SCORING))
    if waiting:
        findings.append(
            Finding("Tasks are still at work; they train when they are done and reviewed.", waiting, "tasks")
        )
    if count := states.get(Task.State.IN_REVIEW, 0):
        findings.append(Finding("Tasks wait for a person's review.", count, "reviews"))
    if count := states.get(Task.State.FAILED, 0):
        findings.append(Finding("Tasks failed; each says at which link and why.", count, "tasks"))
    dead = Segment.objects.filter(project_id=project.pk, state=Segment.State.DEAD)[:MOST].count()
    if dead:
        findings.append(Finding("Failed work waits to be replayed.", dead, "segments"))
    unusable = Rollout.objects.filter(project=project, is_usable=False).order_by("-id")
    reasons = Counter(unusable.values_list("unusable_reason", flat=True)[:LATEST])
    findings += [
        Finding(f"Attempts that no reward trains on: {reason}.", count, "rollouts")
        for reason, count in reasons.most_common(20)
    ]
    for worker in Worker.objects.filter(project=project, is_active=True, learns_with=None).select_related("provider"):
        teaches = worker.provider is None or find_kind(worker.provider.kind).tells_tokens
        if teaches and (words := say_missing(worker)):
            findings.append(Finding(f"{words}. Nothing of it trains before.", 1, "workers"))
    for batch in Batch.objects.filter(project=project, state=Batch.State.OPEN).select_related("worker__learns_with"):
        missing, holds = batch.target_tasks - batch.task_count, f"{batch} holds {batch.task_count} of"
        words = f"{holds} {batch.target_tasks} tasks: {missing} more close it."
        if (other := batch.worker.learns_with) is not None:
            words = f"{holds} {batch.target_tasks} tasks and waits: {batch.worker} learns with {other}."
        findings.append(Finding(words, missing, "batches"))
    closed = Batch.objects.filter(project=project, state=Batch.State.CLOSED)
    stuck = closed.filter(Q(run__state__in=WHY_STOPPED) | Q(run__isnull=True))
    batches = list(stuck.select_related("worker", "run")[:10])
    held = count_contents(batches)
    for batch in batches:
        run = getattr(batch, "run", None)
        why = WHY_STOPPED[run.state] if run else ""
        words = f"{batch} is full and its run {why}: {run.failure}" if run else f"{batch} is full and has no run."
        findings.append(Finding(words, held[batch.pk].count, "runs"))
    return findings
