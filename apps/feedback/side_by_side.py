"""Two answers side by side: put before people who do not know whose they are, and what people said of pairs before."""

import hashlib
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean
from typing import Any

from django.db.models import Min

from apps.accounts.services import find_leader
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.inserting import insert
from apps.calibration.selectors import weights_of
from apps.evals.models import Item
from apps.evals.services import hash_item
from apps.feedback.comparing import TRUSTED_AS_TRUTH
from apps.feedback.create_reviews import PAIR_REASON, open_human_review
from apps.feedback.models import Feedback, FeedbackQuerySet, Review
from apps.feedback.rules import validate_review_policy
from apps.tasks.models import BLIND_PAIR, OF_ITEM, Attempt, Task
from apps.workers.models import Worker
from tentalis.core.worlds import PanelItem

REMEMBERED = 1_000
"""Judgements that are looked through for pairs, the last ones."""


@dataclass(frozen=True)
class JudgedPair:
    """Two answers of which a person said which is better.

    Args:
        truth: 1 where the first is, 0 where the second.
        by: handle of who said so.
    """

    task: Task
    first: Attempt
    second: Attempt
    truth: float
    by: str


def open_pair(
    worker: Worker, environment: str, asked: PanelItem, answers: Sequence[str], *, people: int, by: str
) -> Task:
    """Have people say which of two answers is better, in the running transaction.

    It is a task whose attempts are the answers, in an order that says nothing of who wrote them, and its review waits
    in the queue like any other, as long as the project's policy lets reviews wait. Nothing of it is learned. A
    conversation is not copied: it is its item's, and goes with that.
    """
    project = worker.project
    of_item = {OF_ITEM: hash_item(asked.prompt, asked.messages)} if asked.messages else {}
    task = Task.objects.create(
        project=project,
        worker=worker,
        submitted_by=find_leader(project),
        environment=environment,
        prompt=asked.prompt,
        metadata={BLIND_PAIR: people, **of_item},
        group_size=len(answers),
        state=Task.State.IN_REVIEW,
    )
    insert(
        Attempt(task=task, index=index, worker=worker, text=answer, answer=answer, unfit="it was held out")
        for index, answer in enumerate(answers)
    )
    record(Kind.TASK_SUBMITTED, subject=task, by=by, payload={"environment": environment})
    rules = validate_review_policy(project.review_policy)
    open_human_review(task, rules, reason=PAIR_REASON, by=by, purpose=Review.Purpose.PAIR)
    return task


def find_conversation(task: Task) -> Sequence[Any]:
    """The messages that two answers put before people were given to, as they were sent; () where its prompt is all, or
    the item is gone. One query, and none of other work."""
    wanted = task.metadata.get(OF_ITEM)
    if not task.people_per_pair or not isinstance(wanted, str):
        return ()
    items = Item.objects.filter(
        taskset__project=task.project_id, taskset__environment=task.environment, content_hash=wanted
    )
    found = items.order_by("-pk").values_list("messages", flat=True).first()
    return found or ()


def read_preferences(task_ids: Collection[int]) -> dict[int, float]:
    """Task id -> how far people prefer its first answer to its second, in [0, 1]; none where nobody said. Four
    queries.

    Each trusted person counts once, by the last they said of the two.

    Args:
        task_ids: of one project.
    """
    attempts = _load_answered(task_ids)
    given = list(_find_spoken().filter(task__in=task_ids).order_by("id"))
    last: dict[tuple[int, str], float] = {}
    for feedback in given:
        worth = _read_worth(feedback, attempts[feedback.task_id])
        if len(worth) == 2:
            last[feedback.task_id, feedback.author] = (1 + (worth[0] > worth[1]) - (worth[0] < worth[1])) / 2
    trust = weights_of(given[0].project_id, {author for _, author in last}) if last else {}
    said: dict[int, list[float]] = defaultdict(list)
    for (task, author), word in last.items():
        if trust[author] >= TRUSTED_AS_TRUTH:
            said[task].append(word)
    return {task: fmean(found) for task, found in said.items()}


def find_due(task_ids: Collection[int]) -> datetime | None:
    """Until when the first of the reviews that are open waits."""
    rows = Review.objects.filter(task__in=task_ids, state=Review.State.OPEN)
    found: datetime | None = rows.aggregate(due=Min("due_at"))["due"]
    return found


def find_judged_pairs(project_id: int) -> list[JudgedPair]:
    """One pair of each task of which a trusted person said which answer is better, or what each is worth: the last who
    did says which.

    Where there are more than two answers, the best and the worst by that person. Four queries.
    """
    rows = _find_spoken().filter(project=project_id).order_by("-id")
    given = list(rows.select_related("task__project", "preferred_attempt")[:REMEMBERED])
    trust = weights_of(project_id, {feedback.author for feedback in given})
    trusted = [feedback for feedback in given if trust[feedback.author] >= TRUSTED_AS_TRUTH]
    attempts = _load_answered({feedback.task_id for feedback in trusted})
    found: dict[int, list[JudgedPair]] = {}
    for feedback in trusted:
        worth = _read_worth(feedback, attempts[feedback.task_id])
        if len(worth) > 1 and feedback.task_id not in found:
            found[feedback.task_id] = _choose_pair(feedback, worth, attempts[feedback.task_id])
    return [pair for pairs in found.values() for pair in pairs]


def read_answer(attempt: Attempt) -> str:
    return attempt.answer or attempt.text


def _find_spoken() -> FeedbackQuerySet:
    people = Feedback.objects.counting().by_people()
    return people.select_related("preferred_attempt").prefetch_related("steps")


def _load_answered(task_ids: Collection[int]) -> Mapping[int, Sequence[Attempt]]:
    rows = Attempt.objects.filter(task__in=task_ids, state=Attempt.State.ANSWERED).order_by("task_id", "index")
    found: dict[int, list[Attempt]] = defaultdict(list)
    for attempt in rows.only("task_id", "index", "text", "answer"):
        found[attempt.task_id].append(attempt)
    return found


def _choose_pair(feedback: Feedback, worth: Mapping[int, float], attempts: Sequence[Attempt]) -> list[JudgedPair]:
    """The best and the worst answer, in an order by lot; none where the person found none better."""
    if len(set(worth.values())) < 2:
        return []
    by_index = {attempt.index: attempt for attempt in attempts}
    best, worst = (by_index[choose(worth, key=lambda index: worth[index])] for choose in (max, min))
    if read_answer(best) == read_answer(worst):
        return []
    is_first = hashlib.sha256(f"pair:{feedback.task_id}".encode()).digest()[0] % 2 == 0
    first, second = (best, worst) if is_first else (worst, best)
    return [JudgedPair(feedback.task, first, second, float(is_first), feedback.author)]


def _read_worth(feedback: Feedback, attempts: Sequence[Attempt]) -> Mapping[int, float]:
    """Index of an attempt -> a number that is higher the better the person finds it; of those they spoke of."""
    answered = {attempt.pk: attempt.index for attempt in attempts}
    if feedback.ranking:
        places = {index: -place for place, tier in enumerate(feedback.ranking) for index in tier}
        return {index: places[index] for index in answered.values() if index in places}
    if feedback.preferred_attempt is not None:
        return {index: float(index == feedback.preferred_attempt.index) for index in answered.values()}
    if feedback.none_good:
        return dict.fromkeys(answered.values(), 0.0)
    return {
        answered[word.attempt_id]: word.score
        for word in feedback.steps.all()
        if word.step_id is None and word.score is not None and word.attempt_id in answered
    }
