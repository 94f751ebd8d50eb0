"""What the platform asks its database for, an attempt: links do sets of tasks, in as many statements as of one."""

import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.db import connection

from apps.outbox.links import LINKS, run_claim
from apps.outbox.models import Segment
from apps.outbox.services import claim_links
from apps.pipeline import flow
from apps.rollouts.models import TrainingUse
from apps.tasks.models import Task
from apps.workers.models import Worker
from tentalis.celery import app
from tentalis.core.desk import make_tickets
from tests.apps.gateway.running import make_provider
from tests.factories import make_project, make_user, make_worker
from tests.fakes import FakeModelServer

GROUP = 8
TASKS = 8


@dataclass
class Cost:
    """Statements and the main thread's CPU by what was done."""

    statements: dict[str, Counter[str]] = field(default_factory=dict)
    cpu_ms: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        asked = self.statements.setdefault(name, Counter())

        def count(execute: Any, sql: str, *rest: Any) -> Any:
            asked[" ".join(re.sub(r'"[a-z_]+"\."?', "", str(sql)).split())[:110]] += 1
            return execute(sql, *rest)

        began = time.thread_time()
        with connection.execute_wrapper(count):
            yield
        self.cpu_ms[name] += (time.thread_time() - began) * 1000  # type: ignore[assignment]

    def total(self) -> int:
        return sum(asked.total() for asked in self.statements.values())


def do_everything(cost: Cost) -> None:
    """What the queue processes do, set by set."""
    app.loader.import_default_modules()
    while kinds := sorted(
        Segment.objects.filter(state="open").exclude(kind="train").values_list("kind", "position", "links")
    ):
        kind, position, links = kinds[0]
        due = Segment.objects.filter(state="open", kind=kind, position=position).order_by("id")
        ids = list(due.values_list("pk", flat=True))
        with cost.of(links[position]):
            claim = claim_links(ids, position, owner="test")
            assert claim is not None
            held = run_claim(LINKS[links[position]], claim)
        assert list(held.ended) == ids, Segment.objects.get(pk=ids[0]).errors


@pytest.mark.django_db(transaction=True)
def test_an_attempt_costs_two_statements_at_most() -> None:
    policy = {"who": "ai", "ai_manager": "rule-book"}
    project = make_project(group_size=GROUP, batch_tasks=TASKS, review_policy=policy)
    alice, cost = make_user("alice"), Cost()
    with FakeModelServer(reply=lambda prompt, index: f"<step> a{index}</step><answer> fee</answer>") as server:
        worker = make_worker(project, "desk", kind=Worker.Kind.DESK, provider=make_provider(project, server.url))
        for number, ticket in enumerate(make_tickets(1, TASKS, held_out=False)):
            with cost.of("submit"):
                flow.submit(
                    project=project, prompt=ticket.text, environment="desk", by=alice, worker=worker, seed=number
                )
        do_everything(cost)
    assert set(Task.objects.values_list("state", flat=True)) == {"done"}
    assert TrainingUse.objects.count() == TASKS * GROUP
    for name, asked in cost.statements.items():
        print(f"== {name}: {asked.total()} statements, {cost.cpu_ms[name]:.1f} ms, {len(server.requests)} requests")
        for sql, count in asked.most_common(40):
            print(f"   {count:4d} {sql}")
    print("total", cost.total() / TASKS / GROUP, "statements;", sum(cost.cpu_ms.values()) / TASKS / GROUP, "ms")
    assert cost.total() <= 2 * TASKS * GROUP
