"""Create the reviews of a scored task: none, one for an AI manager at once, or one for a person later."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import groupby

from django.db import transaction
from django.db.models import Max, Min, Q
from django.db.models.functions import Now

from apps.accounts.models import Project, User
from apps.audit.kinds import Kind
from apps.audit.models import AuditEntry
from apps.audit.services import move, move_many, record, record_many, write_entry
from apps.base.inserting import insert
from apps.evals.holding import is_held_out
from apps.feedback.managers import Manager, ManagerWord, NoWord, choose_manager, find_manager
from apps.feedback.models import Feedback, Review, StepFeedback
from apps.feedback.rules import validate_review_policy
from apps.inference.metering import charge
from apps.outbox.services import final_write
from apps.tasks.drafts import load_attempts
from apps.tasks.models import Attempt, Task
from tentalis.core.field_limits import MAX_REASON_CHARS
from tentalis.core.review_policy import ReviewDecision, ReviewPolicy, decide
from tentalis.core.review_priority import HEAD_START_H, find_priority

PEOPLE_SPOKE = "a person judged it meanwhile"
PAIR_REASON = "which of two answers is better decides whether a new version may serve"


@dataclass(frozen=True)
class _Opening:
    """What the policy says of a task, and the AI manager."""

    task: Task
    rules: ReviewPolicy
    decision: ReviewDecision
    manager: Manager
    words: Sequence[ManagerWord | NoWord] = ()


def open_reviews(task_ids: Sequence[int], *, by: str = "policy") -> None:
    """Do what the project's review policy says of scored tasks: learn from them, ask an AI manager, wait for a person.

    An AI manager that cannot judge leaves a skipped review with its reason, and no feedback.

    Raises:
        BadInputError: the stored policy cannot be read.
    """
    waiting = Task.objects.filter(pk__in=task_ids, state=Task.State.SCORING).select_related("project").order_by("pk")
    openings = [_decide(task) for task in waiting]
    if not openings:
        return
    times = {one.task.pk: one.decision.reviewers.count("ai") for one in openings}
    attempts = load_attempts(one.task for one in openings if times[one.task.pk])
    openings = [
        replace(one, words=ask_manager(one.task, one.manager, attempts[one.task.pk], times=times[one.task.pk]))
        if times[one.task.pk]
        else one
        for one in openings
    ]
    with final_write(task_ids) as kept:
        openings = [one for one in openings if one.task.pk in kept]
        _write_ai_reviews(openings)
        waits = [one for one in openings if "human" in one.decision.reviewers]
        for one in waits:
            open_human_review(one.task, one.rules, reason=one.decision.reason, by=by)
        learns = [one for one in openings if one not in waits]
        reasons = {one.task.pk: one.decision.reason for one in openings}
        for some, state in ((waits, Task.State.IN_REVIEW), (learns, Task.State.LEARNING)):
            move_many([one.task for one in some], state, by=by, payload=lambda task: {"reason": reasons[task.pk]})


def _decide(task: Task) -> _Opening:
    rules = validate_review_policy(task.project.review_policy)
    return _Opening(task, rules, decide_reviewers(task, rules), find_manager(rules, task))


def reviews_ask_models(project: Project, environment: str) -> bool:
    """Whether reviewing one task waits for a model."""
    rules = validate_review_policy(project.review_policy)
    return rules.who in {"ai", "both"} and choose_manager(rules, environment) != "rule-book"


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
    return not asked.exists() and not is_held_out(task)


def ask_manager(task: Task, manager: Manager, attempts: Sequence[Attempt], *, times: int) -> list[ManagerWord | NoWord]:
    """Have the AI manager judge the attempts that gave an answer."""
    answered = [attempt for attempt in attempts if attempt.state == Attempt.State.ANSWERED]
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


def answer_waiting_reviews(tasks: Iterable[Task]) -> None:
    """Have the AI manager answer the reviews that wait for it: nobody came, and the policy turns to it then. Where a
    person has spoken meanwhile, it is not asked, and what it says behind a person is not kept."""
    known = {task.pk: task for task in tasks}
    rows = Review.objects.filter(task__in=list(known), state=Review.State.OPEN, audience=Review.Audience.AI)
    waiting = list(rows.order_by("task_id", "pk"))
    attempts = load_attempts({known[review.task_id] for review in waiting}) if waiting else {}
    for task_id, some in groupby(waiting, key=lambda review: review.task_id):
        _answer(known[task_id], list(some), attempts[task_id])


def _answer(task: Task, waiting: Sequence[Review], attempts: Sequence[Attempt]) -> None:
    manager = find_manager(validate_review_policy(task.project.review_policy), task)
    if task.feedback.counting().by_people().exists():
        _leave_to_people(task, waiting)
        return
    words = ask_manager(task, manager, attempts, times=len(waiting))
    with transaction.atomic():
        if task.feedback.counting().by_people().exists():  # a model may think for long
            _leave_to_people(task, waiting)
            return
        for review, word in zip(waiting, words, strict=True):
            if isinstance(word, NoWord):
                reason = _join_reasons(review.reason, word)
                payload = {"task": task.pk, "reason": word.reason}
                move(review, Review.State.SKIPPED, by=manager.author, payload=payload, closed_at=Now(), reason=reason)
            else:
                move(review, Review.State.CLOSED, by=manager.author, payload={"task": task.pk}, closed_at=Now())
                record_many(_write_feedback([(review, manager.author, word)]))


def _leave_to_people(task: Task, waiting: Sequence[Review]) -> None:
    with transaction.atomic():
        for review in waiting:
            reason, payload = f"{review.reason}; then a person judged it", {"task": task.pk, "reason": PEOPLE_SPOKE}
            move(review, Review.State.SKIPPED, by="policy", payload=payload, closed_at=Now(), reason=reason)


def _write_ai_reviews(openings: Sequence[_Opening]) -> None:
    """Reviews that are opened and closed in one go are written closed, with what was said, in four statements."""
    said = [(one, word) for one in openings for word in one.words]
    if not said:
        return
    reviews = Review.objects.bulk_create(
        Review(
            project_id=one.task.project_id,
            task=one.task,
            audience=Review.Audience.AI,
            state=Review.State.SKIPPED if isinstance(word, NoWord) else Review.State.CLOSED,
            reason=_join_reasons(one.decision.reason, word)
            if isinstance(word, NoWord)
            else one.decision.reason[:MAX_REASON_CHARS],
            closed_at=Now(),
        )
        for one, word in said
    )
    entries, given = [], []
    for review, (one, word) in zip(reviews, said, strict=True):
        failed = isinstance(word, NoWord)
        payload = {"task": one.task.pk, "reason": word.reason if isinstance(word, NoWord) else one.decision.reason}
        kind = Kind.REVIEW_SKIPPED if failed else Kind.REVIEW_CLOSED
        entries.append(write_entry(kind, subject=review, by=one.manager.author, payload=payload))
        if not isinstance(word, NoWord):
            given.append((review, one.manager.author, word))
    record_many([*entries, *_write_feedback(given)])


def _write_feedback(given: Sequence[tuple[Review, str, ManagerWord]]) -> list[AuditEntry]:
    """Write what AI managers said, by review and author; the audit entries come back to be written with others."""
    made = Feedback.objects.bulk_create(
        Feedback(
            project_id=review.project_id,
            task_id=review.task_id,
            review=review,
            source=Feedback.Source.AI,
            author=author,
            score=word.score,
            text=word.text,
            trust=word.trust,
            judge=dict(word.judge),
            undo_until=Now(),  # nobody undoes it; the sweep notes how it judges, which is not for this link to wait for
        )
        for review, author, word in given
    )
    spoken = [(feedback, word) for feedback, (_, _, word) in zip(made, given, strict=True)]
    insert(
        [
            StepFeedback(
                feedback=feedback, attempt_id=attempt, score=said.score, comment=said.comment, items=dict(said.items)
            )
            for feedback, word in spoken
            for attempt, said in word.attempts.items()
        ]
        + [
            StepFeedback(feedback=feedback, attempt_id=attempt, step_id=step, score=said.score, comment=said.comment)
            for feedback, word in spoken
            for (attempt, step), said in word.steps.items()
        ]
    )
    return [
        write_entry(
            Kind.FEEDBACK_GIVEN,
            subject=feedback,
            by=feedback.author,
            payload={"task": feedback.task_id, "review": feedback.review_id, "source": "ai", "score": feedback.score},
        )
        for feedback in made
    ]


def _join_reasons(reason: str, word: NoWord) -> str:
    return f"{reason}; the AI manager had no word: {word.reason}"[:MAX_REASON_CHARS]
