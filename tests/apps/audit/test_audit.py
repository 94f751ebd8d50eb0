"""The audit cannot be changed, and moves are compare-and-set."""

import pytest
from django.db import DatabaseError, connection, transaction

from apps.accounts.models import Project
from apps.audit.kinds import Kind
from apps.audit.models import AuditEntry
from apps.audit.services import move, move_many, record
from apps.base.errors import IllegalMoveError
from apps.tasks.models import Task
from tests.factories import make_task


def test_postgres_refuses_to_change_or_delete_an_entry(project: Project) -> None:
    entry = record(Kind.PROJECT_CREATED, subject=project, by="user:alice")
    for statement in (
        "UPDATE audit_auditentry SET actor = 'x'",
        "DELETE FROM audit_auditentry",
        "TRUNCATE audit_auditentry",
    ):
        with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement)
    assert AuditEntry.objects.get(pk=entry.pk).actor == "user:alice"


def test_a_move_writes_its_entry_with_where_it_came_from(project: Project) -> None:
    task = make_task(project)
    move(task, Task.State.WORKING, by="worker")
    entry = AuditEntry.objects.get(subject_type="task", subject_id=task.pk)
    assert (entry.kind, entry.payload, entry.project_id) == (
        "task.started",
        {"from": "queued", "to": "working"},
        project.pk,
    )
    assert Task.objects.get(pk=task.pk).state == task.state == "working"


def test_a_moved_row_says_when_it_changed(project: Project) -> None:
    tasks = [make_task(project) for _ in range(3)]
    Task.objects.update(updated_at=tasks[0].created_at)
    move(tasks[0], "working", by="worker")
    move_many(tasks[1:], "working", by="worker")
    assert all(task.updated_at > task.created_at for task in Task.objects.all())


def test_a_move_the_table_does_not_allow_changes_nothing(project: Project) -> None:
    task = make_task(project)
    with pytest.raises(IllegalMoveError, match="wanted state scoring or learning, found queued"):
        move(task, Task.State.DONE, by="worker")
    assert Task.objects.get(pk=task.pk).state == "queued"
    assert not AuditEntry.objects.exists()


def test_of_two_that_move_a_row_the_second_is_told(project: Project) -> None:
    task = make_task(project)
    stale = Task.objects.get(pk=task.pk)
    move(task, Task.State.CANCELLED, by="user:alice")
    with pytest.raises(IllegalMoveError, match="found cancelled"):
        move(stale, Task.State.WORKING, by="worker")


def test_a_move_tells_from_where_the_row_was_moved_not_what_was_read_of_it_before(project: Project) -> None:
    task = make_task(project)
    stale = Task.objects.get(pk=task.pk)
    move(task, Task.State.WORKING, by="worker")
    move(stale, Task.State.CANCELLED, by="user:alice")
    assert [entry.payload for entry in AuditEntry.objects.order_by("pk")] == [
        {"from": "queued", "to": "working"},
        {"from": "working", "to": "cancelled"},
    ]
    assert Task.objects.get(pk=task.pk).state == stale.state == "cancelled"
