"""The fault run in small: a hundred tasks, a few kills, all of Redis lost, Postgres crashed."""

from pathlib import Path

import pytest

from tests.chaos.plan import SMALL, make_plan
from tests.chaos.run import Load, run_faults
from tests.chaos.stage import chaos_stack

SEED = 11
WITHOUT_TORCH = ("web", "relay", "queue-workers", "queue-scorers", "bootstrap")


@pytest.mark.broker
@pytest.mark.slow
def test_nothing_is_lost_or_done_twice_while_processes_die_and_lose_their_data(tmp_path: Path) -> None:
    plan = make_plan(SMALL, seed=SEED, mean_gap_s=3, kill_targets=WITHOUT_TORCH[:4])
    load = Load(tasks=100, seed=SEED, over_s=18, settle_s=120, with_training=False)
    with chaos_stack(keep_in=tmp_path / "home", only=WITHOUT_TORCH) as stack:
        report = run_faults(stack, load=load, plan=plan, directory=tmp_path)
    assert (report.faults, report.lost, report.caused) == ([], 0, len(plan)), f"seed {SEED}"
    assert report.acknowledged >= 100
    assert report.copies > report.messages / 2
