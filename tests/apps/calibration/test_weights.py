"""Weights that follow comparisons: once each, audited, safe when many compare at once."""

import random
import threading
from collections.abc import Sequence

import pytest
from django.db import connection, connections
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import Project, User
from apps.audit.models import AuditEntry
from apps.base.errors import BadInputError, NotAllowedError, NotFoundError
from apps.calibration.errors import NotQuarantinedError
from apps.calibration.models import Comparison, Rater
from apps.calibration.selectors import is_quarantined, weights_of
from apps.calibration.services import JudgedRow, Sitting, forget_judgements, record_comparisons, reinstate
from apps.tasks.models import Attempt
from tests.apps.feedback.builders import make_chat_task
from tests.factories import make_project, make_user


def make_attempts(project: Project, count: int) -> list[Attempt]:
    sizes = [min(64, count - start) for start in range(0, count, 64)]
    tasks = [make_chat_task(project, [f"answer {index}" for index in range(size)]) for size in sizes]
    return [attempt for task in tasks for attempt in task.attempts.all()]


def note(project: Project, rows: Sequence[JudgedRow], *, handle: str = "user:bob", kind: str = "person") -> Rater:
    record_comparisons(project_id=project.pk, sittings=[Sitting(handle, kind, rows)])
    return Rater.objects.get(project=project, handle=handle)


def judge(attempt: Attempt, said: float, truth: float, source: str = "verified", **values: object) -> JudgedRow:
    return JudgedRow(attempt.pk, None, said, truth, source, **values)  # type: ignore[arg-type]


def make_hostile(project: Project, *, handle: str = "user:bob", kind: str = "person", items: int = 24) -> Rater:
    """A rater who said the opposite of everything, an item a sitting."""
    for index, attempt in enumerate(make_attempts(project, items)):
        note(project, [judge(attempt, index % 2, 1 - index % 2)], handle=handle, kind=kind)
    return Rater.objects.get(project=project, handle=handle)


def test_a_replay_counts_once(project: Project) -> None:
    first, second = make_attempts(project, 2)
    rows = [judge(first, 0.9, 0.0), judge(second, 0.8, 1.0)]
    before = note(project, rows)
    again = note(project, rows)
    assert (again.audited, again.errors, again.sittings, again.weight) == (2, 1, 1, before.weight)
    assert 0.7 < again.weight < 1.0
    assert Comparison.objects.count() == 2


def test_a_peers_word_is_kept_and_weighs_nothing(project: Project) -> None:
    (attempt,) = make_attempts(project, 1)
    rater = note(project, [judge(attempt, 1.0, 0.0, "peer", against="user:alice")])
    assert (rater.weight, rater.audited) == (1.0, 0)
    assert not Comparison.objects.get().counts


def test_a_comparison_takes_four_statements_whatever_its_rows(project: Project) -> None:
    attempts = make_attempts(project, 9)
    note(project, [judge(attempts[0], 1.0, 1.0)])
    for rows in (attempts[1:2], attempts[2:]):
        with CaptureQueriesContext(
            connection,
        ) as queries:
            sitting = Sitting("user:bob", "person", [judge(one, 1.0, 1.0) for one in rows])
            record_comparisons(project_id=project.pk, sittings=[sitting])
        said = [query["sql"] for query in queries if "SAVEPOINT" not in query["sql"]]
        assert len(said) == 4, said


def test_weights_are_told_for_every_handle_and_the_quarantined_count_nothing(project: Project) -> None:
    make_hostile(project)
    with CaptureQueriesContext(connection) as queries:
        found = weights_of(project.pk, ["user:bob", "user:alice", "user:bob"])
    assert found == {"user:bob": 0.0, "user:alice": 1.0}
    assert len(queries) == 1
    assert is_quarantined(project.pk, "user:bob")
    assert not is_quarantined(project.pk, "user:alice")
    assert weights_of(make_project("other").pk, ["user:bob"]) == {"user:bob": 1.0}


def test_the_audit_tells_of_noticeable_moves_and_of_quarantine(project: Project) -> None:
    rater = make_hostile(project)
    entries = list(AuditEntry.objects.filter(kind="rater.weighed").order_by("id"))
    assert rater.quarantined_at is not None
    assert rater.weight < 0.1
    assert [entry.payload["quarantined"] for entry in entries] == [False] * (len(entries) - 1) + [True]
    assert 3 <= len(entries) <= 12  # not one an item
    assert all(
        entry.payload["quarantined"] or abs(entry.payload["before"] - entry.payload["after"]) >= 0.1
        for entry in entries
    )
    assert {(entry.subject_type, entry.subject_id, entry.actor) for entry in entries} == {
        ("rater", rater.pk, "calibration")
    }


def test_one_slip_in_one_sitting_quarantines_nobody(project: Project) -> None:
    rater = note(project, [judge(attempt, 1.0, 0.0) for attempt in make_attempts(project, 30)])
    assert rater.quarantined_at is None
    assert rater.audited == 30


def test_a_manager_reinstates_a_quarantined_person_and_its_past_counts_no_more(project: Project, alice: User) -> None:
    make_hostile(project)
    rater = reinstate(project=project, handle="user:bob", reason="The rubric was ambiguous.", by=alice)
    assert (rater.weight, rater.quarantined_at, rater.audited) == (1.0, None, 0)
    entry = AuditEntry.objects.filter(kind="rater.weighed").latest("id")
    assert (entry.actor, entry.payload["reinstated"]) == ("user:alice", "The rubric was ambiguous.")
    (attempt,) = make_attempts(project, 1)
    again = note(project, [judge(attempt, 1.0, 1.0)])
    assert (again.weight, again.audited) == (1.0, 1)
    forget_judgements(project_id=project.pk, handle="user:bob", attempt_ids=[attempt.pk])  # counts all anew
    assert Rater.objects.get(pk=rater.pk).audited == 0


def test_who_may_reinstate_whom(project: Project, alice: User, bob: User, charlie: User) -> None:
    make_hostile(project, handle="user:alice")
    with pytest.raises(NotAllowedError):
        reinstate(project=project, handle="user:alice", reason="I say so.", by=bob)
    with pytest.raises(NotFoundError):
        reinstate(project=project, handle="user:alice", reason="I say so.", by=charlie)
    with pytest.raises(BadInputError, match="somebody else"):
        reinstate(project=project, handle="user:alice", reason="I say so.", by=alice)
    with pytest.raises(BadInputError, match="found 0"):
        reinstate(project=project, handle="user:alice", reason="  ", by=alice)
    with pytest.raises(NotFoundError, match="no rater user:eve"):
        reinstate(project=project, handle="user:eve", reason="Who?", by=alice)
    note(project, [judge(make_attempts(project, 1)[0], 1.0, 1.0)])
    with pytest.raises(NotQuarantinedError):
        reinstate(project=project, handle="user:bob", reason="Why not?", by=alice)


@pytest.mark.thorough
def test_a_machine_that_is_good_again_comes_back_by_itself_and_a_person_does_not(project: Project) -> None:
    for handle, kind, is_back in (("scorer:prm", "scorer", True), ("user:bob", "person", False)):
        make_hostile(project, handle=handle, kind=kind)
        for index, attempt in enumerate(make_attempts(project, 700)):
            note(project, [judge(attempt, index % 2, index % 2)], handle=handle, kind=kind)
            if Rater.objects.get(handle=handle).weight > 0.6:
                break
        rater = Rater.objects.get(handle=handle)
        assert rater.weight > 0.6
        assert (rater.quarantined_at is None) == is_back


def test_what_is_taken_back_is_forgotten_by_all_it_was_held_against(project: Project) -> None:
    first, second = make_attempts(project, 2)
    note(project, [judge(first, 1.0, 0.0), judge(second, 1.0, 1.0)])
    note(project, [judge(first, 1.0, 0.0, "human", against="user:bob")], handle="scorer:prm", kind="scorer")
    forget_judgements(project_id=project.pk, handle="user:bob", attempt_ids=[first.pk])
    bob, prm = Rater.objects.get(handle="user:bob"), Rater.objects.get(handle="scorer:prm")
    assert (bob.audited, bob.errors, bob.weight) == (1, 0, 1.0)
    assert (prm.audited, prm.weight) == (0, 1.0)
    forget_judgements(project_id=project.pk, handle="user:nobody", attempt_ids=[first.pk])


def test_counted_anew_from_what_is_kept_the_weight_is_the_same(project: Project) -> None:
    rng = random.Random(9)
    attempts = make_attempts(project, 60)
    for place in range(0, 60, 3):
        truth = float(rng.random() < 0.5)
        rows = [judge(one, truth if rng.random() < 0.8 else 1 - truth, truth) for one in attempts[place : place + 3]]
        before = note(project, rows)
    forget_judgements(project_id=project.pk, handle="user:bob", attempt_ids=[])
    after = Rater.objects.get(handle="user:bob")
    assert after.weight == pytest.approx(before.weight)
    assert (after.audited, after.errors, after.sittings) == (60, before.errors, 20)


@pytest.mark.thorough
@pytest.mark.django_db(transaction=True)
def test_eight_at_once_lose_no_item() -> None:
    project = make_project()
    make_user("alice")
    attempts = make_attempts(project, 64)
    errors: list[Exception] = []

    def work(place: int) -> None:
        try:
            for index in range(place, 64, 8):
                # every item is noted by two threads: once as itself, once as a replay
                for one in (attempts[index], attempts[(index + 1) % 64]):
                    for handle in ("scorer:prm", "user:bob") if place % 2 else ("user:bob", "scorer:prm"):
                        sitting = Sitting(handle, "person", [judge(one, 1.0, float(one.pk % 2))])
                        record_comparisons(project_id=project.pk, sittings=[sitting])
        except Exception as error:
            errors.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=work, args=(place,)) for place in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    for rater in Rater.objects.all():
        assert (rater.audited, rater.errors) == (64, sum(one.pk % 2 == 0 for one in attempts))
    assert Comparison.objects.count() == 128
