"""Rows for tests, and the people in them: alice manages, bob reviews, charlie must see nothing."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any
from uuid import uuid4

from django.contrib.auth.hashers import make_password
from django.utils import timezone

from apps.accounts.models import Member, Project, Role, User
from apps.adapters.models import Adapter
from apps.evals.models import Evaluation, ItemTry
from apps.evals.results import describe_asking
from apps.inference.models import Exchange
from apps.tasks.models import Attempt, FurtherExchange, Step, Task
from apps.workers.models import Worker
from apps.worlds.registry import get_world
from tentalis.core.canon import content_hash
from tentalis.core.packing import pack_bools, pack_float32, pack_int32


def make_user(name: str, **values: Any) -> User:
    user = User.objects.filter(username=name).first()
    if user is None:
        user = User.objects.create_user(username=name, password=say_password(name), **values)
    return user


def say_password(name: str) -> str:
    return f"{name}-has-a-password"


def make_project(slug: str = "shop", **values: Any) -> Project:
    """A project with alice as its manager and bob as its reviewer."""
    project = Project.objects.create(slug=slug, name=slug.title(), **values)
    roles = {"alice": Role.MANAGER, "bob": Role.REVIEWER}
    users = {user.username: user for user in User.objects.filter(username__in=roles)}
    new = [User(username=name, password=make_password(say_password(name))) for name in roles if name not in users]
    users |= {user.username: user for user in User.objects.bulk_create(new)}
    Member.objects.bulk_create(Member(project=project, user=users[name], role=role) for name, role in roles.items())
    return project


def make_worker(project: Project, name: str = "echo", kind: str = Worker.Kind.ECHO, **values: Any) -> Worker:
    return Worker.objects.create(project=project, name=name, kind=kind, **values)


def make_task(project: Project, worker: Worker | None = None, **values: Any) -> Task:
    """A task row as it stands after submission, without anything started."""
    worker = worker or Worker.objects.filter(project=project).first() or make_worker(project)
    if "submitted_by" not in values:
        values["submitted_by"] = make_user("alice")
    defaults = {"environment": "chat", "prompt": "Say hello.", "group_size": 2}
    return Task.objects.create(project=project, worker=worker, **defaults | values)


def make_attempt(task: Task, index: int = 0, *, tokens: int = 6, **values: Any) -> Attempt:
    """An answered attempt of two steps with exact tokens; `tokens=0` makes one whose server told none.

    Attempts of different indices are no copies of each other: their tools gave back something else. Its tokens are
    halved between the steps, and the last token of the first is a tool's.
    """
    sampled = [place != tokens // 2 - 1 for place in range(tokens)]
    exchange = Exchange.objects.create(
        project=task.project,
        worker_name=task.worker.name,
        model="desk",
        messages=[{"role": "user", "content": task.prompt}],
        prompt_token_ids=pack_int32([1, 2, 3] if tokens else []),
        token_ids=pack_int32(range(10, 10 + tokens)),
        logprobs=pack_float32([-0.5 if chosen else 0.0 for chosen in sampled]),
        sampled=pack_bools(sampled),
    )
    defaults = {"text": "one two", "answer": "two", "outcome": float(index % 2), "score": float(index % 2)}
    attempt = Attempt.objects.create(task=task, index=index, worker=task.worker, exchange=exchange, **defaults | values)
    for place, text in enumerate(("one", "two")):
        span = (place * tokens // 2, (place + 1) * tokens // 2) if tokens else (None, None)
        Step.objects.create(
            attempt=attempt,
            index=place,
            kind="step",
            text=text,
            tool_result=str(index) if index else "",
            token_start=span[0],
            token_end=span[1],
            token_overlap=0 if tokens else None,
        )
    return attempt


def add_call(attempt: Attempt, prompt: list[int], tokens: list[int], *, place: int = 1) -> None:
    """A later call of the attempt, whose prompt does not go on from the tokens before it."""
    assert attempt.exchange is not None
    call = Exchange.objects.get(pk=attempt.exchange.pk)
    call.pk, call._state.adding, call.public_id = None, True, uuid4()
    call.prompt_token_ids, call.token_ids = pack_int32(prompt), pack_int32(tokens)
    call.logprobs, call.sampled = pack_float32([-0.5] * len(tokens)), pack_bools([True] * len(tokens))
    call.save()
    FurtherExchange.objects.create(attempt=attempt, exchange=call, place=place)


def make_judged_task(project: Project, worker: Worker | None = None, *, tokens: int = 6, **values: Any) -> Task:
    """A task whose attempts are scored and that waits to learn."""
    task = make_task(project, worker, **{"state": Task.State.LEARNING} | values)
    for index in range(task.group_size):
        make_attempt(task, index, tokens=tokens)
    return task


def make_measured(
    worker: Worker,
    adapter: Adapter | None,
    outcomes: Sequence[float],
    *,
    items: str = "desk/20/0",
    purpose: str = "panel",
    places: Sequence[int] | None = None,
    steps: Sequence[float] | None = None,
    keys: Sequence[int] | None = None,
    **values: Any,
) -> Evaluation:
    """What a model answered to the items at these places (the first ones), as if it had been asked.

    Args:
        steps: step scores; None: the outcomes.
        keys: of all items of the set; None: each is known by its place.
    """
    places = range(len(outcomes)) if places is None else places
    steps = outcomes if steps is None else steps
    evaluation = Evaluation.objects.create(
        project_id=worker.project_id,
        worker=worker,
        adapter=adapter,
        purpose=purpose,
        item_set=items,
        state="done",
        asked_hash=content_hash(describe_asking(worker, get_world("desk")))[:32],
        planned=len(outcomes),
        played=len(outcomes),
        items=len(outcomes),
        mean_outcome=fmean(outcomes) if outcomes else None,
        mean_step_score=fmean(steps) if steps else None,
        finished_at=timezone.now(),
        **values,
    )
    ItemTry.objects.bulk_create(
        ItemTry(
            evaluation=evaluation,
            place=place,
            key=keys[place] if keys else place,
            outcome=outcome,
            step_score=steps[index] if steps else None,
        )
        for index, (place, outcome) in enumerate(zip(places, outcomes, strict=True))
    )
    return evaluation
