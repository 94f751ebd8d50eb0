"""Right answers that a run unlearns while its loss falls: told by an alarm, and by none where it learns them."""

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gpu_workers.desk.attempts import attempt_tickets
from gpu_workers.engine import Engine
from gpu_workers.runner import run
from tentalis.core.desk import make_tickets
from tentalis.core.learning.monitors import watch_update
from tentalis.core.learning.recipes import Recipe
from tests.bench.desk_loop import record_rollouts, write_spec

pytestmark = pytest.mark.torch

MANY_WIDE = {"epochs": 8, "clip_low": 0.8, "clip_high": 2.0}


@pytest.mark.parametrize(("changes", "told"), [(MANY_WIDE, {"displacement"}), ({}, set()), ({"epochs": 2}, set())])
def test_a_run_that_unlearns_right_answers_while_its_loss_falls_is_told_and_no_other(
    tmp_path: Path, changes: Mapping[str, Any], told: set[str]
) -> None:
    engine = Engine.open("desk")
    tickets = make_tickets(random.Random(100), 24, held_out=False)
    rollouts = record_rollouts(engine, attempt_tickets(engine, tickets, n=8, seed=1), version=0)
    recipe = Recipe(w_rl=1.0, w_opd=0.0, step_mix=0.0, **changes)
    result = run(
        write_spec(tmp_path / "run", rollouts, recipe, update=1, seed=0, model="desk", parent=None), lambda _: None
    )
    assert result.ok, result.error_message
    metrics = result.metrics
    alarms = [watch_update(metrics[: place + 1]) for place in range(len(metrics))]
    assert {alarm.detector for found in alarms for alarm in found} == told
    assert metrics[0]["displaced"] == 0
    assert not told or metrics[-1]["loss_rl"] < metrics[0]["loss_rl"] - 0.1, "its loss says that all is well"
