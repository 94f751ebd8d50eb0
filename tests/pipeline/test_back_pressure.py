"""The cap in flight holds over all links of a segment, and no kind of segment starves another."""

from collections.abc import Iterator

import pytest
from pytest_django import Settings

from apps.outbox import relay, services
from apps.outbox.kinds import KINDS, Chain
from apps.outbox.models import Segment
from tests.links import run_link

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def kinds(settings: Settings) -> Iterator[None]:
    """Two kinds whose last links share a queue, three of each in flight."""
    settings.TENTALIS = settings.TENTALIS | {"IN_FLIGHT_CAP": 3}
    KINDS["long errand"] = Chain(links=("tasks.first", "scoring.second"))
    KINDS["short errand"] = Chain(links=("scoring.only",))
    yield
    for name in ("long errand", "short errand"):
        del KINDS[name]
    for queue in ("workers", "scorers"):
        relay.purge_queue(queue)


def do_nothing(subject_id: int) -> None:
    """A link with no effects."""


def start_long(count: int) -> None:
    for subject_id in range(count):
        services.start("long errand", subject_id=subject_id, project_id=None)


def test_work_that_moved_on_to_a_later_queue_still_counts_as_in_flight() -> None:
    start_long(5)
    assert relay.publish_due() == 3
    sent = list(Segment.objects.filter(published_at__isnull=False).order_by("id"))
    for segment in sent:
        run_link(do_nothing, segment.pk, 0)
    assert relay.publish_due() == 0
    run_link(do_nothing, sent[0].pk, 1)
    assert relay.publish_due() == 1


def test_a_backlog_of_one_kind_leaves_room_for_another_on_the_same_queue() -> None:
    start_long(5)
    relay.publish_due()
    for segment in Segment.objects.filter(published_at__isnull=False):
        run_link(do_nothing, segment.pk, 0)
    services.start("short errand", subject_id=1, project_id=None)
    assert relay.publish_due() == 1
