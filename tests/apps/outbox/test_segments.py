"""Durable work: what is started is done once, whoever dies on the way."""

import subprocess
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta
from uuid import uuid4

import pytest
from celery import Celery
from django.db import connection, transaction
from django.db.models.functions import Now
from pytest_django import Settings

from apps.accounts.models import Project
from apps.audit.models import AuditEntry
from apps.base.errors import BadInputError
from apps.outbox import relay, services
from apps.outbox.errors import BrokerAwayError, LostClaimError
from apps.outbox.kinds import FATES, KINDS, Chain, Fate, queue_of
from apps.outbox.links import HOST, OWNER
from apps.outbox.models import Segment
from tentalis.platform.processes import process_identity
from tests.links import run_link, take_link

ENDED: list[int] = []
BURIED: list[tuple[int, str, str]] = []


@pytest.fixture(autouse=True)
def errand() -> Iterator[None]:
    """A kind of two links on two queues."""
    ENDED.clear()
    BURIED.clear()
    KINDS["errand"] = Chain(links=("tasks.first", "scoring.second"), then=ENDED.extend)
    FATES["errand"] = Fate(on_dead=lambda pk, *, link, reason, by: BURIED.append((pk, link, reason)))
    yield
    del KINDS["errand"], FATES["errand"]


@pytest.fixture
def segment(db: None) -> Segment:
    return start()


def start(subject_id: int = 7) -> Segment:
    services.start("errand", subject_id=subject_id, project_id=None)
    return Segment.objects.get(kind="errand", subject_id=subject_id)


def fetch(segment: Segment) -> Segment:
    return Segment.objects.get(pk=segment.pk)


def do_nothing(subject_id: int) -> None:
    """A link with no effects."""


def test_a_started_segment_waits_in_the_outbox_for_the_queue_of_its_first_link(segment: Segment) -> None:
    assert (segment.state, segment.position, segment.queue, segment.published_at) == ("open", 0, "workers", None)
    assert queue_of("scoring.second") == "scorers"


def test_starting_a_subject_twice_starts_it_once(segment: Segment) -> None:
    assert start().pk == segment.pk


def test_a_segment_rolled_back_with_its_change_was_never_started(db: None) -> None:
    with pytest.raises(RuntimeError), transaction.atomic():
        start()
        raise RuntimeError
    assert not Segment.objects.exists()


def test_links_done_in_order_end_the_segment_and_say_so_once(segment: Segment) -> None:
    run_link(do_nothing, segment.pk, 0)
    assert (fetch(segment).position, fetch(segment).queue, ENDED) == (1, "scorers", [])
    run_link(do_nothing, segment.pk, 1)
    assert (fetch(segment).state, ENDED) == ("done", [7])


def test_a_doubled_message_finds_nothing_to_do(segment: Segment) -> None:
    calls: list[int] = []
    run_link(calls.append, segment.pk, 0)
    for position in (0, 0, 5):
        assert not run_link(calls.append, segment.pk, position)
    assert calls == [7]


def test_while_one_process_holds_the_link_another_cannot_take_it(segment: Segment) -> None:
    assert services.claim_links([segment.pk], 0, owner="a") is not None
    assert services.claim_links([segment.pk], 0, owner="b") is None


def test_work_of_a_frozen_process_is_thrown_away_when_another_took_over(project: Project, segment: Segment) -> None:
    frozen = services.claim_links([segment.pk], 0, owner="frozen")
    Segment.objects.filter(pk=segment.pk).update(lease_until=Now() - timedelta(seconds=1))
    fresh = services.claim_links([segment.pk], 0, owner="fresh")
    assert frozen is not None
    assert fresh is not None
    with services.hold(services.Hold(fresh)), services.final_write():
        pass
    with pytest.raises(LostClaimError), services.hold(services.Hold(frozen)), services.final_write():
        Project.objects.filter(pk=project.pk).update(name="written by a ghost")
    assert Project.objects.get(pk=project.pk).name == "Shop"
    assert fetch(segment).position == 1


def test_one_statement_of_a_lost_claim_changes_nothing(project: Project, segment: Segment) -> None:
    rename = "none AS (SELECT) UPDATE accounts_project SET name = %s WHERE id = %s AND EXISTS (SELECT FROM held)"
    claim = take_link(segment.pk, 0)
    with services.hold(services.Hold(claim)):
        services.execute_held(rename, ["held", project.pk])
    Segment.objects.filter(pk=segment.pk).update(fence=uuid4())
    with pytest.raises(LostClaimError), services.hold(services.Hold(claim)):
        services.execute_held(rename, ["by a ghost", project.pk])
    assert Project.objects.get(pk=project.pk).name == "held"


def test_effects_and_the_end_of_a_link_commit_together_or_not_at_all(project: Project, segment: Segment) -> None:
    def write_and_break(subject_id: int) -> None:
        with services.final_write():
            Project.objects.filter(pk=project.pk).update(name="half")
            raise RuntimeError("the disk is gone")

    assert not run_link(write_and_break, segment.pk, 0)
    assert Project.objects.get(pk=project.pk).name == "Shop"
    found = fetch(segment)
    assert (found.position, found.fence, found.published_at) == (0, None, None)
    assert found.errors[0]["message"] == "the disk is gone"


def test_a_link_that_keeps_failing_becomes_a_dead_letter_with_every_reason(
    segment: Segment, settings: Settings
) -> None:
    settings.TENTALIS = settings.TENTALIS | {"MAX_ATTEMPTS": 3, "RETRY_BASE_SECONDS": 0.0}

    def break_down(subject_id: int) -> None:
        raise RuntimeError(f"no {subject_id}")

    for _ in range(3):
        assert not run_link(break_down, segment.pk, 0)
    found = fetch(segment)
    assert (found.state, len(found.errors)) == ("dead", 3)
    assert BURIED == [(7, "tasks.first", "RuntimeError: no 7")]
    assert AuditEntry.objects.filter(kind="segment.died", subject_id=segment.pk).count() == 1


def test_an_error_that_trying_again_cannot_mend_is_not_tried_again(segment: Segment) -> None:
    def refuse(subject_id: int) -> None:
        raise BadInputError("wanted x, found y")

    assert not run_link(refuse, segment.pk, 0)
    assert (fetch(segment).state, fetch(segment).attempts) == ("dead", 1)


def test_a_reason_that_cannot_be_stored_as_it_is_is_kept_all_the_same(segment: Segment) -> None:
    def quote(subject_id: int) -> None:
        raise BadInputError("found \x00 and \ud800")

    assert not run_link(quote, segment.pk, 0)
    found = fetch(segment)
    assert (found.state, found.errors[-1]["message"]) == ("dead", "found \ufffd and \ufffd")
    assert BURIED == [(7, "tasks.first", "BadInputError: found \ufffd and \ufffd")]


def test_a_failed_link_waits_longer_each_time(settings: Settings) -> None:
    settings.TENTALIS = settings.TENTALIS | {"RETRY_BASE_SECONDS": 1.0}
    waits = [services.backoff_s(attempt) for attempt in (1, 3, 60)]
    assert 0.5 <= waits[0] <= 1.5
    assert 2.0 <= waits[1] <= 6.0
    assert waits[2] <= 450.0


def test_an_expired_lease_goes_back_to_the_outbox_and_counts(segment: Segment) -> None:
    services.claim_links([segment.pk], 0, owner="gone")
    Segment.objects.filter(pk=segment.pk).update(lease_until=Now() - timedelta(seconds=1), published_at=Now())
    assert relay.free_expired_leases() == 1
    found = fetch(segment)
    assert (found.fence, found.published_at, found.attempts, found.errors[0]["type"]) == (None, None, 1, "LeaseExpired")


def test_what_a_dead_process_of_this_host_held_goes_back_to_the_outbox_at_once_and_counts(db: None) -> None:
    """What a process held that runs, or of another host, stays held."""
    process = subprocess.Popen(["sleep", "600"])
    identity = process_identity(process.pid)
    ours = [start(number) for number in range(3)]
    for segment, owner in zip(ours, (f"box:{identity}", OWNER, f"far:{identity}"), strict=True):
        assert services.claim_links([segment.pk], 0, owner=owner) is not None
    try:
        assert relay.free_leases_of_dead("box") == 0
    finally:
        process.kill()
        process.wait()
    assert [relay.free_leases_of_dead(host) for host in (HOST, "box", "box")] == [0, 1, 0]
    freed, *kept = map(fetch, ours)
    assert (freed.fence, freed.published_at, freed.attempts) == (None, None, 1)
    assert (
        freed.errors[0] | {"type": "ProcessDied", "message": f"its process (box:{process.pid}) died"} == freed.errors[0]
    )
    assert all(segment.fence is not None for segment in kept)


def test_what_was_given_back_of_a_process_that_lives_after_all_is_refused(project: Project, segment: Segment) -> None:
    claim = services.claim_links([segment.pk], 0, owner="box:0:0")
    assert relay.free_leases_of_dead("box") == 1
    assert claim is not None
    with pytest.raises(LostClaimError), services.hold(services.Hold(claim)), services.final_write():
        Project.objects.filter(pk=project.pk).update(name="written by a ghost")
    assert Project.objects.get(pk=project.pk).name == "Shop"


def test_work_that_takes_its_process_along_every_time_ends_as_a_dead_letter(
    segment: Segment, settings: Settings
) -> None:
    settings.TENTALIS = settings.TENTALIS | {"MAX_ATTEMPTS": 2}
    for _ in range(2):
        assert services.claim_links([segment.pk], 0, owner="doomed") is not None
        Segment.objects.filter(pk=segment.pk).update(lease_until=Now() - timedelta(seconds=1))
        relay.free_expired_leases()
    assert fetch(segment).state == "dead"
    assert "died, froze or overran" in BURIED[0][2]


def test_one_that_cannot_be_buried_keeps_no_other_from_its_turn(
    db: None, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    def bury_all_but_the_first(pk: int, *, link: str, reason: str, by: str) -> None:
        BURIED.append((pk, link, reason))
        if pk == 0:
            Segment.objects.create(kind="errand", subject_id=1, links=[], queue="q")  # there is one: IntegrityError

    settings.TENTALIS = settings.TENTALIS | {"MAX_ATTEMPTS": 3}
    FATES["errand"] = Fate(on_dead=bury_all_but_the_first)
    stuck, doomed, lost = segments = [start(number) for number in range(3)]
    for segment in segments:
        assert services.claim_links([segment.pk], 0, owner="gone") is not None
    Segment.objects.exclude(pk=lost.pk).update(attempts=3)
    Segment.objects.update(lease_until=Now() - timedelta(seconds=1))
    assert relay.free_expired_leases() == 2
    assert [(fetch(one).state, fetch(one).fence is None) for one in segments] == [
        ("open", False),
        ("dead", True),
        ("open", True),
    ]
    assert f"tasks.first of errand {stuck.subject_id} cannot be buried" in caplog.text
    assert doomed.subject_id in {pk for pk, *_ in BURIED}


def test_a_dead_letter_replayed_starts_at_the_link_it_died_at(segment: Segment, settings: Settings) -> None:
    settings.TENTALIS = settings.TENTALIS | {"MAX_ATTEMPTS": 1}
    run_link(do_nothing, segment.pk, 0)

    def break_down(subject_id: int) -> None:
        raise RuntimeError

    assert not run_link(break_down, segment.pk, 1)
    services.replay(fetch(segment), by="user:alice")
    run_link(do_nothing, segment.pk, 1)
    assert (fetch(segment).state, ENDED) == ("done", [7])


def test_a_cancelled_segment_takes_the_claim_from_who_works_on_it(segment: Segment) -> None:
    claim = services.claim_links([segment.pk], 0, owner="busy")
    assert claim is not None
    assert services.cancel_segments("errand", subject_ids=[7]) == 1
    with pytest.raises(LostClaimError), services.hold(services.Hold(claim)), services.final_write():
        pass


@pytest.mark.django_db(transaction=True)
def test_of_many_threads_that_want_one_link_one_gets_it() -> None:
    segment = start()
    taken: list[str] = []
    gate = threading.Barrier(8)

    def take(owner: str) -> None:
        gate.wait()
        if services.claim_links([segment.pk], 0, owner=owner):
            taken.append(owner)
        connection.close()

    threads = [threading.Thread(target=take, args=(str(number),)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == 1


def read_leases() -> dict[int, datetime]:
    return {pk: until for pk, until in Segment.objects.values_list("pk", "lease_until") if until is not None}


@pytest.mark.django_db(transaction=True)
def test_leases_are_renewed_while_the_row_of_one_link_is_locked_by_another_transaction() -> None:
    """By whoever ends that link in a long transaction: everybody else's lease goes on meanwhile."""
    claims = [services.claim_links([start(subject).pk], 0, owner="us:1") for subject in (1, 2, 3)]
    held = [claim for claim in claims if claim is not None]
    Segment.objects.update(lease_until=Now() + timedelta(seconds=1))
    before = read_leases()
    locked, renewed = threading.Event(), threading.Event()

    def end_slowly() -> None:
        with transaction.atomic():
            Segment.objects.select_for_update().get(pk=next(iter(held[0].subjects)))
            locked.set()
            renewed.wait(120)
        connection.close()

    ending = threading.Thread(target=end_slowly)
    ending.start()
    try:
        assert locked.wait(120)
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '5s'")  # a wait for the row fails here
        assert services.find_lost(held) == []
        services.renew_leases(held)
        after = read_leases()
    finally:
        renewed.set()
        ending.join()
        with connection.cursor() as cursor:
            cursor.execute("RESET lock_timeout")
    assert [after[pk] > before[pk] for one in held for pk in one.subjects] == [False, True, True]
    services.renew_leases(held)
    assert read_leases()[next(iter(held[0].subjects))] > before[next(iter(held[0].subjects))]


@pytest.mark.django_db(transaction=True)
def test_the_relay_sends_no_more_than_the_cap_in_flight(settings: Settings) -> None:
    settings.TENTALIS = settings.TENTALIS | {"IN_FLIGHT_CAP": 3}
    relay.purge_queue("workers")
    for subject_id in range(5):
        start(subject_id)
    assert relay.publish_due() == 3
    assert relay.publish_due() == 0
    assert relay.count_waiting(["workers"]) == {"workers": 3}
    for position in (0, 1):
        run_link(do_nothing, Segment.objects.order_by("id")[0].pk, position)
    assert relay.publish_due() == 1
    relay.purge_queue("workers")


@pytest.mark.thorough
@pytest.mark.django_db(transaction=True)
def test_when_the_broker_is_away_work_stays_due() -> None:
    segment = start()
    nowhere = Celery("nowhere", broker="redis://127.0.0.1:1/0")
    with pytest.raises(BrokerAwayError):
        relay.publish_due(nowhere)
    assert fetch(segment).published_at is None


@pytest.mark.django_db(transaction=True)
def test_a_message_lost_with_the_broker_is_sent_again_and_a_backlog_is_not() -> None:
    relay.purge_queue("workers")
    segment = start()
    relay.publish_due()
    Segment.objects.filter(pk=segment.pk).update(published_at=Now() - timedelta(seconds=6))
    assert relay.resend_lost(grace_s=5) == 0, "it still waits in the queue"
    relay.purge_queue("workers")
    assert relay.resend_lost(grace_s=5) == 1
    assert fetch(segment).published_at is None
