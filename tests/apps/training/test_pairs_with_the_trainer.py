"""The file that the platform writes of attempts of several sequences, read and learnt from by the trainer itself."""

import dataclasses
from pathlib import Path

import pytest
from pytest_django import Settings

from apps.accounts.models import Project
from apps.inference.models import Exchange
from apps.rollouts import services
from apps.rollouts.files import write_batch
from apps.tasks.models import Task
from gpu_workers.runner import run
from tentalis.core.contracts import TrainResult
from tentalis.core.learning.recipes import Recipe
from tests.factories import add_call, make_attempt, make_task, make_worker
from tests.gpu_workers.learning.training_factory import make_spec

pytestmark = [pytest.mark.torch, pytest.mark.django_db]
RECIPE = Recipe(
    lora_rank=4, lora_alpha=8.0, learning_rate=1e-2, epochs=4, answer_tokens=12, held_out_share=0.25,
    most_length_drift=1.0, most_logprob_drop=1.0,
)  # fmt: skip


@pytest.mark.parametrize("algorithm", ["dpo", "kto"])
def test_what_was_said_in_a_later_call_is_learnt(
    project: Project, settings: Settings, tmp_path: Path, algorithm: str
) -> None:
    """Both attempts at a task begin alike; the better one says something else where its agent asked again."""
    settings.ARTIFACTS = tmp_path / "artifacts"
    worker = make_worker(project)
    for number in range(4):
        task = make_task(project, worker, prompt=f"task {number}", state=Task.State.LEARNING, group_size=2)
        for index, word in enumerate((20, 25)):
            add_call(make_attempt(task, index, outcome=1.0 - index, text=f"said {word}"), [7, 8 + number], [word, 1])
        services.build_rollouts([task.pk], by="ledger")
    Exchange.objects.update(sampling={"temperature": 0.7, "tells": "processed"})  # the trainer works its reference out
    kind = "pairs" if algorithm == "dpo" else "rollouts"
    uri, sha256 = write_batch(services.close_open_batch(worker, by="user:alice", kind=kind))
    recipe = dataclasses.replace(RECIPE, algorithm=algorithm)
    result: TrainResult = run(
        make_spec(tmp_path, [], recipe=recipe, rollouts_uri=uri, rollouts_sha256=sha256), lambda _: None
    )
    assert result.ok, result.error_message
    assert result.summary["examples"] == (4 if algorithm == "dpo" else 8)
    assert result.summary["held_out_pair_accuracy"] == 1.0
