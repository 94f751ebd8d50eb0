"""Letters from the training box: genuine ones are passed on, the others are dropped and the audit hears of it."""

import base64
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import redis
from django.conf import settings as installed
from django.db.models.functions import Now
from pytest_django import Settings

from apps.accounts.models import Project
from apps.audit.models import AuditEntry
from apps.pipeline import flow
from apps.pipeline.letter_box import LetterBox, take_letter
from apps.rollouts.models import Batch
from apps.training import monitoring, services
from apps.training.box import LETTER_FILE, DroppedLetters, find_result
from apps.training.models import TrainingRun
from apps.workers.models import Worker
from tentalis.celery import app
from tentalis.core.contracts import ContractError, Outcome, TrainResult, TrainSpec
from tentalis.core.letters import LETTER_BOX, LETTER_SCHEMA, Letter, draw_key
from tests.apps.training.boxes import leave_result, send_out, write_letter

PREFIX = installed.CELERY_BROKER_TRANSPORT_OPTIONS["global_keyprefix"]


@pytest.fixture
def broker() -> "redis.Redis":
    client = redis.Redis.from_url(installed.REDIS_URL)
    client.delete(f"{PREFIX}control", f"{PREFIX}{LETTER_BOX}")
    return client


@pytest.fixture
def spec(project: Project, worker: Worker, settings: Settings, tmp_path: Path) -> TrainSpec:
    """Of a run at work, first attempt."""
    settings.ARTIFACTS = tmp_path
    batch = Batch.objects.create(project=project, worker=worker, number=1, target_tasks=1, state="closed")
    run = services.queue_run(batch=batch, by="ledger")
    TrainingRun.objects.filter(pk=run.pk).update(heartbeat_at=Now())
    output = tmp_path / "runs" / "1"
    output.mkdir(parents=True)
    return send_out(run, output)


def read_passed_on(broker: "redis.Redis") -> list[tuple[str, list[Any]]]:
    """(job, arguments) of what lies on queue `control`, oldest first; it is empty afterwards."""
    found: list[tuple[str, list[Any]]] = []
    while (message := cast("bytes | None", broker.rpop(f"{PREFIX}{app.conf.task_default_queue}"))) is not None:
        data = json.loads(message)
        found.append((data["headers"]["task"], json.loads(base64.b64decode(data["body"]))[0]))
    return found


def failure_of(spec: TrainSpec, **changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "run_id": spec.run_id,
        "attempt": spec.attempt,
        "outcome": Outcome.FAILED,
        "error_type": "OSError",
    }
    return dict(json.loads(json.dumps(TrainResult(**values | changes).to_json())))


def test_a_signed_result_is_passed_on(spec: TrainSpec, broker: "redis.Redis") -> None:
    body = failure_of(spec)
    assert take_letter(write_letter(spec, "result", body), DroppedLetters())
    assert read_passed_on(broker) == [("training.record", [body])]


def test_a_signed_sign_of_life_is_passed_on_with_its_number(spec: TrainSpec, broker: "redis.Redis") -> None:
    assert take_letter(write_letter(spec, "heartbeat", {"reward": 0.5}, number=7), DroppedLetters())
    assert read_passed_on(broker) == [("training.heartbeat", [spec.run_id, 1, {"reward": 0.5}, 7])]


FORGERIES: dict[str, Callable[[dict[str, Any]], object]] = {
    "no signature": lambda data: data | {"signature": ""},
    "another signature": lambda data: data | {"signature": "0" * 64},
    "a signature that is no ASCII": lambda data: data | {"signature": "é" * 64},
    "another body": lambda data: data | {"body": data["body"] | {"error_message": "forged"}},
    "another kind": lambda data: data | {"kind": "heartbeat"},
    "another number": lambda data: data | {"number": data["number"] + 1},
    "another run": lambda data: data | {"run_id": data["run_id"] + 1},
    "another attempt": lambda data: data | {"attempt": 2},
    "a number beyond all": lambda data: data | {"run_id": 2**70},
    "another field": lambda data: data | {"more": 1},
    "a field less": lambda data: {name: value for name, value in data.items() if name != "number"},
    "a body that is none": lambda data: data | {"body": ["training.record"]},
    "a Celery message": lambda data: {"body": "W10=", "headers": {"task": "adapters.promote"}, "properties": {}},
    "no object": lambda data: [data],
}


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES.keys())
def test_a_forged_letter_is_dropped_and_audited(
    spec: TrainSpec, broker: "redis.Redis", forge: Callable[[dict[str, Any]], object]
) -> None:
    data = json.loads(write_letter(spec, "result", failure_of(spec)))
    assert not take_letter(json.dumps(forge(data)).encode(), DroppedLetters())
    assert read_passed_on(broker) == []
    assert AuditEntry.objects.get(kind="letter.refused").payload["count"] == 1


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 100_000, b"null"])
def test_what_is_no_letter_at_all_is_dropped(spec: TrainSpec, broker: "redis.Redis", content: bytes) -> None:
    assert not take_letter(content, DroppedLetters())
    assert read_passed_on(broker) == []


def nest(depth: int) -> bytes:
    """A letter that nobody signed, whose body is nested so deep."""
    data = {"kind": "result", "run_id": TrainingRun.objects.get().pk, "attempt": 1, "number": 1, "signature": "00"}
    written = json.dumps(data | {"schema": LETTER_SCHEMA, "body": {"x": 0}})
    return written.replace('"x": 0', f'"x": {"[" * depth}{"]" * depth}').encode()


def count_readable() -> int:
    """How deep a list is nested at most that can be read here."""
    depth = sys.getrecursionlimit()
    while True:
        try:
            json.loads("[" * depth + "]" * depth)
        except RecursionError:
            depth -= 1
        else:
            return depth


def test_nothing_is_signed_that_is_nested_too_deep_to_be_written() -> None:
    body: dict[str, Any] = {}
    for _ in range(2 * sys.getrecursionlimit()):
        body = {"x": body}
    letter = Letter(kind="result", run_id=1, attempt=1, number=1, body=body, signature="00")
    assert not letter.is_signed_with("k")


def test_a_letter_nested_almost_as_deep_as_can_be_read_is_dropped_and_beside_a_run_no_result(
    spec: TrainSpec, broker: "redis.Redis", tmp_path: Path
) -> None:
    run, output = TrainingRun.objects.get(), tmp_path / "runs" / "1"
    deepest = count_readable()
    for depth in range(deepest - 60, deepest + 1):
        content = nest(depth)
        assert not take_letter(content, DroppedLetters())
        (output / LETTER_FILE).write_bytes(content)
        assert find_result(run) is None
    assert read_passed_on(broker) == []


def test_another_runs_key_signs_nothing_here(spec: TrainSpec, broker: "redis.Redis") -> None:
    other = draw_key(installed.SECRET_KEY, run_id=spec.run_id + 1, attempt=1, spec_hash=spec.content_hash)
    letter = Letter.write("result", failure_of(spec), key=other, run_id=spec.run_id, attempt=1, number=1)
    assert not take_letter(json.dumps(letter.to_json()).encode(), DroppedLetters())
    assert read_passed_on(broker) == []


def test_a_letter_about_another_run_than_its_own_is_dropped(spec: TrainSpec, broker: "redis.Redis") -> None:
    body = failure_of(spec, run_id=spec.run_id + 1)
    assert not take_letter(write_letter(spec, "result", body), DroppedLetters())
    assert read_passed_on(broker) == []


def test_a_letter_of_the_attempt_before_is_dropped(spec: TrainSpec, broker: "redis.Redis", tmp_path: Path) -> None:
    late = write_letter(spec, "result", failure_of(spec))
    send_out(TrainingRun.objects.get(), tmp_path, attempt=2)
    assert not take_letter(late, DroppedLetters())
    assert read_passed_on(broker) == []


def test_an_old_sign_of_life_said_again_keeps_no_run_alive(spec: TrainSpec) -> None:
    monitoring.note_heartbeat(spec.run_id, 1, {"update": 1.0}, 5)
    TrainingRun.objects.update(heartbeat_at=None)
    monitoring.note_heartbeat(spec.run_id, 1, {"update": 9.0}, 5)
    monitoring.note_heartbeat(spec.run_id, 1, {"update": 9.0}, 4)
    run = TrainingRun.objects.get()
    assert (run.heartbeat_at, run.metrics) == (None, [{"update": 1.0}])
    monitoring.note_heartbeat(spec.run_id, 1, {"update": 2.0}, 6)
    assert TrainingRun.objects.get().heartbeat_at is not None


def test_a_flood_of_forgeries_is_told_once_and_then_counted(spec: TrainSpec) -> None:
    refusals = DroppedLetters(every_s=60.0)
    for second in (*range(50), 60.0):
        refusals.note("no letter", now=float(second))
    told = AuditEntry.objects.filter(kind="letter.refused").order_by("id")
    assert [entry.payload["count"] for entry in told] == [1, 50]


def test_a_result_left_in_the_store_is_taken_where_it_is_signed(spec: TrainSpec, tmp_path: Path) -> None:
    run, output = TrainingRun.objects.get(), tmp_path / "runs" / "1"
    assert find_result(run) is None
    (output / "result.json").write_text(json.dumps(failure_of(spec)))
    assert find_result(run) is None, "a file beside no letter is anybody's"
    leave_result(spec, failure_of(spec, run_id=spec.run_id + 1), output)
    assert find_result(run) is None
    leave_result(spec, failure_of(spec), output)
    assert find_result(run) == failure_of(spec)


def test_the_key_is_stored_nowhere(spec: TrainSpec) -> None:
    run = TrainingRun.objects.get()
    key = draw_key(installed.SECRET_KEY, run_id=run.pk, attempt=1, spec_hash=spec.content_hash)
    assert key not in json.dumps([run.spec, run.recipe, [entry.payload for entry in AuditEntry.objects.all()]])


def test_letters_of_three_attempts_have_three_keys() -> None:
    drawn = {
        draw_key("s", run_id=1, attempt=1, spec_hash="a"),
        draw_key("s", run_id=1, attempt=2, spec_hash="a"),
        draw_key("s", run_id=11, attempt=1, spec_hash="a"),
        draw_key("s", run_id=1, attempt=1, spec_hash="b"),
        draw_key("t", run_id=1, attempt=1, spec_hash="a"),
    }
    assert len(drawn) == 5


def test_no_number_of_a_letter_is_a_truth_value() -> None:
    data = Letter.write("result", {}, key="k", run_id=1, attempt=1, number=1).to_json()
    with pytest.raises(ContractError, match="attempt must be a whole number"):
        Letter.from_json(data | {"attempt": True})


@pytest.mark.django_db(transaction=True)
def test_the_letter_box_passes_on_what_lies_in_the_broker(spec: TrainSpec, broker: "redis.Redis") -> None:
    body = failure_of(spec)
    broker.lpush(f"{PREFIX}{LETTER_BOX}", b"no letter", write_letter(spec, "result", body))
    box = LetterBox()
    box.start()
    try:
        message = broker.brpop([f"{PREFIX}control"], timeout=60)
    finally:
        box.stop()
    assert message is not None
    assert json.loads(base64.b64decode(json.loads(message[1])["body"]))[0] == [body]
    flow.handle_training_result(body, by="control")
    assert TrainingRun.objects.get().state == "failed"


class BrokenRefusals(DroppedLetters):
    """As a fault that nobody foresaw."""

    def note(self, reason: str, *, now: float | None = None) -> None:
        raise LookupError(reason)


@pytest.mark.django_db(transaction=True)
def test_a_letter_that_breaks_in_an_unforeseen_way_costs_only_itself(
    spec: TrainSpec, broker: "redis.Redis", caplog: pytest.LogCaptureFixture
) -> None:
    broker.lpush(f"{PREFIX}{LETTER_BOX}", b"no letter", write_letter(spec, "result", failure_of(spec)))
    box = LetterBox(BrokenRefusals())
    box.start()
    try:
        message = broker.brpop([f"{PREFIX}control"], timeout=20)
    finally:
        box.stop()
    assert message is not None
    assert "a letter is lost" in caplog.text
