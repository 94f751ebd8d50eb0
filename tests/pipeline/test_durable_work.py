"""Work that was accepted is done once, whatever becomes of the processes that do it, and has its share of them.

All that uses the running line is in this file: another could be run by another process, which would start another.
"""

import signal
from functools import partial
from typing import LiteralString

import psycopg
import pytest

from apps.pipeline.bulk import ROWS
from tests.fakes import FakeModelServer
from tests.pipeline.line import Line, dribbling_server, send_signal, wait_until

pytestmark = [pytest.mark.broker, pytest.mark.slow]

THREADS = 8
ROUNDS = 3
HELD = 4
"""Of eight places half is one project's while it is alone."""


def test_a_task_submitted_while_the_broker_is_away_is_accepted_and_done_when_it_is_back(line: Line) -> None:
    line.broker.stop()
    tasks = [line.submit("hello without a broker") for _ in range(3)]
    assert {line.state_of(task) for task in tasks} == {"queued"}
    line.broker.start()
    for task in tasks:
        line.wait_for(task)


def test_work_in_the_hands_of_a_killed_process_is_done_by_another_once(line: Line) -> None:
    task = line.submit("hold this until the first has died")
    holder = line.holder_of(task)
    wait_until(lambda: line.replies.held or None, "the model was asked")
    send_signal(holder, signal.SIGKILL)
    line.wait_for_error(task, "ProcessDied", "LeaseExpired")  # as its lease or its successor's start is shorter
    assert line.holder_of(task) != holder
    line.replies.release()
    line.wait_for(task)
    assert line.ask("SELECT count(*) FROM tasks_attempt WHERE task_id = %s", task) == [(2,)]


def test_a_frozen_process_that_wakes_up_finds_its_work_taken_and_writes_nothing(line: Line) -> None:
    task = line.submit("hold this until the first has woken up")
    holder = line.holder_of(task)
    wait_until(lambda: line.replies.held or None, "the model was asked")
    send_signal(holder, signal.SIGSTOP)
    try:
        line.wait_for_error(task, "LeaseExpired")
        assert line.holder_of(task) != holder
        line.replies.release()
        line.wait_for(task)
    finally:
        send_signal(holder, signal.SIGCONT)
    later = line.submit("hello after the freeze")
    line.wait_for(later)
    assert line.ask("SELECT count(*) FROM tasks_attempt WHERE task_id = %s", task) == [(2,)]


def test_a_poison_task_ends_as_a_dead_letter_with_its_reason_and_blocks_nobody(line: Line) -> None:
    poison = line.submit("poison", worker="poisoned")
    healthy = [line.submit(f"hello beside the poison {number}") for number in range(5)]
    for task in healthy:
        line.wait_for(task)
    line.wait_for(poison, "failed")
    [(link, failure)] = line.ask("SELECT failed_link, failure FROM tasks_task WHERE id = %s", poison)
    assert link == "tasks.work"
    assert failure
    [(state, attempts)] = line.ask(
        "SELECT state, jsonb_array_length(errors) FROM outbox_segment WHERE subject_id = %s AND kind = 'work'", poison
    )
    assert (state, attempts) == ("dead", 4)


def test_a_dead_letter_that_is_replayed_is_done_when_what_broke_it_is_mended(line: Line) -> None:
    task = line.submit("poison that is healed", worker="poisoned")
    line.wait_for(task, "failed")
    line.broken.mode = "ok"
    [(letter,)] = line.ask("SELECT id FROM outbox_segment WHERE subject_id = %s AND state = 'dead'", task)
    answer = line.client.send("POST", f"dead-letters/{letter}/replay", {})
    assert answer.status_code == 200, answer.text
    line.wait_for(task)
    kinds = line.ask("SELECT kind FROM audit_auditentry WHERE subject_type = 'task' AND subject_id = %s", task)
    assert [kind for (kind,) in kinds].count("task.replayed") == 1


def test_a_server_that_drips_for_ever_is_hung_up_on_and_its_work_is_done_when_it_is_mended(line: Line) -> None:
    with dribbling_server() as url:
        line.make_provider("dribble", url)
        line.make_worker("hanging", provider="dribble")
        before = {row.name: row.restarts for row in line.stack.state().services}
        hanging = [line.submit("hang for ever", worker="hanging") for _ in range(2)]
        for task in hanging:
            line.wait_for_error(task, "ProviderSilentError")
        line.ask("UPDATE inference_provider SET base_url = %s WHERE name = 'dribble' RETURNING id", line.model.url)
        for task in hanging:
            line.wait_for(task)
    assert {row.name: row.restarts for row in line.stack.state().services} == before


def test_a_killed_process_leaves_a_job_over_many_rows_where_its_last_chunk_ended(line: Line) -> None:
    line.make_outside_worker("elsewhere")
    tasks = line.submit_many("cancel this", count=2 * ROWS + 30, worker="elsewhere")
    assert line.client.send("POST", f"tasks/{tasks[-1]}/cancel", {}).status_code == 200
    with psycopg.connect(line.database_url) as connection:
        connection.execute("SELECT FROM tasks_task WHERE id = %s FOR UPDATE", [tasks[ROWS + 30]])
        bulk = line.cancel_many(tasks)
        came_to: LiteralString = "SELECT 1 FROM feedback_bulkjudgement WHERE id = %s AND last_review_id = %s"
        wait_until(lambda: line.ask(came_to, bulk, tasks[ROWS - 1]) or None, "the first chunk is done")
        send_signal(line.holder_of(bulk, kind="bulk"), signal.SIGKILL)
    wait_until(lambda: line.ask("SELECT 1 FROM feedback_bulkjudgement WHERE id = %s AND state = 'done'", bulk) or None,
               "the job is done")  # fmt: skip
    [(done, report)] = line.ask("SELECT done, report FROM feedback_bulkjudgement WHERE id = %s", bulk)
    assert (done, [fault["task"] for fault in report]) == (len(tasks) - 1, [tasks[-1]])
    told: LiteralString = (
        "SELECT count(*), count(DISTINCT subject_id) FROM audit_auditentry "
        "WHERE kind = 'task.cancelled' AND subject_type = 'task' AND subject_id = ANY(%s)"
    )
    assert line.ask(told, tasks) == [(len(tasks), len(tasks))], "each once"
    assert line.errors_of(bulk, kind="bulk")[0]["type"] in ("ProcessDied", "LeaseExpired")


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
