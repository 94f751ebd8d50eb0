"""Judgements as training sets, in the formats of TRL: what counts is what a rollout's reward counts.

Feedback that was taken back, and what was said of gold items, is in none of them; nor, but for managers, what others
said of a task while somebody is asked about it blindly.
"""

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

from django.db.models import Prefetch
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from apps.accounts.models import Project, User
from apps.console.exports.narrowing import look_up
from apps.feedback.models import Feedback
from apps.feedback.selectors import effective_judgement
from apps.tasks.models import Attempt, Step, Task

PAGE = 200
RIGHT_FROM = 0.5
CLEAR_MARGIN = 0.05

PAIR_COLUMNS = {"prompt": "text", "chosen": "text", "rejected": "text", "task": "int", "feedback": "int", "by": "text"}
STEPWISE_COLUMNS = {"prompt": "text", "completions": "texts", "labels": "bools", "task": "int", "attempt": "int"}
KTO_COLUMNS = {
    "prompt": "text", "completion": "text", "label": "bool", "reward": "float", "reward_source": "text", "task": "int",
    "attempt": "int",
}  # fmt: skip
SFT_COLUMNS = {"messages": "messages", "task": "int", "feedback": "int", "kind": "text"}

CHOSEN = frozenset({"preferences", "sft"})
"""Sets that are made of choices between answers, and of corrected ones."""
SETS = CHOSEN | {"stepwise", "kto"}
NO_CHOICE: Mapping[str, Any] = {"edited_answer": "", "preferred_attempt": None, "ranking": []}

Row = Mapping[str, Any]


def read_pairs(project: Project, filters: Mapping[str, str], user: User) -> Iterator[Row]:
    """Every pair a feedback orders: by its ranking, else its preferred attempt before the others; a corrected answer
    before each answered attempt. Equal ranks and equal texts make no pair.
    """
    for feedback in _iterate_feedback(project, user, filters):
        answers = {
            one.index: one.text or one.answer
            for one in feedback.task.attempts.all()
            if one.state == Attempt.State.ANSWERED
        }
        ordered: list[tuple[str, str]] = []
        if feedback.edited_answer:
            ordered += [(feedback.edited_answer, other) for other in answers.values()]
        if feedback.ranking:
            ordered += [
                (answers[good], answers[bad])
                for better, worse in combinations(feedback.ranking, 2)
                for good in better
                for bad in worse
                if good in answers and bad in answers
            ]
        elif feedback.preferred_attempt is not None and feedback.preferred_attempt.index in answers:
            best = feedback.preferred_attempt.index
            ordered += [(answers[best], other) for index, other in answers.items() if index != best]
        for chosen, rejected in dict.fromkeys(ordered):
            if chosen.strip() and chosen != rejected:
                yield {
                    "prompt": feedback.task.prompt,
                    "chosen": chosen,
                    "rejected": rejected,
                    "task": feedback.task_id,
                    "feedback": feedback.pk,
                    "by": feedback.author,
                }


def read_stepwise(project: Project, filters: Mapping[str, str], user: User) -> Iterator[Row]:
    """Each judged attempt's steps up to the first one nobody judged; right from 0.5 on. A person's word comes first."""
    for task, judgements in _iterate_judged(project, user, filters):
        for attempt in task.attempts.all():
            found = judgements[attempt.pk]
            steps, labels = [], []
            for step in attempt.steps.all():
                said = found.human_step_scores.get(step.pk)
                score = said.score if said is not None else found.step_scores.get(step.pk)
                if score is None:
                    break
                steps.append(step.text)
                labels.append(score >= RIGHT_FROM)
            if steps:
                yield {
                    "prompt": task.prompt, "completions": steps, "labels": labels, "task": task.pk,
                    "attempt": attempt.index,
                }  # fmt: skip


def read_kto(project: Project, filters: Mapping[str, str], user: User) -> Iterator[Row]:
    """Each judged attempt whose reward is clearly above or below 0.5."""
    for task, judgements in _iterate_judged(project, user, filters):
        for attempt in task.attempts.all():
            found = judgements[attempt.pk]
            if found.reward is not None and abs(found.reward - RIGHT_FROM) >= CLEAR_MARGIN:
                yield {
                    "prompt": task.prompt, "completion": attempt.text or attempt.answer,
                    "label": found.reward > RIGHT_FROM, "reward": found.reward, "reward_source": found.reward_source,
                    "task": task.pk, "attempt": attempt.index,
                }  # fmt: skip


def read_sft(project: Project, filters: Mapping[str, str], user: User) -> Iterator[Row]:
    """What a manager wrote instead, or else the attempt they preferred; nothing where none was good enough."""
    for feedback in _iterate_feedback(project, user, filters):
        best = feedback.preferred_attempt
        if feedback.edited_answer:
            kind, answer = "corrected", feedback.edited_answer
        elif best is not None and not feedback.none_good:
            kind, answer = "preferred", best.text or best.answer
        else:
            continue
        messages = [{"role": "user", "content": feedback.task.prompt}, {"role": "assistant", "content": answer}]
        yield {"messages": messages, "task": feedback.task_id, "feedback": feedback.pk, "kind": kind}


def say_why_empty(name: str, project: Project, user: User) -> str | Promise:
    """Why such a set holds nothing; "" where it may hold something."""
    counting = Feedback.objects.counting().readable_by(user).filter(project=project)
    if not counting.exists():
        return _("Empty: no review counts yet.")
    if name in CHOSEN and not counting.exclude(**NO_CHOICE).exists():
        return _("Empty: reviews so far gave scores or words; none chose, ranked or corrected an answer.")
    return ""


def _iterate_feedback(project: Project, user: User, filters: Mapping[str, str]) -> Iterator[Feedback]:
    attempts = Prefetch("task__attempts", Attempt.objects.order_by("index"))
    rows = Feedback.objects.counting().readable_by(user).filter(project=project).exclude(**NO_CHOICE)
    rows = rows.filter(**look_up(filters, worker="task__worker__name"))
    last = 0
    while page := list(
        rows.filter(pk__gt=last)
        .select_related("task", "preferred_attempt")
        .prefetch_related(attempts)
        .order_by("pk")[:PAGE]
    ):
        yield from page
        last = page[-1].pk


def _iterate_judged(
    project: Project, user: User, filters: Mapping[str, str]
) -> Iterator[tuple[Task, Mapping[int, Any]]]:
    steps = Prefetch("steps", Step.objects.order_by("index"))
    attempts = Prefetch("attempts", Attempt.objects.order_by("index").prefetch_related(steps))
    """Tasks with what came of all that was said of them; none of which somebody's word must not be known yet."""
    counting = Feedback.objects.counting().filter(project=project)
    hidden = counting.exclude(pk__in=counting.readable_by(user).values("pk"))
    rows = Task.objects.filter(project=project, pk__in=counting.values("task")).exclude(pk__in=hidden.values("task"))
    rows = rows.filter(**look_up(filters))
    last = 0
    while page := list(rows.filter(pk__gt=last).prefetch_related(attempts).order_by("pk")[:PAGE]):
        for task in page:
            yield task, effective_judgement(task)
        last = page[-1].pk
