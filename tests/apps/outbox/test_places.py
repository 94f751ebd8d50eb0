"""Places at which links wait for servers: each project its share, and one is free for who comes next."""

from collections import Counter
from collections.abc import Iterator

import pytest
from django.db import transaction
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from apps.accounts.models import Project
from apps.outbox import relay, services
from apps.outbox.kinds import KINDS, SLOW_QUEUES, Chain, queue_of
from apps.outbox.links import LeaseKeeper
from apps.outbox.models import Segment
from apps.outbox.places import Kept, Places, find_pools
from apps.pipeline import flow  # noqa: F401 (registers the kinds)
from tentalis.outbound.scopes import CancelScope, RequestEndedError
from tests.factories import make_project
from tests.links import run_link

GROUPS = [(["workers", "scorers", "hints", "gates"], "threads", 8), (["control"], "threads", 2)]
POOL = frozenset(GROUPS[0][0])


@pytest.fixture
def slow(settings: Settings) -> Iterator[None]:
    """A kind that asks two servers and then nobody; eight places."""
    settings.TENTALIS = settings.TENTALIS | {"QUEUE_PROCESSES": GROUPS}
    KINDS["slow"] = Chain(links=("tasks.first", "scoring.second", "pipeline.third"))
    yield
    del KINDS["slow"]
    for queue in ("workers", "scorers", "control"):
        relay.purge_queue(queue)


def start(project: Project, count: int) -> None:
    services.start_many("slow", [(project.pk * 1000 + number, project.pk) for number in range(count)])


def sent(project: Project) -> list[Segment]:
    return list(Segment.objects.filter(project_id=project.pk, published_at__isnull=False, state="open").order_by("id"))


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_link_that_asks_servers_stands_before_those_that_ask_nobody(kind: str) -> None:
    """Places are given when a segment is sent out: behind a link that needs none, nobody would look again."""
    is_slow = [queue_of(link) in SLOW_QUEUES for link in KINDS[kind].names]
    assert is_slow == sorted(is_slow, reverse=True)


@pytest.mark.django_db(transaction=True)
def test_who_is_alone_gets_half_of_the_places_and_who_comes_later_finds_some(project: Project, slow: None) -> None:
    start(project, 20)
    assert relay.publish_due() == 4
    assert relay.publish_due() == 0
    for number, expected in enumerate((2, 1, 1)):
        other = make_project(f"other{number}")
        start(other, 20)
        relay.publish_due()
        assert len(sent(other)) == expected
    assert len(sent(project)) == 4


@pytest.mark.django_db(transaction=True)
def test_two_who_come_together_get_the_same(project: Project, slow: None) -> None:
    other = make_project("other")
    start(project, 20)
    start(other, 20)
    relay.publish_due()
    assert abs(len(sent(project)) - len(sent(other))) <= 1
    assert len(sent(project)) + len(sent(other)) < 8


@pytest.mark.django_db(transaction=True)
def test_a_place_is_held_over_all_links_that_ask_and_free_behind_them(project: Project, slow: None) -> None:
    start(project, 6)
    relay.publish_due()
    first = sent(project)[0]
    run_link(lambda subject_id: None, first.pk, 0)
    assert relay.publish_due() == 0
    run_link(lambda subject_id: None, first.pk, 1)
    assert relay.publish_due() == 1


@pytest.mark.django_db(transaction=True)
def test_a_cancelled_segment_gives_its_place_back_at_once(project: Project, slow: None) -> None:
    start(project, 6)
    relay.publish_due()
    held = sent(project)[0]
    assert services.claim_links([held.pk], 0, owner="busy") is not None
    with transaction.atomic():
        services.cancel_segments("slow", subject_ids=[held.subject_id])
    assert relay.publish_due() == 1


def test_groups_that_share_a_queue_are_one_pool(settings: Settings) -> None:
    groups = [
        (["workers"], "threads", 2),
        (["workers"], "threads", 3),
        (["scorers", "hints", "gates", "control"], "solo", 1),
    ]
    settings.TENTALIS = settings.TENTALIS | {"QUEUE_PROCESSES": groups}
    assert sorted(find_pools().values()) == [1, 5]
    assert find_pools()[frozenset({"workers"})] == 5


@given(
    places=st.integers(1, 40),
    demands=st.lists(st.integers(1, 60), min_size=1, max_size=8),
)
def test_whatever_is_wanted_no_place_is_given_twice_and_the_greediest_leaves_the_next_one_room(
    places: int, demands: list[int]
) -> None:
    taken = Places({POOL: places})
    held = []
    for project_id, demand in enumerate(demands):
        granted = taken.share_out([Kept("work", 0, project_id, demand)], room={"work": 1000})
        held.append(granted.total())
    assert sum(held) <= places
    assert held[0] == min(demands[0], (places + 1) // 2)
    if len(demands) > 1 and places > 1:
        assert held[1] >= 1
    at_once = Places({POOL: places}).share_out(
        [Kept("work", 0, project_id, demand) for project_id, demand in enumerate(demands)], room={"work": 1000}
    )
    counts = [at_once[Kept("work", 0, project_id, demand)] for project_id, demand in enumerate(demands)]
    assert sum(counts) <= places
    for mine, demand in zip(counts, demands, strict=True):
        assert mine == demand or mine >= max(counts) - 1, "who wants more has as much as anybody, or one less"


def test_more_projects_than_places_take_turns() -> None:
    """Each with more to do than is done here, and a place free again after each."""
    turns: dict[int | None, int] = {}
    served = list[Kept]()
    for _ in range(16):
        waiting = [Kept("work", 0, project_id, 9) for project_id in range(8)]
        served += Places({POOL: 2}, turns=turns).share_out(waiting, room={"work": 64}).elements()
    assert Counter(kept.project_id for kept in served) == dict.fromkeys(range(8), len(served) // 8)


@pytest.mark.django_db(transaction=True)
def test_a_link_whose_segment_was_cancelled_has_its_requests_ended(project: Project, slow: None) -> None:
    start(project, 2)
    mine, other = (
        claim for row in Segment.objects.order_by("id") if (claim := services.claim_links([row.pk], 0, owner="me"))
    )
    keeper, scopes = LeaseKeeper(), {mine.fence: CancelScope(), other.fence: CancelScope()}
    keeper.add(mine, scopes[mine.fence])
    keeper.add(other, scopes[other.fence])
    keeper.end_lost()
    assert not any(scope.is_cancelled for scope in scopes.values())
    with transaction.atomic():
        services.cancel_segments("slow", subject_ids=mine.subjects.values())
    keeper.end_lost()
    assert [scopes[one.fence].is_cancelled for one in (mine, other)] == [True, False]
    keeper.remove(mine.fence)
    keeper.remove(other.fence)


@pytest.mark.django_db(transaction=True)
def test_what_an_ended_request_raises_is_no_failure_of_the_link(project: Project, slow: None) -> None:
    start(project, 1)
    row = Segment.objects.get()

    def be_cancelled(subject_id: int) -> None:
        with transaction.atomic():
            services.cancel_segments("slow", subject_ids=[subject_id])
        raise RequestEndedError("hung up", is_late=False)

    assert not run_link(be_cancelled, row.pk, 0)
    row.refresh_from_db()
    assert (row.state, row.errors) == ("cancelled", [])
