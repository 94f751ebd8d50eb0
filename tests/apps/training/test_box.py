"""Which queue a spec is sent to."""

import dataclasses
from pathlib import Path

import pytest
from pytest_django import Settings

from apps.training.box import QUEUE, TINKER_QUEUE, key_of, send_spec
from tests.apps.training.test_cluster import read_sent
from tests.gpu_workers.test_tracking import make_spec


@pytest.mark.parametrize(
    ("backend", "key", "queue"),
    [("standalone", "tml-key", QUEUE), ("tinker", "tml-key", TINKER_QUEUE), ("tinker", None, QUEUE)],
)
def test_what_waits_for_a_service_keeps_no_box_busy(
    settings: Settings, tmp_path: Path, backend: str, key: str | None, queue: str
) -> None:
    settings.TENTALIS = {**settings.TENTALIS, "TINKER_API_KEY": key}
    for name in (QUEUE, TINKER_QUEUE):
        read_sent(name)
    spec = dataclasses.replace(make_spec(tmp_path), backend=backend)
    send_spec(spec)
    assert read_sent(queue) == [[spec.to_json(), key_of(spec)]]
