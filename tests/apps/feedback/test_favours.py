"""Reviewers of a project who favour a worker: what is read, what is kept, who is told, and what a person decides."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import Member, Project, Role, User
from apps.audit.models import AuditEntry
from apps.base.errors import BadInputError, ConflictError, NotAllowedError, NotFoundError
from apps.calibration.favours import dismiss_group
from apps.calibration.models import Comparison, FavourScreen, Rater
from apps.calibration.selectors import weights_of
from apps.calibration.services import (
    JudgedRow,
    Sitting,
    forget_judgements,
    quarantine,
    record_comparisons,
    reinstate,
)
from apps.erasure.records import forget_person
from apps.feedback.favours import EXAMPLES, load_said, screen_oldest, screen_project
from apps.feedback.models import Feedback
from apps.tasks.models import Task
from tests.apps.feedback.reviewers import COLLUDERS, HONEST, TASKS_EACH, build_colluders, say
from tests.factories import make_project, make_user

pytestmark = pytest.mark.django_db
NAMED = [f"user:{name}" for name in COLLUDERS]


def find_favour(kept: FavourScreen) -> dict[str, object]:
    [group] = kept.groups
    return dict(group)


def test_two_who_push_a_worker_are_named_with_the_worker_and_its_tasks(project: Project, alice: User) -> None:
    tasks = build_colluders(project)
    group = find_favour(screen_project(project=project, by=alice))
    assert (group["raters"], group["line"], group["share"]) == (NAMED, "bad", 1.0)
    assert group["tasks"] == 2 * TASKS_EACH
    assert group["expected"] == pytest.approx(3 / TASKS_EACH)
    assert group["examples"] == [task.pk for task in tasks[:TASKS_EACH]][::-1][:EXAMPLES]


def test_the_audit_tells_of_a_group_once_and_it_keeps_its_time(project: Project, alice: User) -> None:
    build_colluders(project)
    first = find_favour(screen_project(project=project, by=alice))
    again = find_favour(screen_project(project=project, by=alice))
    assert again["found_at"] == first["found_at"]
    told = AuditEntry.objects.filter(kind="favour.suspected")
    assert [(entry.actor, entry.payload["raters"]) for entry in told] == [("user:alice", NAMED)]


def test_honest_reviewers_are_not_named(project: Project, alice: User) -> None:
    build_colluders(project, favour=False)
    assert screen_project(project=project, by=alice).groups == []
    assert not AuditEntry.objects.filter(kind="favour.suspected").exists()


def test_of_three_reviewers_it_is_said_that_nothing_can_be_told(project: Project, alice: User) -> None:
    build_colluders(project)
    Feedback.objects.exclude(author__in=["user:cleo", *NAMED]).delete()
    kept = screen_project(project=project, by=alice)
    assert kept.groups == []
    assert kept.reason.endswith("found 3")


def test_reading_costs_the_same_however_much_was_said(project: Project) -> None:
    tasks = build_colluders(project, tasks=3)
    with CaptureQueriesContext(connection) as few:
        load_said(project)
    for task in tasks:
        say(task, "zoe", 1.0)
    with CaptureQueriesContext(connection) as many:
        said = load_said(project)
    assert len(many) == len(few) == 4
    assert len(said.words) == len(tasks) * (len(HONEST) + len(COLLUDERS) + 1)


def test_what_was_taken_back_imported_or_guessed_is_not_looked_at(project: Project) -> None:
    task = build_colluders(project, tasks=1)[0]
    before = len(load_said(project).words)
    say(task, "zoe", 1.0).delete()
    for source in ("imported", "implicit"):
        Feedback.objects.create(project=project, task=task, source=source, author="user:zoe", score=1.0)
    Feedback.objects.create(project=project, task=task, source="ai", author="agent:rule-book", score=1.0)
    assert len(load_said(project).words) == before + 1


def test_the_last_word_of_a_reviewer_on_an_answer_counts(project: Project) -> None:
    task = build_colluders(project, tasks=1)[0]
    say(task, "cleo", 1.0)
    say(task, "cleo", 0.0)
    [word] = [one for one in load_said(project).words if (one.rater, one.task) == ("user:cleo", task.pk)]
    assert not word.approves


def test_known_answers_are_told_apart(project: Project) -> None:
    task = build_colluders(project, tasks=1)[0]
    attempt = task.attempts.get()
    rows = [JudgedRow(attempt.pk, None, 1.0, 0.0, "gold")]
    record_comparisons(project_id=project.pk, sittings=[Sitting("user:cleo", "person", rows)])
    assert load_said(project).known == {(attempt.pk, None): False}


def test_nothing_crosses_projects(project: Project, alice: User) -> None:
    build_colluders(project)
    other = make_project("other")
    assert load_said(other).words == []
    with pytest.raises(NotFoundError):
        screen_project(project=project, by=make_user("stranger"))


def test_a_reviewer_may_not_look(project: Project) -> None:
    build_colluders(project, tasks=1)
    with pytest.raises(NotAllowedError):
        screen_project(project=project, by=User.objects.get(username="cleo"))


def test_the_timetable_looks_at_each_project_once_a_day(project: Project) -> None:
    make_project("archived", archived_at=project.created_at)
    assert screen_oldest() == 1
    kept = FavourScreen.objects.get()
    assert (kept.project, kept.raters) == (project, 0)
    assert screen_oldest() == 0
    FavourScreen.objects.update(screened_at=kept.screened_at - timedelta(days=2))
    assert screen_oldest() == 1


def test_a_manager_quarantines_one_of_them_and_only_a_person_ends_it(project: Project, alice: User) -> None:
    build_colluders(project)
    screen_project(project=project, by=alice)
    rater = quarantine(project=project, handle="user:hugo", reason="pushes bad", by=alice)
    assert weights_of(project.pk, ["user:hugo"]) == {"user:hugo": 0.0}
    assert (rater.kind, rater.quarantined_by) == ("person", "user:alice")
    with pytest.raises(ConflictError, match="is quarantined already"):
        quarantine(project=project, handle="user:hugo", reason="again", by=alice)
    entry = AuditEntry.objects.filter(kind="rater.weighed").latest("id")
    assert (entry.payload["reason"], entry.payload["quarantined"]) == ("pushes bad", True)
    again = reinstate(project=project, handle="user:hugo", reason="it was agreed", by=alice)
    assert (again.quarantined_at, again.quarantined_by) == (None, "")


def test_a_machine_that_a_person_quarantined_does_not_come_back_by_itself(project: Project, alice: User) -> None:
    """A person found it, not its errors: being right is no reason to use it again."""
    attempt = build_colluders(project, tasks=1)[0].attempts.get()
    rows = [JudgedRow(attempt.pk, None, 1.0, 1.0, "verified")]
    record_comparisons(project_id=project.pk, sittings=[Sitting("agent:rule-book", "ai", rows)])
    quarantine(project=project, handle="agent:rule-book", reason="copies hugo", by=alice)
    rows = [JudgedRow(attempt.pk, None, 1.0, 1.0, "gold")]
    record_comparisons(project_id=project.pk, sittings=[Sitting("agent:rule-book", "ai", rows)])
    assert Rater.objects.get(handle="agent:rule-book").quarantined_at is not None
    forget_judgements(project_id=project.pk, handle="agent:rule-book", attempt_ids=[attempt.pk])
    assert Rater.objects.get(handle="agent:rule-book").quarantined_at is not None


def test_nobody_is_quarantined_who_never_judged_or_by_themselves_or_by_a_reviewer(
    project: Project, alice: User
) -> None:
    build_colluders(project, tasks=1)
    with pytest.raises(NotFoundError, match="no rater user:nobody in shop"):
        quarantine(project=project, handle="user:nobody", reason="x", by=alice)
    with pytest.raises(BadInputError, match="somebody else"):
        quarantine(project=project, handle="user:alice", reason="x", by=alice)
    with pytest.raises(NotAllowedError):
        quarantine(project=project, handle="user:hugo", reason="x", by=User.objects.get(username="cleo"))


def test_a_group_is_dismissed_with_a_reason_that_stays_and_never_by_one_of_it(project: Project, alice: User) -> None:
    build_colluders(project)
    key = str(find_favour(screen_project(project=project, by=alice))["key"])
    hugo = User.objects.get(username="hugo")
    Member.objects.filter(user=hugo).update(role=Role.MANAGER)
    with pytest.raises(BadInputError, match="somebody else"):
        dismiss_group(project=project, key=key, reason="nothing to see", by=hugo)
    with pytest.raises(NotFoundError, match="no group nonsense in shop"):
        dismiss_group(project=project, key="nonsense", reason="x", by=alice)
    dismiss_group(project=project, key=key, reason="they wrote the style guide", by=alice)
    again = find_favour(screen_project(project=project, by=alice))
    assert (again["dismissed_by"], again["dismiss_reason"]) == ("user:alice", "they wrote the style guide")
    assert AuditEntry.objects.filter(kind="favour.dismissed").get().payload["raters"] == NAMED


def test_who_is_forgotten_is_in_no_example_that_a_later_look_gives(project: Project, alice: User) -> None:
    tasks = build_colluders(project)
    Task.objects.filter(pk=tasks[TASKS_EACH - 1].pk).update(prompt="Ticket of Mrs Forgotten")
    before = find_favour(screen_project(project=project, by=alice))
    assert tasks[TASKS_EACH - 1].pk in before["examples"]  # type: ignore[operator]
    Member.objects.filter(user=alice).update(role=Role.OWNER)
    forget_person(project=project, by=alice, text="Mrs Forgotten")
    assert not Comparison.objects.filter(attempt__task=tasks[TASKS_EACH - 1]).exists()
    after = find_favour(screen_project(project=project, by=alice))
    assert tasks[TASKS_EACH - 1].pk not in after["examples"]  # type: ignore[operator]
