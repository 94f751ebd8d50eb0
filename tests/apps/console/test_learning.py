"""The learning curve's figures, read from rows."""

import pytest

from apps.accounts.models import Project
from apps.adapters.models import Adapter, Deployment
from apps.reports.learning_curve import find_learning
from apps.rollouts.models import Batch
from apps.training.models import TrainingRun
from tests.e2e.scenery import build_scene
from tests.factories import make_measured, make_worker

pytestmark = pytest.mark.django_db


def test_each_model_is_drawn_by_its_newest_result_though_the_panel_was_refreshed(project: Project) -> None:
    worker = make_worker(project)
    adapters = [
        Adapter.objects.create(
            project=project,
            worker=worker,
            name=f"echo@v{version}",
            version=version,
            line_version=version,
            uri="file:///a",
            manifest={},
        )
        for version in (1, 2)
    ]
    for adapter, panel, right in ((None, "old", 1), (adapters[0], "old", 2), (None, "new", 0), (adapters[1], "new", 3)):
        outcomes = [1.0] * right + [0.0] * (4 - right)
        make_measured(worker, adapter, outcomes, items=panel)
    learning = find_learning(worker)
    assert [(point.version, point.accuracy) for point in learning.accuracy] == [(0, 0.0), (1, 0.5), (2, 0.75)]
    assert learning.newest is not None
    assert learning.newest.panel == "new"
    Deployment.objects.create(worker=worker, adapter=adapters[0])
    learning = find_learning(worker)
    assert learning.served is not None
    assert (learning.served.panel, learning.gain_points) == ("old", 25.0), "the base model did 0 of 4 on the new panel"


def test_a_runs_reward_is_the_mean_of_the_rollouts_it_learned_from() -> None:
    scene = build_scene(updates=2)
    TrainingRun.objects.create(
        project=scene.project, worker=scene.worker, purpose="reward_model", recipe={}, recipe_hash="7" * 64
    )
    for number in (6, 5):  # of two that fill at a time the later one may train first
        batch = Batch.objects.create(
            project=scene.project, worker=scene.worker, number=number, target_tasks=1, state="closed"
        )
        TrainingRun.objects.create(
            project=scene.project, worker=scene.worker, batch=batch, recipe={}, recipe_hash="7" * 64
        )
    learning = find_learning(scene.worker)
    numbers = [getattr(point.run.batch, "number", None) for point in learning.rewards]
    assert numbers == [1, 2, 3, 5, 6], "the reward model's run has no batch"
    assert learning.rewards[2].reward == pytest.approx(0.3 + 0.07 * 3 + 0.02 * 0.79367, abs=1e-4)
    assert learning.served is not None
    assert learning.base is not None
    assert learning.gain_points == pytest.approx(100 * (learning.served.accuracy - learning.base.accuracy))
