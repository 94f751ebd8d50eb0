import threading
from collections.abc import Mapping

from gpu_workers.heartbeat import Heartbeat


def test_it_beats_at_once_and_says_the_latest_metrics() -> None:
    heard: list[Mapping[str, float]] = []
    twice = threading.Event()

    def send(metrics: Mapping[str, float]) -> None:
        heard.append(metrics)
        if metrics.get("update") == 2:
            twice.set()

    with Heartbeat(send, interval_s=0.001) as heartbeat:
        heartbeat.note({"update": 1})
        heartbeat.note({"update": 2})
        assert twice.wait(120)
    count = len(heard)
    assert heard[-1] == {"update": 2}
    assert len(heard) == count


def test_a_broker_that_is_away_stops_neither_the_beat_nor_the_work() -> None:
    calls = 0
    again = threading.Event()

    def fail(metrics: Mapping[str, float]) -> None:
        nonlocal calls
        calls += 1
        if calls > 2:
            again.set()
        raise ConnectionError("no broker")

    with Heartbeat(fail, interval_s=0.001):
        assert again.wait(120)
