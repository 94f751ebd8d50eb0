"""Proposals: made by agents, decided by people or by the clock, each once."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from apps.accounts.models import User
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.audit.kinds import Kind
from apps.audit.services import move, record
from apps.base.errors import BadInputError, ConflictError, IllegalMoveError
from apps.outbox import services as outbox
from apps.outbox.kinds import SegmentKind
from apps.outbox.services import lock_segments, wake
from apps.supervision.actions import MAX_CONTEXT_CHARS, read_action, read_text
from apps.supervision.errors import AlreadyDecidedError, NotSupervisedError, NotYoursToDecideError
from apps.supervision.models import POLICY, Proposal
from apps.supervision.policies import read_policy
from apps.tasks.models import Attempt, Task
from apps.tasks.services import fail_task
from apps.workers.models import Worker
from tentalis.core.field_limits import MAX_COMMENT_CHARS, MAX_JUDGEMENT_CHARS
from tentalis.core.scoring.judging import Decision
from tentalis.core.scoring.protocol import Unscored
from tentalis.core.supervision import SupervisionPolicy

MAX_RISK_CHARS = 1_000
MAX_REJECTION_CHARS = 1_000
MOST_REASON_CHARS = 300
MAX_PENDING = 20
"""Undecided proposals of one task."""
AUDITED = ("outcome", "why", "model")
"""What of a decision the audit keeps; people's own words can be erased with the row, and from the audit never."""
SWEEP = "sweep"
LINK = "supervision"


def propose(
    *,
    task: Task,
    action: Mapping[str, Any],
    by: User,
    step_index: int | None = None,
    context: str = "",
    risk: str = "",
) -> Proposal:
    """Ask whether an action may be done. Where no rule of the worker asks for a person, the answer is yes at once.

    Args:
        action: see `Proposal.action`.
        context: of a longer one the end is kept.
    Raises:
        NotFoundError, NotAllowedError: `by` may not work on the task.
        NotSupervisedError: the task is not worked on from outside, or not any more.
        ConflictError: too many of its proposals wait already.
        BadInputError: naming the field.
    """
    require_right(by, task.project, Right.ATTEMPTS_WRITE)
    checked = read_action(action)
    _check_words(context, risk, step_index)
    with transaction.atomic():
        worker = _lock_for_proposal(task)
        policy = read_policy(worker)
        reason = policy.find_reason(checked["kind"], checked.get("tool", "")) if policy else ""
        proposal = Proposal(
            project_id=task.project_id,
            task=task,
            proposed_by=by,
            step_index=step_index,
            kind=checked["kind"],
            tool=checked.get("tool", ""),
            action=checked,
            context=context[-MAX_CONTEXT_CHARS:],
            risk=risk,
            reason=reason,
        )
        if policy is None or not reason:
            proposal.state, proposal.decided_by = Proposal.State.APPROVED, POLICY
            _insert(proposal, decided_at=Now())
            kind = Kind.PROPOSAL_APPROVED
        else:
            proposal.on_timeout = policy.on_timeout
            _insert(proposal, deadline_at=Now() + timedelta(seconds=policy.deadline_s))
            kind = Kind.PROPOSAL_MADE
            ask_model([proposal], policy)
        record(kind, subject=proposal, by=by.handle, payload=proposal.describe())
    return proposal


def decide(
    *,
    proposal: Proposal,
    decision: str,
    by: User,
    reason: str = "",
    action: Mapping[str, Any] | None = None,
    hint: str = "",
    answer: str = "",
) -> Proposal:
    """Say what becomes of a proposal. The first word counts; who comes later is told whose it was.

    Args:
        decision: approve, reject (with a `reason`), edit (with the `action` that may be done instead), hint (the agent
            thinks again) or take_over (the agent's work ends here, with `answer`; what else it proposed is rejected).
            Of an agent of the platform's own it is the attempt that ends so; others at the task go on.
    Raises:
        NotFoundError, NotAllowedError: `by` may not decide in the project.
        NotYoursToDecideError: one's own proposal, or an agent where the worker's rules leave it to people.
        AlreadyDecidedError: somebody was first.
        BadInputError: naming the field.
    """
    require_right(by, proposal.project, Right.FEEDBACK_WRITE if by.is_agent else Right.REVIEWS_WRITE)
    if by.is_agent and not may_agents_decide(proposal):
        raise NotYoursToDecideError(
            f"agents decide no proposals of {proposal.task.worker.name}: this takes a person, or `agents_decide` among "
            "its rules"
        )
    if proposal.proposed_by_id == by.pk:
        raise NotYoursToDecideError("you proposed this yourself: another person decides it, or give the agent a user")
    said = {"reason": reason, "action": action, "hint": hint, "answer": answer}
    state, payload = _read_decision(proposal, decision, said)
    with _deciding(proposal):
        _settle(proposal, state, payload, by=by.handle)
        if state == Proposal.State.TAKEN_OVER:
            others = Proposal.objects.filter(
                task=proposal.task_id, attempt=proposal.attempt_id, state=Proposal.State.PENDING
            )
            for other in others.select_for_update(skip_locked=True):
                _settle(other, Proposal.State.REJECTED, {"reason": "Somebody took the task over."}, by=by.handle)
    return proposal


@contextmanager
def _deciding(proposal: Proposal) -> Iterator[None]:
    """A transaction in which it is decided, and nothing else becomes of its task; the platform's own agent goes on
    behind it. Raises AlreadyDecidedError where its task or its attempt is over."""
    with transaction.atomic():
        if proposal.is_ours:
            lock_segments(SegmentKind.EPISODE, subject_ids=[proposal.task_id])
        locked = Task.objects.select_for_update(no_key=True).filter(pk=proposal.task_id)
        proposal.task.state = locked.values_list("state", flat=True).get()
        if (why := _find_end(proposal)) and Proposal.objects.filter(pk=proposal.pk, state="pending").exists():
            raise AlreadyDecidedError(f"proposal {proposal.pk} cannot be decided any more: {why}")
        yield
        if proposal.is_ours:
            wake(kind=SegmentKind.EPISODE, subject_id=proposal.task_id)


def ask_model(proposals: Iterable[Proposal], policy: SupervisionPolicy) -> None:
    """Have a program or the model say something of these, where the rules want it; in the running transaction."""
    if policy.model_decides or policy.supervisor:
        outbox.start_many(SegmentKind.DECIDE, [(one.pk, one.project_id) for one in proposals])


def take_models_word(
    proposal: Proposal,
    decision: Decision | Unscored,
    *,
    by: str,
    model: str,
    judge: Mapping[str, Any] | None = None,
) -> None:
    """What a model, or a program, says of a proposal counts, unless somebody was first. Where it is not sure, or could
    not be understood, the proposal waits on, and says so.

    Args:
        judge: which model it is, as `tell_judge` tells it; None: a program.
    """
    if isinstance(decision, Unscored) or decision.word == "unsure":
        words = f"{proposal.reason}; {model or 'the model'} leaves it to others: {decision.reason}"
        waiting = Proposal.objects.filter(pk=proposal.pk, state=Proposal.State.PENDING)
        waiting.update(reason=words[: MOST_REASON_CHARS - 1] + "…" if len(words) > MOST_REASON_CHARS else words)
        return
    state = Proposal.State.APPROVED if decision.word == "approve" else Proposal.State.REJECTED
    payload: dict[str, Any] = {"model": model, "reason": decision.reason[:MAX_REJECTION_CHARS]}
    payload |= {"judge": dict(judge)} if judge else {}
    with suppress(AlreadyDecidedError), _deciding(proposal):
        _settle(proposal, state, payload, by=by)


def note_undecided(proposal_id: int, *, link: str, reason: str, by: str) -> None:
    """Say of a proposal that still waits why no model or program decided it: it is left to others."""
    take_models_word(Proposal.objects.get(pk=proposal_id), Unscored(reason), by=by, model="")


def may_agents_decide(proposal: Proposal) -> bool:
    policy = read_policy(proposal.task.worker)
    return policy is not None and policy.agents_decide


def expire_proposals(*, limit: int = 200, by: str = SWEEP) -> list[Proposal]:
    """Settle what nobody decided in time as its rule said, and what waits at a task that ended; rows somebody is
    deciding this moment are left for the next time. A task whose rule says so fails.

    Returns:
        What was settled.
    """
    with transaction.atomic():
        ours = Q(turn__isnull=False)
        is_over = (~ours & ~Q(task__state=Task.State.QUEUED)) | (ours & ~Q(attempt__state=Attempt.State.WAITING))
        due = _lock_pending(Q(deadline_at__lte=Now()) | is_over, skip_locked=True)
        return [_expire(proposal, by=by) for proposal in due[:limit]]


def expire_proposals_of(tasks: Iterable[Task], *, by: str) -> list[Proposal]:
    """Settle what waits at tasks that were ended, in the running transaction, which holds the tasks' rows."""
    return [_expire(proposal, by=by) for proposal in _lock_pending(Q(task__in=list(tasks)))]


def _lock_pending(which: Q, *, skip_locked: bool = False) -> QuerySet[Proposal]:
    """Undecided ones with their tasks' rows, those first whose time is up first."""
    pending = Proposal.objects.filter(which, state=Proposal.State.PENDING).select_related("task", "attempt")
    locked = pending.select_for_update(of=("self", "task"), skip_locked=skip_locked, no_key=True)
    return locked.order_by("deadline_at", "id")


def bind_to_attempt(attempt: Attempt) -> list[Proposal]:
    """Tie what was proposed at a task to the work that came of it, and settle what still waits.

    Returns:
        What somebody decided, in order.
    """
    with transaction.atomic():
        rows = Proposal.objects.select_for_update().filter(task=attempt.task_id, attempt__isnull=True).order_by("id")
        found = list(rows)
        for proposal in found:
            if proposal.state == Proposal.State.PENDING:
                _settle(
                    proposal, Proposal.State.EXPIRED, {"outcome": "reject", "why": "the work was handed in"}, by=SWEEP
                )
            proposal.attempt = attempt
        Proposal.objects.bulk_update(found, ["attempt"])
    return [proposal for proposal in found if proposal.decided_by not in {POLICY, SWEEP}]


def find_decided(task_ids: Collection[int]) -> dict[int, list[Proposal]]:
    """Task id -> what somebody decided of the calls of the platform's own agent, in attempts that came to an end."""
    ended = {"turn__isnull": False, "attempt__state__in": [Attempt.State.ANSWERED, Attempt.State.FAILED]}
    rows = Proposal.objects.filter(task__in=task_ids, decided_at__isnull=False, **ended)
    found: dict[int, list[Proposal]] = {}
    for row in rows.exclude(decided_by__in=[POLICY, SWEEP]).select_related("attempt", "task").order_by("id"):
        found.setdefault(row.task_id, []).append(row)
    return found


def _lock_for_proposal(task: Task) -> Worker:
    """The task's worker; its row is locked, so that no proposal is made while it is handed in, cancelled or taken over.

    Raises:
        NotSupervisedError, ConflictError: it takes none.
    """
    locked = Task.objects.select_for_update(of=("self",), no_key=True).select_related("worker").get(pk=task.pk)
    if locked.worker.kind != Worker.Kind.OUTSIDE:
        raise NotSupervisedError(
            f"task {task.pk} takes no proposal: wanted a worker of kind outside, found {locked.worker.name}, "
            f"a {locked.worker.kind} worker, whose tasks the platform does itself"
        )
    if locked.state != Task.State.QUEUED:
        raise NotSupervisedError(f"task {task.pk} takes no proposal: wanted state queued, found {locked.state}")
    before = Proposal.objects.filter(task=task.pk)
    if (taken := before.filter(state=Proposal.State.TAKEN_OVER).first()) is not None:
        raise NotSupervisedError(
            f"task {task.pk} takes no proposal: {taken.decided_by} took it over in proposal {taken.pk}; hand it in"
        )
    if before.filter(state=Proposal.State.PENDING).count() >= MAX_PENDING:
        raise ConflictError(f"{MAX_PENDING} proposals of task {task.pk} wait already; wait for their decisions")
    return locked.worker


def _insert(proposal: Proposal, **times: Any) -> None:
    """Save with times of the database, and read those back."""
    for name, value in times.items():
        setattr(proposal, name, value)
    proposal.save(force_insert=True)
    proposal.refresh_from_db(fields=list(times))


def _check_words(context: str, risk: str, step_index: int | None) -> None:
    if "\x00" in context:
        raise BadInputError.at("context", "wanted text without NUL characters, found one")
    if "\x00" in risk or len(risk) > MAX_RISK_CHARS:
        raise BadInputError.at("risk", f"wanted at most {MAX_RISK_CHARS:,} characters without NUL, found {len(risk):,}")
    if step_index is not None and not 0 <= step_index <= 32_767:
        raise BadInputError.at("step_index", f"wanted 0 to 32767, found {step_index}")


def _read_decision(proposal: Proposal, decision: str, said: Mapping[str, Any]) -> tuple[Proposal.State, dict[str, Any]]:
    """The state and what is kept with it. Raises BadInputError naming the field."""
    if decision not in DECISIONS:
        raise BadInputError.at("decision", f"wanted one of {', '.join(DECISIONS)}, found {decision!r:.40}")
    state, field, read = DECISIONS[decision]
    for name, value in said.items():
        if value and name != field:
            raise BadInputError.at(
                name, f"{decision} takes {f'only {field}' if field else 'no more words'}, found {name}"
            )
    if not field:
        return state, {}
    value = read(said[field])
    if field == "action":
        if value == proposal.action:
            raise BadInputError.at(
                "action", "wanted another action than the proposed one, found the same; approve it instead"
            )
        if value["kind"] != proposal.kind:
            raise BadInputError.at("action", f"wanted a {proposal.kind} as was proposed, found a {value['kind']}")
        if proposal.is_ours and value["tool"] != proposal.tool:
            raise BadInputError.at("action", f"wanted a call of {proposal.tool}, found one of {value['tool']}")
    return state, {field: value}


Reader = Callable[[Any], Any]
DECISIONS: Mapping[str, tuple[Proposal.State, str, Reader]] = {
    "approve": (Proposal.State.APPROVED, "", str),
    "reject": (Proposal.State.REJECTED, "reason", lambda text: read_text("reason", text, MAX_REJECTION_CHARS)),
    "edit": (Proposal.State.EDITED, "action", read_action),
    "hint": (Proposal.State.HINTED, "hint", lambda text: read_text("hint", text, MAX_COMMENT_CHARS)),
    "take_over": (Proposal.State.TAKEN_OVER, "answer", lambda text: read_text("answer", text, MAX_JUDGEMENT_CHARS)),
}
"""Word -> state, the field it takes, and how that is read."""


def _settle(proposal: Proposal, state: Proposal.State, decision: Mapping[str, Any], *, by: str) -> None:
    """Decide by compare-and-set. Raises AlreadyDecidedError."""
    payload = proposal.describe() | {name: decision[name] for name in AUDITED if name in decision}
    try:
        move(proposal, state, by=by, payload=payload, decided_by=by, decided_at=Now(), decision=dict(decision))
    except IllegalMoveError:
        proposal.refresh_from_db()
        why = proposal.decision.get("why", "")
        raise AlreadyDecidedError(
            f"proposal {proposal.pk} is {proposal.get_state_display().lower()} already: {proposal.decided_by} was first"
            f"{why and f' ({why})'}"
        ) from None
    proposal.refresh_from_db(fields=["decided_at"])


def _find_end(proposal: Proposal) -> str:
    """Why nothing can be done any more of what it asks; "" while its task waits for the word."""
    if proposal.is_ours:
        waits = Attempt.every.filter(proposals=proposal.pk, state=Attempt.State.WAITING).exists()
    else:
        waits = proposal.task.state == Task.State.QUEUED
    return "" if waits else f"the task is {proposal.task.get_state_display().lower()}"


def _expire(proposal: Proposal, *, by: str) -> Proposal:
    why = _find_end(proposal)
    decision = {"outcome": "reject", "why": why} if why else {"outcome": proposal.on_timeout}
    _settle(proposal, Proposal.State.EXPIRED, decision, by=by)
    if not why and proposal.on_timeout == Proposal.OnTimeout.FAIL:
        fail_task(proposal.task_id, link=LINK, reason=f"nobody decided proposal {proposal.pk} in time", by=by)
        proposal.task.refresh_from_db(fields=["state"])
    return proposal
