"""Callers of the REST API."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.tokens import create_token
from apps.base.counting import forget_callers
from apps.feedback.models import Review
from apps.tasks.models import Attempt, Step, Task
from apps.workers.models import Worker
from tests.edges.caller import Caller
from tests.factories import make_task


@pytest.fixture(autouse=True)
def _fresh_throttles() -> Iterator[None]:
    """What an earlier test asked does not count against this one."""
    forget_callers()
    yield
    forget_callers()


@pytest.fixture
def call_as() -> Callable[..., Caller]:
    """A caller with a token of a user: `call_as(alice, scopes=[…], project=…)`."""

    def make(user: User, scopes: list[str] | None = None, project: Project | None = None) -> Caller:
        _, text = create_token(
            user=user, name="test", scopes=Right.values if scopes is None else scopes, project=project, by=user
        )
        return Caller(text)

    return make


@pytest.fixture
def anonymous() -> Caller:
    return Caller("")


@pytest.fixture
def as_alice(call_as: Any, alice: User) -> Caller:
    caller: Caller = call_as(alice)
    return caller


@pytest.fixture
def as_bob(call_as: Any, bob: User) -> Caller:
    caller: Caller = call_as(bob)
    return caller


@pytest.fixture
def as_charlie(call_as: Any, charlie: User) -> Caller:
    caller: Caller = call_as(charlie)
    return caller


@pytest.fixture
def review(project: Project, worker: Worker, bob: User) -> Review:
    """An open review, for a person, of a task with one attempt of one step."""
    task = make_task(project, worker, state=Task.State.IN_REVIEW, group_size=1)
    attempt = Attempt.objects.create(task=task, index=0, worker=worker, answer="hi", text="hi")
    Step.objects.create(attempt=attempt, index=0, kind="step", text="hi")
    return Review.objects.create(project=project, task=task, audience=Review.Audience.HUMAN, reason="drawn")
