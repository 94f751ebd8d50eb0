"""Taking judgements back and disputing them: what that does along the data's way."""

from django.db import transaction

from apps.accounts.models import User
from apps.adapters.models import Adapter
from apps.audit.kinds import Kind
from apps.audit.models import AuditEntry
from apps.audit.services import record
from apps.feedback.appeals import find_contradiction
from apps.feedback.judgement import read_judgement
from apps.feedback.models import Feedback, Review
from apps.feedback.undo import retract_feedback, undo_feedback
from apps.outbox import services as outbox
from apps.outbox.kinds import SegmentKind
from apps.rollouts.models import Batch
from apps.rollouts.rejudging import Rejudged, rejudge_rollouts
from apps.tasks.models import Task


def undo(given: Feedback, *, by: User) -> Review:
    """Stop the task's learning and put back what stood before.

    Locks are taken in the order in which a link takes them: segment, then task.

    Raises:
        CannotUndoError: another's feedback, too late, or the task is learning from it this moment.
    """
    with transaction.atomic():
        is_gold = given.review is not None and given.review.purpose == Review.Purpose.GOLD
        stopped = [] if is_gold else outbox.cancel_unclaimed(kind=SegmentKind.LEARN, subject_ids=[given.task_id])
        return undo_feedback(given, by=by, is_stopped=bool(stopped))


def retract(given: Feedback, *, by: User, reason: str, needs_right: bool = True) -> str:
    """Let feedback count for nothing, judge anew what has not been trained on, say what has.

    A second time it says the same.
    """
    with transaction.atomic():
        task = Task.objects.select_for_update(of=("self",)).select_related("project", "worker").get(pk=given.task_id)
        if not retract_feedback(given, by=by, reason=reason, needs_right=needs_right):
            return find_effect(given)
        effect = describe(task, rejudge_rollouts(task, by=by.handle))
        payload = {"task": task.pk, "reason": reason, "effect": effect}
        record(Kind.FEEDBACK_RETRACTED, subject=given, by=by.handle, payload=payload)
    return effect


def find_effect(given: Feedback) -> str:
    """What taking it back did, as it was said then; "" where it stands."""
    entries = AuditEntry.objects.filter(subject_type="feedback", subject_id=given.pk)
    entry = entries.filter(kind=Kind.FEEDBACK_RETRACTED).order_by("id").last()
    if entry is not None:
        return str(entry.payload["effect"])
    return "It was undone before anything learnt from it." if given.retracted_at else ""


def describe(task: Task, done: Rejudged) -> str:
    """What became of the task's rollouts, in words."""
    words = []
    if done.changed:
        words.append(f"{done.changed} rollouts that no run has trained on are judged anew.")
    if done.excluded:
        words.append(f"{done.excluded} of them left their batch, for nobody else judged them.")
    words += [_describe_use(batch) for batch in done.used]
    if not words and task.state not in Task.FINAL:
        words.append("Nothing has learnt from it yet, and nothing will.")
    return " ".join(words) or "Nothing that was learnt depends on it."


def _describe_use(batch: Batch) -> str:
    run = getattr(batch, "run", None)
    if run is None:
        return f"{batch} is closed and will be trained with it."
    adapter = Adapter.objects.filter(run_id=run.pk).first()
    if adapter is None:
        return f"{batch} holds it, for run {run.pk} ({run.get_state_display().lower()})."
    return f"{batch} held it; run {run.pk} made adapter {adapter.name} of that, which keeps what it learnt."


def settle_appeal(given: Feedback, *, by: User) -> None:
    """Retract the judgement that one given in an appeal contradicts, by `find_contradiction`; that of no other review.

    Either way rollouts that no run has trained on are judged anew with the new word. In the running transaction, the
    task's row locked.
    """
    review = given.review
    if review is None or review.purpose != Review.Purpose.APPEAL or review.about is None:
        return
    why = find_contradiction(read_judgement(review.about), read_judgement(given))
    if why and review.about.retracted_at is None:
        retract(review.about, by=by, reason=f"appeal {review.pk}: {why}", needs_right=False)
    else:
        rejudge_rollouts(given.task, by=by.handle)
