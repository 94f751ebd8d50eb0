"""Supervision's part of the data's way: an outside agent asks before it acts, and what it was told is learned from.

The agent proposes and a person or the clock decides (`apps.supervision.services`). When the agent hands its work in,
the words of the persons stay with the steps they were about (`learn_from_decisions`).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from django.db import transaction

from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.feedback.judgement import JudgementInput, StepRating, store_feedback
from apps.feedback.models import Feedback
from apps.supervision.models import Proposal
from apps.supervision.services import bind_to_attempt
from apps.tasks.models import Attempt
from tentalis.core.field_limits import MAX_COMMENT_CHARS

SHOWN_CHARS = 400


def learn_from_decisions(attempt: Attempt) -> list[Feedback]:
    """Keep what persons said while the work was done as feedback in words on its steps; approvals say nothing.

    No score is made up: a rejected action is not a step of the work, an edited one is a step that was right in the end.
    The author is written `supervisor:alice`, so that who helped at the work may still be given its review.

    Returns:
        One feedback a person, in the order in which they first spoke.
    """
    with transaction.atomic():
        decided = [one for one in bind_to_attempt(attempt) if one.state != Proposal.State.APPROVED]
        by_person: dict[str, list[Proposal]] = defaultdict(list)
        for proposal in decided:
            by_person[proposal.decided_by].append(proposal)
        return [_write(attempt, author, proposals) for author, proposals in by_person.items()]


def _write(attempt: Attempt, person: str, proposals: Sequence[Proposal]) -> Feedback:
    answers = [one.decision["answer"] for one in proposals if one.state == Proposal.State.TAKEN_OVER]
    words = JudgementInput(steps=_gather_words(attempt, proposals), edited_answer=answers[-1] if answers else "")
    author = f"supervisor:{person.partition(':')[2]}"
    feedback = store_feedback(attempt.task, words, source=Feedback.Source.HUMAN, author=author)
    payload = {"task": attempt.task_id, "proposals": [one.pk for one in proposals]}
    record(Kind.FEEDBACK_GIVEN, subject=feedback, by=person, payload=payload)
    return feedback


def _gather_words(attempt: Attempt, proposals: Iterable[Proposal]) -> list[StepRating]:
    """One word a step; what belongs to no step of the work is said of the attempt as a whole."""
    steps = attempt.steps.count()
    said: dict[int | None, list[str]] = defaultdict(list)
    for proposal in proposals:
        place = proposal.step_index
        said[place if place is not None and place < steps else None].append(say_decision(proposal))
    return [
        StepRating(attempt_index=attempt.index, step_index=place, comment="\n".join(lines)[:MAX_COMMENT_CHARS])
        for place, lines in said.items()
    ]


def say_decision(proposal: Proposal) -> str:
    """What a person decided, as a sentence a model can learn from."""
    decision, wanted = proposal.decision, say_action(proposal.action)
    match proposal.state:
        case Proposal.State.REJECTED:
            return f"Not allowed: {wanted}. {decision['reason']}"
        case Proposal.State.EDITED:
            return f"Wanted {wanted}; right was {say_action(decision['action'])}."
        case Proposal.State.HINTED:
            return f"Before {wanted}: {decision['hint']}"
        case Proposal.State.TAKEN_OVER:
            return f"Instead of {wanted} a person took over and answered: {_shorten(decision['answer'])}"
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
