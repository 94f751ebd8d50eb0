"""A run trained again from its directory alone: the same weights bit for bit, or what is different in words."""

import dataclasses
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_workers.__main__ import main
from gpu_workers.engine import Engine
from gpu_workers.reproducing import WEIGHTS
from gpu_workers.runner import run
from tentalis.cli import main as command_line
from tentalis.core.contracts import TrainResult
from tests.gpu_workers import test_preference, test_prm, test_served_teachers, test_top_k
from tests.gpu_workers.learning.training_factory import RECIPE, make_rollouts, make_spec

pytestmark = pytest.mark.torch


def test_a_run_that_was_interrupted_and_went_on_is_trained_again_bit_for_bit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = make_spec(tmp_path, make_rollouts())
    assert run(spec, lambda _: (tmp_path / "out" / "cancel").touch()).error_type == "CancelledError"
    second = dataclasses.replace(
        spec,
        attempt=2,
        output_uri=(tmp_path / "second").as_uri(),
        resume_uri=(tmp_path / "out" / "checkpoint").as_uri(),
    )
    assert run(second, lambda _: None).ok
    assert main(["reproduce", str(tmp_path / "second"), "--out", str(tmp_path / "again")]) == 0
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert found["identical"]
    assert found["first"] == found["again"] != ""
    assert "trained again gives the same weights bit for bit" in said.err
    assert "update 2/2" in said.err


def dpo_of_a_parent(directory: Path) -> TrainResult:
    """Preferences that continue an adapter, whose log-probs are the reference."""
    parent = test_preference.train_well(directory / "parent", test_preference.make_pairs())
    recipe = dataclasses.replace(test_preference.RECIPE, epochs=1, least_pair_accuracy=0.5)
    of = (parent.adapter_uri, parent.sha256)
    return run(make_spec(directory, test_preference.make_pairs(), recipe=recipe, parent=of), lambda _: None)


def kto(directory: Path) -> TrainResult:
    return test_preference.train_well(directory, test_preference.make_answers(), algorithm="kto", beta=0.5)


def step_scorer(directory: Path) -> TrainResult:
    return test_prm.train(directory, test_prm.make_records(Engine.open("desk"), seed=3, count=120))


def hints(directory: Path) -> TrainResult:
    return run(make_spec(directory, make_rollouts(), recipe=dataclasses.replace(RECIPE, w_opd=1.0)), lambda _: None)


def hybrid(directory: Path) -> TrainResult:
    return run(make_spec(directory, test_top_k.make_top_rollouts(), recipe=test_top_k.HYBRID), lambda _: None)


@pytest.mark.parametrize("train", [dpo_of_a_parent, kto, step_scorer, hints, hybrid], ids=lambda one: one.__name__)
def test_a_run_of_every_kind_comes_out_again_from_what_is_stored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], train: Callable[[Path], TrainResult]
) -> None:
    result = train(tmp_path)
    assert result.ok, f"{result.error_type}: {result.error_message}"
    assert main(["reproduce", str(tmp_path / "out"), "--out", str(tmp_path / "again")]) == 0
    said = capsys.readouterr()
    found = json.loads(said.out)
    (weights,) = [path for name in WEIGHTS for path in (tmp_path / "out").glob(f"*/{name}")]
    assert found["first"] == found["again"] == hashlib.sha256(weights.read_bytes()).hexdigest()
    assert "trained again gives the same weights bit for bit" in said.err


def test_hints_of_a_served_teacher_come_out_again_from_the_address_in_the_spec(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with test_served_teachers.serve_answers(test_served_teachers.answer_well) as url:
        assert test_served_teachers.train(tmp_path, test_served_teachers.RECIPE, teacher_url=url).ok
        assert main(["reproduce", str(tmp_path / "out"), "--out", str(tmp_path / "again")]) == 0
    assert json.loads(capsys.readouterr().out)["identical"]
    assert main(["reproduce", str(tmp_path / "out"), "--out", str(tmp_path / "alone")]) == 1
    assert "could not be trained again: TeacherError: the teacher desk at" in capsys.readouterr().err


@pytest.mark.parametrize("backend", ["tinker", "openrlhf"])
def test_what_was_trained_elsewhere_is_not_promised_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], backend: str
) -> None:
    run(make_spec(tmp_path, make_rollouts()), lambda _: None)
    told = json.loads((tmp_path / "out" / "spec.json").read_bytes()) | {"backend": backend}
    del told["content_hash"]
    (tmp_path / "out" / "spec.json").write_text(json.dumps(told))
    assert main(["reproduce", str(tmp_path / "out")]) == 2
    assert f"was trained by {backend}" in capsys.readouterr().err


def test_other_weights_are_told_with_what_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = run(make_spec(tmp_path, make_rollouts()), lambda _: None)
    (weights,) = (tmp_path / "out").glob("*/adapter_model.safetensors")
    weights.write_bytes(weights.read_bytes() + b" ")
    told = json.loads((tmp_path / "out" / "result.json").read_bytes())
    told["versions"]["torch"] = "1.0"
    told["summary"]["processes"] = 2.0
    (tmp_path / "out" / "result.json").write_text(json.dumps(told))
    assert main(["reproduce", str(tmp_path / "out")]) == 1
    said = capsys.readouterr().err
    assert "trained again gives other weights" in said
    assert f"packages that changed: torch 1.0 -> {result.versions['torch']}; processes that shared it: 2 -> 1" in said


def test_data_that_is_gone_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(make_spec(tmp_path, make_rollouts()), lambda _: None)
    (tmp_path / "rollouts.jsonl").unlink()
    assert main(["reproduce", str(tmp_path / "out")]) == 1
    assert "could not be trained again: ArtifactError: cannot read" in capsys.readouterr().err


def test_a_directory_without_a_run_that_succeeded_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", str(tmp_path)]) == 2
    assert "holds no run that ended" in capsys.readouterr().err
    run(make_spec(tmp_path, make_rollouts(reward=None, hinted_messages=None)), lambda _: None)
    assert main(["reproduce", str(tmp_path / "out")]) == 2
    assert "left no weights to compare with: NothingToLearnError" in capsys.readouterr().err


def test_the_command_line_trains_the_last_attempt_that_succeeded_again(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    attempts = tmp_path / "runs" / "7"
    spec = make_spec(tmp_path, make_rollouts(), run_id=7)
    for number, seed in ((1, 7), (2, 8)):
        run(
            dataclasses.replace(spec, attempt=number, seed=seed, output_uri=(attempts / str(number)).as_uri()),
            lambda _: None,
        )
    (attempts / "3").mkdir()
    with pytest.raises(SystemExit) as left:
        command_line(["run", "reproduce", "7", "--artifacts", str(tmp_path)])
    assert left.value.code == 0
    said = json.loads(capfd.readouterr().out)
    (weights,) = (attempts / "2").glob("*/adapter_model.safetensors")
    assert said["first"] == hashlib.sha256(weights.read_bytes()).hexdigest()
    with pytest.raises(SystemExit) as left:
        command_line(["run", "reproduce", "8", "--artifacts", str(tmp_path)])
    assert left.value.code == 2
    assert "wanted an attempt that succeeded" in capfd.readouterr().err
