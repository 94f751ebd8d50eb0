"""Rows by COPY: the same as `bulk_create` writes, with Django's errors."""

from typing import Any

import pytest
from django.db import IntegrityError

from apps.base.inserting import insert
from apps.inference.models import Exchange
from apps.tasks.models import Attempt
from tests.factories import make_project, make_task

pytestmark = pytest.mark.django_db


def test_what_is_copied_reads_as_what_is_inserted() -> None:
    project, text = make_project(), "tab\t, back\\slash, new\nline, \\N and 'ä'"

    def make() -> Exchange:
        facts = {"messages": [{"role": "user", "content": text}], "sampling": {"top_p": 0.5}, "thinking_blocks": None}
        return Exchange(project=project, model="m", text=text, token_ids=b"\x00\xff\\", latency_ms=1.5, **facts)

    (copied,), (inserted,) = insert(one for one in [make()]), Exchange.objects.bulk_create([make()])
    assert not copied._state.adding
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
