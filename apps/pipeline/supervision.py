"""Supervision's part of the data's way: an agent asks before it acts, and what it was told is learned from.

It proposes, and somebody or the clock decides (`apps.supervision.services`). When its work is handed in, or played to
its end, the words of who decided stay with the steps they were about.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from django.db import transaction
from django.db.models import Count

from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.feedback.judgement import JudgementInput, StepRating, store_feedback
from apps.feedback.models import Feedback
from apps.feedback.set_aside import name_supervisor
from apps.feedback.submit import OUTSIDE_TRUST
from apps.supervision.models import Proposal
from apps.supervision.services import bind_to_attempt, find_decided
from apps.tasks.models import Attempt, Task
from tentalis.core.field_limits import MAX_COMMENT_CHARS

SHOWN_CHARS = 400


def learn_from_decisions(attempt: Attempt) -> list[Feedback]:
    """Keep what was said while an outside agent did its work, when that is handed in; see `_keep_words`."""
    with transaction.atomic():
        return _keep_words(attempt.task, bind_to_attempt(attempt))


def learn_from_waits(task_ids: Sequence[int]) -> None:
    """Keep what was said while the platform's own agent waited at these tasks; see `_keep_words`."""
    with transaction.atomic():
        for decided in find_decided(task_ids).values():
            _keep_words(decided[0].task, decided)


def _keep_words(task: Task, decided: Sequence[Proposal]) -> list[Feedback]:
    """What was decided as feedback in words on the steps of the work; approvals say nothing.

    No score is made up: a rejected action is not a step of the work, an edited one is a step that was right in the end.
    A person's word is a person's; that of an agent, a model or a program counts as any app's.

    Returns:
        One feedback for each who decided, in the order in which they first spoke.
    """
    by_decider: dict[str, list[Proposal]] = defaultdict(list)
    for proposal in decided:
        if proposal.state != Proposal.State.APPROVED:
            by_decider[proposal.decided_by].append(proposal)
    return [_write(task, decider, proposals) for decider, proposals in by_decider.items()]


def _write(task: Task, decider: str, proposals: Sequence[Proposal]) -> Feedback:
    taken = [one for one in proposals if one.state == Proposal.State.TAKEN_OVER and not one.is_ours]
    answers = [one.decision["answer"] for one in taken]  # of the platform's own attempt it is the answer already
    words = JudgementInput(steps=_gather_words(task, proposals), edited_answer=answers[-1] if answers else "")
    is_person = proposals[0].is_by_person
    source, trust = (Feedback.Source.HUMAN, 1.0) if is_person else (Feedback.Source.OUTSIDE, OUTSIDE_TRUST)
    judge = proposals[0].decision.get("judge", {})
    feedback = store_feedback(task, words, source=source, author=name_supervisor(decider), trust=trust, judge=judge)
    payload = {"task": task.pk, "proposals": [one.pk for one in proposals]}
    record(Kind.FEEDBACK_GIVEN, subject=feedback, by=decider, payload=payload)
    return feedback


def _gather_words(task: Task, proposals: Iterable[Proposal]) -> list[StepRating]:
    """One word a step; what belongs to no step of the work is said of the attempt as a whole."""
    attempts = {one.pk: (one.index, one.step_count) for one in task.attempts.annotate(step_count=Count("steps"))}
    said: dict[tuple[int, int | None], list[str]] = defaultdict(list)
    for proposal in proposals:
        index, steps = attempts[proposal.attempt_id or 0]
        place = proposal.step_index
        said[index, place if place is not None and place < steps else None].append(say_decision(proposal))
    return [
        StepRating(attempt_index=index, step_index=place, comment="\n".join(lines)[:MAX_COMMENT_CHARS])
        for (index, place), lines in said.items()
    ]


def say_decision(proposal: Proposal) -> str:
    """What was decided, as a sentence a model can learn from."""
    decision, wanted = proposal.decision, say_action(proposal.action)
    match proposal.state:
        case Proposal.State.REJECTED:
            return f"Not allowed: {wanted}. {decision['reason']}"
        case Proposal.State.EDITED:
            return f"Wanted {wanted}; right was {say_action(decision['action'])}."
        case Proposal.State.HINTED:
            return f"Before {wanted}: {decision['hint']}"
        case Proposal.State.TAKEN_OVER:
            who = "a person" if proposal.is_by_person else "an agent"
            return f"Instead of {wanted} {who} took over and answered: {_shorten(decision['answer'])}"
    return ""


def say_action(action: Mapping[str, object]) -> str:
    """`refund(order=17, amount=5)`, or whose words: `the message “…”`."""
    if action["kind"] != "tool":
        return f"the {action['kind']} “{_shorten(str(action['text']))}”"
    arguments = action["arguments"]
    pairs = arguments.items() if isinstance(arguments, Mapping) else ()
    return f"{action['tool']}({_shorten(', '.join(f'{name}={value}' for name, value in pairs))})"


def _shorten(text: str) -> str:
    return text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 1] + "…"
