"""Who reviews a scored task: nobody, an AI manager at once, a person later."""

from datetime import timedelta

from django.db import transaction
from django.db.models import Max, Min, Q
from django.db.models.functions import Now

from apps.accounts.models import User
from apps.audit.kinds import Kind
from apps.audit.models import AuditEntry
from apps.audit.services import move, record, record_many
from apps.environments.registry import get_world
from apps.feedback.managers import Manager, ManagerWord, NoWord, find_manager
from apps.feedback.models import Feedback, Review, StepFeedback
from apps.feedback.rules import validate_review_policy
from apps.inference.metering import charge
from apps.outbox.services import final_write
from apps.tasks.drafts import load_attempts
from apps.tasks.models import Attempt, Task
from tentalis.core.field_limits import MAX_REASON_CHARS
from tentalis.core.review_policy import ReviewDecision, ReviewPolicy, decide
from tentalis.core.review_priority import HEAD_START_H, find_priority


def open_review(task_id: int, *, by: str = "policy") -> None:
    """Do what the project's review policy says of a scored task: learn from it, ask an AI manager, wait for a person.

    An AI manager that cannot judge leaves a skipped review with its reason, and no feedback.

    Raises:
        BadInputError: the stored policy cannot be read.
    """
    task = Task.objects.select_related("project").get(pk=task_id)
    if task.state != Task.State.SCORING:
        return
    rules = validate_review_policy(task.project.review_policy)
    decision = decide_reviewers(task, rules)
    manager = find_manager(rules, task)
    words = ask_manager(task, manager, times=decision.reviewers.count("ai"))
    with final_write():
        for word in words:
            _write_ai_review(task, manager, word, decision.reason)
        if "human" in decision.reviewers:
            open_human_review(task, rules, reason=decision.reason, by=by)
            move(task, Task.State.IN_REVIEW, by=by, payload={"reason": decision.reason})
        else:
            move(task, Task.State.LEARNING, by=by, payload={"reason": decision.reason})


def decide_reviewers(task: Task, rules: ReviewPolicy) -> ReviewDecision:
    """The policy's word on this task; asked again it answers the same."""
    spread = None
    if rules.uncertain_spread is not None:
        spread = task.attempts.aggregate(spread=Max("step_scores__spread"))["spread"]
    return decide(
        rules,
        task_id=task.pk,
        environment=task.environment,
        spread=spread,
        score=task.score,
        is_first=rules.who == "both" and rules.human_rate < 1 and _is_first(task),
    )


def _is_first(task: Task) -> bool:
    """Whether no person was asked about another task of the project yet, and something can be learned from this one."""
    asked = Review.objects.filter(project=task.project_id, audience=Review.Audience.HUMAN).exclude(task=task)
    return not get_world(task.environment).is_held_out(task.prompt) and not asked.exists()


def ask_manager(task: Task, manager: Manager, *, times: int) -> list[ManagerWord | NoWord]:
    """Have the AI manager judge the attempts that gave an answer."""
    if not times:
        return []
    answered = [attempt for attempt in load_attempts(task) if attempt.state == Attempt.State.ANSWERED]
    with charge(project=task.project, turn="manager", task_id=task.pk):
        return [manager.review(task, answered) for _ in range(times)]


def open_human_review(
    task: Task,
    rules: ReviewPolicy,
    *,
    reason: str,
    by: str,
    purpose: Review.Purpose = Review.Purpose.WORK,
    about: Feedback | None = None,
    appellant: User | None = None,
) -> Review:
    """Put a review before the project's people, due when the policy's patience ends.

    Its place in the queue is that of a review which waits since 24 h times its priority.
    """
    priority, lowest_score = rate(task)
    review = Review.objects.create(
        project_id=task.project_id,
        task=task,
        audience=Review.Audience.HUMAN,
        purpose=purpose,
        about=about,
        appellant=appellant,
        reason=reason[:MAX_REASON_CHARS],
        priority=priority,
        lowest_score=lowest_score,
        rank_at=Now() - timedelta(hours=HEAD_START_H * priority),
        due_at=Now() + timedelta(seconds=rules.patience_s),
    )
    record(Kind.REVIEW_OPENED, subject=review, by=by, payload={"task": task.pk, "reason": review.reason})
    return review


def rate(task: Task) -> tuple[float, float | None]:
    """How much is learned from judging the task, and the least any scorer said of an attempt, in [0, 1]. One query."""
    overall = Q(step_scores__step__isnull=True)
    rows = task.attempts.order_by().annotate(
        low=Min("step_scores__score", filter=overall),
        high=Max("step_scores__score", filter=overall),
        votes=Max("step_scores__spread"),
    )
    spreads, scores, lows = [], [], []
    for low, high, votes, score in rows.values_list("low", "high", "votes", "score"):
        spreads += [votes] if votes is not None else []
        spreads += [high - low] if low is not None and high is not None else []
        scores += [score] if score is not None else []
        lows += [low] if low is not None else []
    priority = find_priority(
        score=task.score,
        vote_spread=max(spreads, default=None),
        attempt_spread=max(scores) - min(scores) if scores else None,
    )
    return priority, min(lows, default=None)


def answer_waiting_reviews(task: Task) -> None:
    """Have the AI manager answer the reviews that wait for it: nobody came, and the policy turns to it then."""
    waiting = list(task.reviews.filter(state=Review.State.OPEN, audience=Review.Audience.AI))
    if not waiting:
        return
    manager = find_manager(validate_review_policy(task.project.review_policy), task)
    words = ask_manager(task, manager, times=len(waiting))
    with transaction.atomic():
        for review, word in zip(waiting, words, strict=True):
            if isinstance(word, NoWord):
                reason = _join_reasons(review.reason, word)
                payload = {"task": task.pk, "reason": word.reason}
                move(review, Review.State.SKIPPED, by=manager.author, payload=payload, closed_at=Now(), reason=reason)
            else:
                move(review, Review.State.CLOSED, by=manager.author, payload={"task": task.pk}, closed_at=Now())
                record_many([_write_feedback(review, manager.author, word)])


def _write_ai_review(task: Task, manager: Manager, word: ManagerWord | NoWord, reason: str) -> None:
    """A review that is opened and closed in one go is written closed."""
    failed = isinstance(word, NoWord)
    review = Review.objects.create(
        project_id=task.project_id,
        task=task,
        audience=Review.Audience.AI,
        state=Review.State.SKIPPED if failed else Review.State.CLOSED,
        reason=_join_reasons(reason, word) if isinstance(word, NoWord) else reason[:MAX_REASON_CHARS],
        closed_at=Now(),
    )
    payload = {"task": task.pk, "reason": word.reason if isinstance(word, NoWord) else reason}
    kind = Kind.REVIEW_SKIPPED if failed else Kind.REVIEW_CLOSED
    entries = [_entry(kind, review, by=manager.author, payload=payload)]
    if not isinstance(word, NoWord):
        entries.append(_write_feedback(review, manager.author, word))
    record_many(entries)


def _write_feedback(review: Review, author: str, word: ManagerWord) -> AuditEntry:
    """Write what the AI manager said; the audit entry comes back to be written with others."""
    feedback = Feedback.objects.create(
        project_id=review.project_id,
        task_id=review.task_id,
        review=review,
        source=Feedback.Source.AI,
        author=author,
        score=word.score,
        text=word.text,
        trust=word.trust,
        undo_until=Now(),  # nobody undoes it; the sweep notes how it judges, which is not for this link to wait for
    )
    StepFeedback.objects.bulk_create(
        [
            StepFeedback(
                feedback=feedback, attempt_id=attempt, score=said.score, comment=said.comment, items=dict(said.items)
            )
            for attempt, said in word.attempts.items()
        ]
        + [
            StepFeedback(feedback=feedback, attempt_id=attempt, step_id=step, score=said.score, comment=said.comment)
            for (attempt, step), said in word.steps.items()
        ]
    )
    payload = {"task": review.task_id, "review": review.pk, "source": "ai", "score": word.score}
    return _entry(Kind.FEEDBACK_GIVEN, feedback, by=author, payload=payload)


def _entry(kind: Kind, subject: Review | Feedback, *, by: str, payload: dict[str, object]) -> AuditEntry:
    return AuditEntry(
        kind=kind,
        subject_type=subject._meta.model_name or "",
        subject_id=subject.pk,
        project_id=subject.project_id,
        actor=by,
        payload=payload,
    )


def _join_reasons(reason: str, word: NoWord) -> str:
    return f"{reason}; the AI manager had no word: {word.reason}"[:MAX_REASON_CHARS]
