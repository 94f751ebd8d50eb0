"""What the platform asks its database for, an attempt: links do sets of tasks, in as many statements as of one."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection

from apps.outbox.links import LINKS, run_claim
from apps.outbox.models import Segment
from apps.outbox.services import claim_links
from apps.pipeline import flow
from apps.rollouts.models import TrainingUse
from apps.tasks.models import Task
from tentalis.celery import app
from tentalis.core.desk import make_tickets
from tests.apps.gateway.running import make_provider
from tests.factories import make_project, make_user, make_worker
from tests.fakes import FakeModelServer

GROUP = 8
TASKS = 8


@contextmanager
def counting(asked: Counter[str], name: str) -> Iterator[None]:
    """Count statements by what is done."""

    def count(execute: Any, *told: Any) -> Any:
        asked[name] += 1
        return execute(*told)

    with connection.execute_wrapper(count):
        yield


def do_everything(asked: Counter[str]) -> None:
    """What the queue processes do, set by set."""
    app.loader.import_default_modules()
    while (first := Segment.objects.filter(state="open").order_by("kind", "position").first()) is not None:
        due = Segment.objects.filter(state="open", kind=first.kind, position=first.position).order_by("id")
        ids, link = list(due.values_list("pk", flat=True)), first.links[first.position]
        with counting(asked, link):
            claim = claim_links(ids, first.position, owner="test")
            assert claim is not None
            held = run_claim(LINKS[link], claim)
        assert list(held.ended) == ids, Segment.objects.get(pk=ids[0]).errors


@pytest.mark.django_db(transaction=True)
def test_an_attempt_costs_two_statements_at_most() -> None:
    policy = {"who": "ai", "ai_manager": "rule-book"}
    project = make_project(group_size=GROUP, batch_tasks=3 * TASKS, review_policy=policy)
    alice, asked = make_user("alice"), Counter[str]()
    with FakeModelServer(reply=lambda prompt, index: f"<step> a{index}</step><answer> fee</answer>") as server:
        worker = make_worker(project, "desk", kind="desk", provider=make_provider(project, server.url))
        for number, ticket in enumerate(make_tickets(1, TASKS, held_out=False)):
            with counting(asked, "submit"):
                flow.submit(
                    project=project, prompt=ticket.text, environment="desk", by=alice, worker=worker, seed=number
                )
        do_everything(asked)
    assert set(Task.objects.values_list("state", flat=True)) == {"done"}
    assert TrainingUse.objects.count() == TASKS * GROUP
    assert asked.total() <= 2 * TASKS * GROUP, asked
