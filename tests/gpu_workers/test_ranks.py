"""Processes that share a training learn what one alone learns, and end together: two of them, on a tiny model."""

import dataclasses
import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import chain, count
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from gpu_workers.artifacts import ArtifactError, path_from_uri
from gpu_workers.backends import errors
from gpu_workers.backends.errors import SharedTrainingError, UnfitAdapterError
from gpu_workers.backends.rank_processes import choose_processes, train_together
from gpu_workers.backends.ranks import deal_out
from gpu_workers.runner import run
from tentalis.core.contracts import (
    ContractError,
    DemonstrationRecord,
    Outcome,
    PairRecord,
    RolloutRecord,
    TrainSpec,
)
from tentalis.core.learning.recipes import Recipe, RecipeError
from tests.gpu_workers import test_preference as preferences
from tests.gpu_workers.learning.training_factory import RECIPE, make_rollouts, make_spec
from tests.gpu_workers.rank_work import SPEC, fail_in_the_second, train_each
from tests.gpu_workers.test_top_k import HYBRID as WHOLE_HYBRID
from tests.gpu_workers.test_top_k import make_top_rollouts

pytestmark = pytest.mark.torch
ROOT = Path(__file__).parents[2]
WEIGHTS = "adapter_model.safetensors"
PREFERRED = dataclasses.replace(preferences.RECIPE, epochs=2)
HYBRID = dataclasses.replace(WHOLE_HYBRID, epochs=1, importance_cap=2.0)
REWARDED = dataclasses.replace(RECIPE, epochs=2, kl_coef=0.1, entropy_coef=0.01, importance_cap=2.0)
UPDATES = 4
OURS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.TrainingError)]


def make_specs(directory: Path) -> dict[str, TrainSpec]:
    """Whatever the trainer can learn, by name."""
    imitating = dataclasses.replace(RECIPE, algorithm="reward_weighted_sft", w_opd=0.0, held_out_share=0.3)
    kinds: dict[str, tuple[Sequence[RolloutRecord | PairRecord | DemonstrationRecord], Recipe]] = {
        "rewards": (make_rollouts(), REWARDED),
        "likeliest": (make_top_rollouts(), HYBRID),
        "imitated": (make_rollouts(groups=6), imitating),
        "pairs": (preferences.make_pairs(), PREFERRED),
        "answers": (preferences.make_answers(), dataclasses.replace(PREFERRED, algorithm="kto")),
        "edits": (preferences.make_demonstrations(), dataclasses.replace(PREFERRED, algorithm="sft")),
    }
    return {name: make_spec(directory / name, records, recipe=recipe) for name, (records, recipe) in kinds.items()}


def find_weights(output: Path) -> Path:
    (found,) = output.rglob(WEIGHTS)
    return found


def test_two_processes_learn_what_one_learns_and_resume_bit_for_bit(tmp_path: Path) -> None:
    specs = make_specs(tmp_path / "alone")
    shared = {
        name: dataclasses.replace(spec, output_uri=(tmp_path / "shared" / name).as_uri())
        for name, spec in specs.items()
    }
    cancelled = dataclasses.replace(shared["rewards"], output_uri=(tmp_path / "cancelled").as_uri())
    resumed = dataclasses.replace(
        cancelled,
        attempt=2,
        output_uri=(tmp_path / "resumed").as_uri(),
        resume_uri=(tmp_path / "cancelled" / "checkpoint").as_uri(),
    )
    orders = tmp_path / "orders"
    orders.mkdir()
    for number, spec in enumerate([shared.pop("rewards"), cancelled, resumed, *shared.values()]):
        (orders / f"{number}.json").write_text(json.dumps(spec.to_json()))
    told: list[Mapping[str, float]] = []
    questions = count(1)
    trained = train_together(
        train_each,
        SPEC,
        count=2,
        output=orders,
        report=told.append,
        # the first run asks before each update and before it publishes, the second is cancelled before its second
        is_cancelled=lambda: next(questions) == UPDATES + 1 + 2,
    )
    assert trained.summary["processes"] == 2
    assert [metrics["update"] for metrics in told[: 2 * UPDATES]] == [1, 2, 3, 4, 1, 2, 3, 4], "one of the two reports"
    assert not list((tmp_path / "cancelled").rglob(WEIGHTS))
    whole = tmp_path / "shared" / "rewards"
    assert find_weights(tmp_path / "resumed").read_bytes() == find_weights(whole).read_bytes()

    for name, spec in specs.items():
        result = run(spec, lambda _: None)
        assert result.ok, f"{name}: {result.error_message}"
        assert result.summary["processes"] == 1
        one = load_file(path_from_uri(result.adapter_uri) / WEIGHTS)
        two = load_file(find_weights(tmp_path / "shared" / name))
        # a rounding of a gradient near 0 is not small in AdamW's first steps, which divide each by its own size
        gaps = {key: float(torch.dist(two[key], values) / values.norm()) for key, values in one.items()}
        assert max(gaps.values()) < 1e-5, f"{name}: {max(gaps, key=lambda key: gaps[key])}"
        if name == "rewards":
            assert all(row["loss_opd"] and row["kl_base"] for row in result.metrics[1:])
            for mine, theirs in zip(result.metrics, told, strict=False):
                assert {k: v for k, v in theirs.items() if k != "tokens_per_s"} == pytest.approx(
                    {k: v for k, v in mine.items() if k != "tokens_per_s"}, rel=1e-4, abs=1e-6
                )


def test_a_process_that_dies_in_the_midst_ends_the_run_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENTALIS_TRAINING_PROCESSES", "2")
    spec = make_spec(tmp_path, make_rollouts(), recipe=REWARDED)
    children = []

    def kill_one(metrics: Mapping[str, float]) -> None:
        # no process goes on until this returns: the first asks whether to, and the other waits for what it is told
        children.extend(multiprocessing.active_children())
        next(child for child in children if child.name == "process 2 of 2").kill()

    result = run(spec, kill_one)
    assert (result.outcome, result.error_type) == (Outcome.FAILED, "SharedTrainingError")
    assert "process 2 of 2 of this training was ended by SIGKILL" in result.error_message
    assert [metrics["update"] for metrics in result.metrics] == [1]
    assert len(children) == 2
    assert not multiprocessing.active_children(), "the other one was left behind"
    assert not list(tmp_path.rglob(WEIGHTS))


def test_what_the_second_process_raises_is_the_reason_and_not_that_the_first_waited(tmp_path: Path) -> None:
    with pytest.raises(SharedTrainingError, match=r"process 2 of 2 of this training: MemoryError: no room for 3 GiB"):
        train_together(
            fail_in_the_second, SPEC, count=2, output=tmp_path, report=lambda _: None, is_cancelled=lambda: False
        )


@pytest.mark.parametrize(
    "error",
    [
        *(kind("why") for kind in OURS if kind is not UnfitAdapterError),
        UnfitAdapterError("why", metrics=[{"loss": 1.0}], summary={"updates": 1.0}),
        ContractError("why"),
        ArtifactError("why"),
        RecipeError("why"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_failure_comes_over_from_its_process_as_it_is(error: Exception) -> None:
    ours, theirs = multiprocessing.Pipe()
    with ours, theirs:
        theirs.send(error)
        found = ours.recv()
    assert (type(found), str(found), vars(found)) == (type(error), "why", vars(error))


def test_the_processes_end_with_who_started_them() -> None:
    command = [sys.executable, "-m", "tests.gpu_workers.rank_work"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        told = parent.stdout.readline()
        parent.kill()
        # each of them holds the pipe too: it ends when all are gone
        assert parent.stdout.read() == ""
    assert told == "process 1 of 2, process 2 of 2\n"


@pytest.mark.parametrize(
    ("wanted", "gpus", "cores", "found"), [(1, 0, 2, 1), (0, 0, 2, 1), (0, 4, 2, 4), (2, 4, 1, 2), (2, 0, 2, 2)]
)
def test_a_process_has_a_gpu_or_a_core(wanted: int, gpus: int, cores: int, found: int) -> None:
    assert choose_processes(wanted, gpus=gpus, cores=cores) == found


@pytest.mark.parametrize(
    ("wanted", "gpus", "cores", "message"),
    [
        (3, 2, 64, "TENTALIS_TRAINING_PROCESSES must be at most 2: this machine has 2 GPUs, found 3"),
        (3, 0, 2, "TENTALIS_TRAINING_PROCESSES must be at most 2: this machine has 2 cores, and no GPU, found 3"),
    ],
)
def test_more_processes_than_the_machine_has_room_for_are_refused(
    wanted: int, gpus: int, cores: int, message: str
) -> None:
    with pytest.raises(SharedTrainingError, match=message):
        choose_processes(wanted, gpus=gpus, cores=cores)


def test_too_many_processes_end_a_run_before_it_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = torch.cuda.device_count() or os.cpu_count() or 1
    monkeypatch.setenv("TENTALIS_TRAINING_PROCESSES", str(there + 1))
    result = run(dataclasses.replace(SPEC, output_uri=(tmp_path / "out").as_uri()), lambda _: None)
    assert result.error_type == "SharedTrainingError"
    assert f"must be at most {there}" in result.error_message


def test_every_item_is_dealt_once_and_to_each_about_as_many_tokens() -> None:
    groups = [[20, 20, 20, 20], [9, 1], [10], [8], [7], [6]]
    for count_of in (1, 2, 3, 4):
        dealt = deal_out(groups, sum, count_of)
        assert sorted(item for mine in dealt for part in mine for item in part) == sorted(chain.from_iterable(groups))
        loads = [sum(map(sum, mine)) for mine in dealt]
        assert max(loads) - min(loads) <= 20
    (first, second) = deal_out([[5, 5, 5, 5]], sum, 2)
    assert (first, second) == ([[5, 5]], [[5, 5]]), "a single group is split"
    assert deal_out([[5]], sum, 2) == [[[5]], []], "a single item is not"
