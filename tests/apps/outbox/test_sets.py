"""Links of sets: claimed, done and ended together, and nobody is hurt by what another of the set breaks on."""

from collections.abc import Iterator, Sequence

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from apps.accounts.models import Project
from apps.base.errors import BadInputError
from apps.outbox import links, relay, services
from apps.outbox.kinds import KINDS, Chain
from apps.outbox.links import LINKS, run_claim, run_links
from apps.outbox.models import Segment
from apps.outbox.places import Kept
from tests.factories import make_project

POISON = 3
ENDED: list[int] = []
DONE: list[Sequence[int]] = []


def note(subject_ids: Sequence[int]) -> None:
    """A link that does sets, but for the poison."""
    if POISON in subject_ids:
        raise BadInputError("wanted food, found poison")
    with services.final_write(subject_ids) as kept:
        DONE.append(sorted(kept))


@pytest.fixture(autouse=True)
def kind() -> Iterator[None]:
    """A kind of two links, one process for both; evens go together, and so do odds."""
    for known in (ENDED, DONE):
        known.clear()
    KINDS["sets"] = Chain(
        links=("tasks.first", "scoring.second"),
        together=lambda ids: [found for rest in (0, 1) if (found := [one for one in ids if one % 2 == rest])],
        then=ENDED.extend,
    )
    LINKS.update({"tasks.first": note, "scoring.second": note})
    links.served.update({"workers", "scorers"})
    yield
    links.served.clear()
    for name in ("tasks.first", "scoring.second"):
        del LINKS[name]
    del KINDS["sets"]
    relay.purge_queue("workers")


def start(*subjects: int) -> list[int]:
    services.start_many("sets", [(subject, None) for subject in subjects])
    return list(Segment.objects.filter(subject_id__in=subjects).order_by("id").values_list("pk", flat=True))


def states() -> dict[int, str]:
    return dict(Segment.objects.values_list("subject_id", "state"))


def count(act: object) -> int:
    assert callable(act)
    with CaptureQueriesContext(connection) as asked:
        act()
    return len(asked)


def test_a_set_goes_all_its_way_in_one_process_and_in_as_many_statements_as_one(db: None) -> None:
    one, many = start(2), start(4, 6, 8)
    assert count(lambda: run_links(one, 0)) == count(lambda: run_links(many, 0))
    assert DONE == [[2], [2], [4, 6, 8], [4, 6, 8]]
    assert ENDED == [2, 4, 6, 8]
    assert set(states().values()) == {"done"}


def test_what_breaks_one_of_a_set_hurts_nothing_else_of_it(db: None) -> None:
    pks = start(1, POISON, 5)
    run_links(pks, 0)
    rows = Segment.objects.order_by("subject_id")
    assert [(row.state, row.fence, row.attempts, row.errors) for row in rows] == [("open", None, 1, [])] * 3
    for pk in pks:
        run_links([pk], 0)
    assert states() == {1: "done", POISON: "dead", 5: "done"}
    assert ENDED == [1, 5]


def test_what_was_cancelled_or_taken_over_of_a_set_is_not_written(db: None) -> None:
    claim = services.claim_links(start(2, 4, 6), 0, owner="slow")
    assert claim is not None
    services.cancel_segments("sets", subject_ids=[4])
    Segment.objects.filter(subject_id=6).update(lease_until=Now())
    assert services.claim_links(list(claim.subjects), 0, owner="fresh") is not None
    held = run_claim(note, claim)
    assert DONE == [[2]]
    assert list(held.ended.values()) == [2]


@pytest.mark.django_db(transaction=True)
def test_due_segments_are_sent_as_sets_and_what_failed_before_alone(project: Project, settings: Settings) -> None:
    sent: list[list[int]] = []
    pks = start(1, 2, 4, 5, 6)
    Segment.objects.filter(subject_id=6).update(attempts=1)
    by_pk = dict(Segment.objects.values_list("pk", "subject_id"))
    kept = Kept("sets", 0, None, len(pks))
    rows = list(Segment.objects.order_by("id"))
    for message in relay.bundle(kept, rows):
        assert (message.link, message.position) == ("tasks.first", 0)
        sent.append([by_pk[pk] for pk in message.segment_ids])
    assert sorted(sent) == [[1, 5], [2, 4], [6]]
    assert relay.publish_due() == 5
    assert relay.count_waiting(["workers"]) == {"workers": 3}


@pytest.mark.django_db(transaction=True)
def test_a_set_waits_until_it_is_as_large_as_what_is_under_way(project: Project) -> None:
    sent = []
    for subject in (2, 4, 6, 8, 10):
        services.start("sets", subject_id=subject, project_id=project.pk)
        sent.append(relay.publish_due())
    assert sent == [1, 1, 0, 2, 0]
    services.start("sets", subject_id=1, project_id=project.pk)
    assert relay.publish_due() == 2, "what cannot go with them is held up by none"
    assert relay.count_waiting(["workers"]) == {"workers": 5}


@pytest.mark.django_db(transaction=True)
def test_a_set_takes_one_place_however_many_it_is(project: Project, settings: Settings) -> None:
    settings.TENTALIS = settings.TENTALIS | {
        "QUEUE_PROCESSES": [(["workers", "scorers"], "threads", 4)],
        "IN_FLIGHT_CAP": 4,
    }
    other = make_project("other")
    for asker, subjects in ((project, range(0, 40, 2)), (project, (1, 3)), (other, (50, 52)), (other, (51, 53))):
        services.start_many("sets", [(subject, asker.pk) for subject in subjects])
        relay.publish_due()
    assert relay.count_waiting(["workers"]) == {"workers": 3}, "two of four to one project, one to the next, one free"
    sent = (
        Segment.objects.filter(published_at__isnull=False).order_by("subject_id").values_list("subject_id", flat=True)
    )
    assert list(sent) == sorted([*range(0, 40, 2), 1, 3, 50, 52])
    assert Segment.objects.values("published_at").exclude(published_at=None).distinct().count() == 3


def test_where_another_process_serves_the_next_link_it_is_sent_a_message(db: None) -> None:
    links.served.discard("scorers")
    run_links(start(2, 4), 0)
    assert relay.count_waiting(["scorers"]) == {"scorers": 1}
    relay.purge_queue("scorers")
    assert list(Segment.objects.values_list("position", "fence", "attempts")) == [(1, None, 0)] * 2
