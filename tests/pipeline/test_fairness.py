"""One project's slow server takes its share of the queue processes and no more, and a cancelled task takes nothing."""

from functools import partial

import pytest

from tests.fakes import FakeModelServer
from tests.pipeline.line import Line, wait_until

pytestmark = [pytest.mark.broker, pytest.mark.slow]

THREADS = 8
ROUNDS = 3
HELD = 4
"""Of eight places half is one project's while it is alone."""


def has_been_asked(server: FakeModelServer, times: int) -> bool | None:
    return len(server.requests) >= times or None


def test_a_silent_server_holds_up_its_own_project_and_a_cancelled_task_frees_its_place(line: Line) -> None:
    line.client.create("projects", {"slug": "noisy", "name": "Noisy", "group_size": 2}, key="noisy")
    with FakeModelServer(models=["chat"], mode="silent") as silent:
        line.make_provider("silent", silent.url)
        line.make_worker("waiting", provider="silent", project="noisy")
        given: list[int] = []
        for number in range(1, ROUNDS + 1):
            wanted = len(silent.requests) + HELD
            tasks = [line.submit(f"wait {number}", worker="waiting", project="noisy") for _ in range(THREADS + 1)]
            given += tasks
            wait_until(partial(has_been_asked, silent, wanted), f"round {number} waits for the server")
            beside = [line.submit(f"hello beside round {number}") for _ in range(3)]
            for task in beside:
                line.wait_for(task)
            assert {line.state_of(task) for task in tasks} == {"queued", "working"}, "none of them was in the way"
            for task in tasks:
                answer = line.client.send("POST", f"tasks/{task}/cancel", {})
                assert answer.status_code == 200, answer.text
    assert ROUNDS * HELD > THREADS, "places that were not freed would all be taken by now"
    [(state, count)] = line.ask("SELECT state, count(*) FROM tasks_attempt WHERE task_id = ANY(%s) GROUP BY 1", given)
    assert state == "cancelled"
    assert count >= 2 * ROUNDS * HELD, "a try for each of those that were asked for"
