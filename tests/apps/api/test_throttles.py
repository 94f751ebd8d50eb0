"""How often one may ask is counted for all processes together, and by each alone while Redis is away."""

import multiprocessing

import pytest
from pytest_django import Settings

from apps.base import counting
from apps.base.counting import Counter, forget_callers
from tests.edges.caller import Caller

NOON = 1_800_000_000.0  # a full minute


def take_some(name: str, count: int, taken: "multiprocessing.Queue[int]") -> None:
    counter = Counter()
    taken.put(sum(counter.take(name, 50, NOON) for _ in range(count)))


def test_several_processes_share_one_limit() -> None:
    forget_callers()
    context = multiprocessing.get_context("fork")
    taken: multiprocessing.Queue[int] = context.Queue()
    counting._connect.cache_clear()
    processes = [context.Process(target=take_some, args=("a", 30, taken)) for _ in range(4)]
    for process in processes:
        process.start()
    counts = [taken.get(timeout=30) for _ in processes]
    for process in processes:
        process.join()
    assert sum(counts) == 50


def test_the_window_slides_and_what_was_refused_does_not_count() -> None:
    forget_callers()
    counter = Counter()
    assert sum(counter.take("b", 10, NOON + 30) for _ in range(100)) == 10
    assert sum(counter.take("b", 10, NOON + 60 + 30) for _ in range(100)) == 5
    assert sum(counter.take("b", 10, NOON + 180) for _ in range(100)) == 10


def test_without_redis_a_process_counts_alone(settings: Settings) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    counting._connect.cache_clear()
    try:
        counter = Counter()
        assert sum(counter.take("c", 10, NOON) for _ in range(30)) == 10
    finally:
        counting._connect.cache_clear()


@pytest.mark.django_db
def test_another_address_in_a_header_is_no_way_round() -> None:
    forget_callers()
    body = {"username": "x", "password": "y"}
    statuses = [
        Caller("").send("POST", "login", body, headers={"X-Forwarded-For": f"203.0.113.{number}"}).status
        for number in range(12)
    ]
    assert statuses.count(401) == 10
    assert statuses[-2:] == [429, 429]
