"""The bench of kills and crashes in small: a real gateway, a real Postgres, both going down under load."""

from pathlib import Path

import pytest

from tests.bench.gateway_crash import Load, run_load


@pytest.mark.broker
@pytest.mark.slow
def test_every_acknowledged_exchange_is_stored_once_with_its_tokens(tmp_path: Path) -> None:
    report = run_load(Load(exchanges=600, kills=2, crashes=1), tmp_path)
    assert (report.faults, report.lost, report.doubled, report.differing) == ([], 0, 0, 0)
    assert report.acknowledged >= 600
    assert (report.kills, report.crashes) == (2, 1)
    assert report.broken > 0
