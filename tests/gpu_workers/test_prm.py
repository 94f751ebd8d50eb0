"""The step scorer's trainer through the box's own door, on the built-in model, and its head in the engine."""

import hashlib
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from gpu_workers.desk.attempts import attempt_tickets, judge_attempt
from gpu_workers.engine import Engine
from gpu_workers.engine.errors import AdapterRefusedError
from gpu_workers.engine.reward_heads import AnsweredSteps
from gpu_workers.engine.server import EngineServer
from gpu_workers.head_files import HEAD_FILE, read_head
from gpu_workers.runner import run
from tentalis.core.canon import canonical_json
from tentalis.core.contracts import LabelledStep, LabelledStepsRecord, TrainResult, TrainSpec
from tentalis.core.desk import make_tickets, read_pieces
from tentalis.core.learning.head_recipes import HeadRecipe
from tentalis.core.scoring.ranking import area_under_curve

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def desk() -> Engine:
    return Engine.open("desk")


def make_records(engine: Engine, *, seed: int, count: int, held_out: bool = False) -> list[LabelledStepsRecord]:
    """Tickets attempted once; the rule book's word is label and truth at once."""
    tickets = make_tickets(random.Random(seed), count, held_out=held_out)
    records = []
    for index, (attempt,) in enumerate(attempt_tickets(engine, tickets, seed=seed)):
        reading = read_pieces(engine.codec.split_pieces(attempt.token_ids))
        scores = judge_attempt(engine, attempt).step_scores
        steps = [
            LabelledStep(
                step_id=place,
                start=segment.start,
                end=segment.end,
                label=float(score == 1.0),
                truth=float(score == 1.0),
            )
            for place, (segment, score) in enumerate(zip(reading.segments, scores, strict=True))
        ]
        split = "calibrate" if index % 5 == 0 else "train"
        records.append(
            LabelledStepsRecord(
                attempt_id=index,
                group_id=index,
                split=split,
                prompt_token_ids=attempt.prompt_ids,
                token_ids=attempt.token_ids,
                steps=steps,
            )
        )
    return records


def train(directory: Path, records: Sequence[LabelledStepsRecord], **changes: Any) -> TrainResult:
    directory.mkdir(parents=True, exist_ok=True)
    content = b"\n".join(canonical_json(record.to_json()) for record in records)
    path = directory / "steps.jsonl"
    path.write_bytes(content)
    values: dict[str, Any] = {
        "run_id": 7,
        "attempt": 1,
        "worker": "ada",
        "base_model": "desk",
        "parent_adapter_uri": None,
        "parent_sha256": None,
        "policy_version": 0,
        "rollouts_uri": path.as_uri(),
        "rollouts_sha256": hashlib.sha256(content).hexdigest(),
        "recipe": HeadRecipe(steps=200).to_json(),
        "seed": 1,
        "output_uri": (directory / "out").as_uri(),
        "purpose": "reward_model",
    }
    return run(TrainSpec(**values | changes), lambda _: None)


@pytest.fixture(scope="module")
def trained(desk: Engine, tmp_path_factory: pytest.TempPathFactory) -> TrainResult:
    result = train(tmp_path_factory.mktemp("head"), make_records(desk, seed=3, count=120))
    assert result.ok, result.error_message
    return result


def head_of(result: TrainResult) -> Path:
    return Path(result.adapter_uri.removeprefix("file://"))


def asked(records: Sequence[LabelledStepsRecord]) -> list[AnsweredSteps]:
    return [
        AnsweredSteps(one.prompt_token_ids, one.token_ids, [(step.start, step.end) for step in one.steps])
        for one in records
    ]


def test_a_trained_head_tells_good_steps_from_bad_on_tickets_it_never_saw(desk: Engine, trained: TrainResult) -> None:
    tested = make_records(desk, seed=9, count=60, held_out=True)
    head = desk.load_head("learned", head_of(trained))
    logits = [logit for row in desk.score_steps(head, asked(tested)) for logit in row]
    found = area_under_curve(logits, [float(step.truth or 0) for one in tested for step in one.steps])
    assert found is not None
    assert found > 0.8
    desk.unload_head("learned")


def test_the_manifest_holds_what_the_head_was_made_of_and_the_result_its_hash(
    desk: Engine, trained: TrainResult
) -> None:
    stored = read_head(head_of(trained))
    assert stored.sha256 == trained.sha256 == head_of(trained).name
    assert (stored.manifest.base_sha256, stored.manifest.run_id) == (desk.base.fingerprint, 7)
    assert stored.manifest.slope > 0
    assert trained.summary["steps_calibrated"] > 50
    assert trained.metrics[-1]["update"] == 200


def test_the_same_spec_gives_the_same_bytes(desk: Engine, trained: TrainResult, tmp_path: Path) -> None:
    again = train(tmp_path, make_records(desk, seed=3, count=120))
    assert again.sha256 == trained.sha256


def test_a_head_with_a_changed_byte_or_for_another_base_is_not_served(
    desk: Engine, trained: TrainResult, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in head_of(trained).iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    data = bytearray((copy / HEAD_FILE).read_bytes())
    data[-1] ^= 1
    (copy / HEAD_FILE).write_bytes(data)
    with pytest.raises(AdapterRefusedError, match="must hash to"):
        desk.load_head("broken", copy)
    manifest = (copy / "manifest.json").read_bytes()
    (copy / HEAD_FILE).write_bytes((head_of(trained) / HEAD_FILE).read_bytes())
    (copy / "manifest.json").write_bytes(manifest.replace(desk.base.fingerprint.encode(), b"0" * 64))
    with pytest.raises(AdapterRefusedError, match="reads the states of 000000000000"):
        desk.load_head("broken", copy)
    assert "broken" not in desk.heads


@pytest.mark.parametrize(
    ("drop", "words"),
    [("train", "found 0, none of them trusted"), ("calibrate", "calibration wants 10 good and 10 bad")],
)
def test_without_steps_to_learn_or_to_calibrate_on_a_run_fails_in_words(
    desk: Engine, tmp_path: Path, drop: str, words: str
) -> None:
    kept = [record for record in make_records(desk, seed=3, count=40) if record.split != drop]
    result = train(tmp_path, kept)
    assert (result.ok, result.error_type) == (False, "NothingToLearnError")
    assert words in result.error_message


def test_a_line_that_is_no_record_is_numbered(desk: Engine, tmp_path: Path) -> None:
    content = b'{"schema": "tentalis.rollout/1"}'
    path = tmp_path / "odd.jsonl"
    path.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    result = train(tmp_path, make_records(desk, seed=3, count=5), rollouts_uri=path.as_uri(), rollouts_sha256=digest)
    assert result.error_type == "RolloutsUnreadableError"
    assert "odd.jsonl line 1" in result.error_message


async def test_steps_are_scored_over_http_as_in_process(desk: Engine, trained: TrainResult) -> None:
    records = make_records(desk, seed=11, count=6)
    head = desk.load_head("here", head_of(trained))
    wanted = desk.score_steps(head, asked(records))
    desk.unload_head("here")
    server = EngineServer(Engine.open("desk"), host="127.0.0.1")
    async with TestClient(TestServer(server.app, handler_cancellation=True)) as client:
        server.start()
        body = {"head_name": "prm@v1", "head_path": str(head_of(trained))}
        assert (await client.post("/v1/load_reward_head", json=body)).status == 200
        again = await client.post("/v1/load_reward_head", json=body)
        assert (again.status, (await again.json())["error"]["code"]) == (400, "adapter_name_taken")
        listed = await (await client.get("/v1/reward_heads")).json()
        assert [(one["id"], one["fingerprint"]) for one in listed["data"]] == [("prm@v1", trained.sha256)]
        items = [
            {
                "prompt_token_ids": list(one.prompt_token_ids),
                "token_ids": list(one.token_ids),
                "steps": [[step.start, step.end] for step in one.steps],
            }
            for one in records
        ]
        answer = await (await client.post("/v1/score_steps", json={"head": "prm@v1", "items": items})).json()
        assert answer["model"] == "prm@v1"
        for entry, row in zip(answer["data"], wanted, strict=True):
            assert entry["logits"] == pytest.approx(row, abs=1e-4)
            assert [head.curve.probability(logit) for logit in entry["logits"]] == pytest.approx(entry["scores"])
        for broken, words in (
            ({"head": "other", "items": items}, "no step scorer 'other'"),
            ({"head": "prm@v1", "items": []}, "items must be a list"),
            ({"head": "prm@v1", "items": [{**items[0], "steps": [[3, 3]]}]}, "none empty"),
            ({"head": "prm@v1", "items": [{**items[0], "token_ids": ["a"]}]}, "token_ids must be a list"),
            ({"head": "prm@v1", "items": items, "n": 2}, "unknown field 'n'"),
        ):
            response = await client.post("/v1/score_steps", json=broken)
            assert response.status in (400, 404)
            assert words in (await response.json())["error"]["message"]
        assert (await client.post("/v1/unload_reward_head", json={"head_name": "prm@v1"})).status == 200
        assert (await client.post("/v1/unload_reward_head", json={"head_name": "prm@v1"})).status == 404
        await server.stop(drain_s=5)
