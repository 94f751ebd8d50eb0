"""Rows by COPY: the same as `bulk_create` writes, with Django's errors."""

from typing import Any

import pytest
from django.db import IntegrityError

from apps.base.inserting import insert
from apps.inference.models import Exchange
from apps.tasks.models import Attempt
from tests.factories import make_project, make_task

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("count", [1, 2])
def test_what_is_copied_or_inserted_alone_reads_as_what_the_orm_inserts(count: int) -> None:
    project, text = make_project(), "tab\t, back\\slash, new\nline, \\N, %s and 'ä'"

    def make() -> Exchange:
        facts = {"messages": [{"role": "user", "content": text}], "sampling": {"top_p": 0.5}, "thinking_blocks": None}
        return Exchange(project=project, model="m", text=text, token_ids=b"\x00\xff\\", latency_ms=1.5, **facts)

    copied, *_ = insert(make() for _ in range(count))
    (inserted,) = Exchange.objects.bulk_create([make()])
    assert (copied._state.adding, Exchange.objects.count()) == (False, count + 1)
    mine, theirs = (dict[str, Any](Exchange.objects.filter(pk=one.pk).values().get()) for one in (copied, inserted))
    for name in ("id", "public_id", "created_at"):
        assert mine.pop(name) is not None
        assert theirs.pop(name) is not None
    assert mine == theirs


def test_nothing_to_insert_asks_nothing() -> None:
    assert insert([]) == []


def test_what_the_database_refuses_is_djangos_error() -> None:
    task = make_task(make_project())
    with pytest.raises(IntegrityError):
        insert(Attempt(task=task, index=0, worker=task.worker, text="") for _ in range(2))


def test_of_one_row_too(django_assert_num_queries: Any) -> None:
    task = make_task(make_project())
    with django_assert_num_queries(1):
        insert([Attempt(task=task, index=0, worker=task.worker, text="")])
    with pytest.raises(IntegrityError):
        insert([Attempt(task=task, index=0, worker=task.worker, text="")])
