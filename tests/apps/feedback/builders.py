"""Tasks with attempts, as they stand when scoring begins."""

from collections.abc import Sequence
from typing import Any

from apps.accounts.models import Project
from apps.feedback.models import Review
from apps.feedback.selectors import find_hint
from apps.inference.models import Exchange
from apps.scoring.models import StepScore
from apps.tasks.models import Attempt, Step, Task
from tentalis.core.desk import Ticket, read_attempt, render_parts, solve
from tests.factories import make_task

TICKET = Ticket(family="order", item="mug", count=3, price_eur=4, customer="new")
"""The house option is "ship": 3 * 4 = 12, ship 12 + 5 = 17, 17 EUR."""


def write_answer(option: str = "ship", *, with_unit: bool = True) -> str:
    return render_parts(solve(TICKET, option, with_unit=with_unit))


def make_desk_task(project: Project, texts: Sequence[str], **values: Any) -> Task:
    """A desk task in state scoring, with one attempt a text."""
    defaults: dict[str, Any] = {
        "environment": "desk",
        "prompt": TICKET.text,
        "state": Task.State.SCORING,
        "group_size": len(texts),
    }
    task = make_task(project, **defaults | values)
    for index, text in enumerate(texts):
        add_desk_attempt(task, index, text)
    return task


def add_desk_attempt(task: Task, index: int, text: str) -> Attempt:
    segments = read_attempt(text).segments
    exchange = Exchange.objects.create(project=task.project, model="desk", text=text, finish_reason="stop")
    attempt = Attempt.objects.create(
        task=task,
        index=index,
        worker=task.worker,
        exchange=exchange,
        text=text,
        answer=next((segment.text for segment in segments if segment.kind == "answer"), ""),
    )
    Step.objects.bulk_create(
        Step(
            attempt=attempt,
            index=place,
            kind="other" if segment.kind == "bad" else segment.kind,
            text=segment.text,
            token_start=segment.start,
            token_end=segment.end,
        )
        for place, segment in enumerate(segments)
    )
    return attempt


def make_chat_task(project: Project, answers: Sequence[str] = ("first", "second"), **values: Any) -> Task:
    """A chat task in state scoring, with one attempt of two steps an answer."""
    defaults: dict[str, Any] = {"state": Task.State.SCORING, "group_size": len(answers)}
    task = make_task(project, **defaults | values)
    for index, answer in enumerate(answers):
        attempt = Attempt.objects.create(
            task=task, index=index, worker=task.worker, text=f"think\n{answer}", answer=answer
        )
        Step.objects.bulk_create(
            [
                Step(attempt=attempt, index=0, kind="step", text="think"),
                Step(attempt=attempt, index=1, kind="answer", text=answer),
            ]
        )
    return task


def make_open_review(project: Project, answers: Sequence[str] = ("first", "second"), **values: Any) -> Review:
    """An open review of a chat task that waits for it."""
    task = make_chat_task(project, answers, **{"state": Task.State.IN_REVIEW} | values)
    return Review.objects.create(project=project, task=task, audience=Review.Audience.HUMAN)


def save_scores(task: Task, scorer: str, scores: Sequence[float]) -> None:
    """One scorer's word on every step and attempt of a task: `scores` by attempt; the task counts as scored by it."""
    for attempt, score in zip(task.attempts.all(), scores, strict=True):
        Attempt.objects.filter(pk=attempt.pk).update(score=score, score_details={"profile": {scorer: 1.0}})
        StepScore.objects.bulk_create(
            StepScore(attempt=attempt, step=step, scorer=scorer, score=score) for step in [None, *attempt.steps.all()]
        )


def read_hint(task: Task) -> str:
    """What is taught of a task; "" where that is nothing."""
    taught = find_hint(task)
    return taught.hint.text if taught else ""
