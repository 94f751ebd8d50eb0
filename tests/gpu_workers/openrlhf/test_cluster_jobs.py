"""The box's nudge, in a real queue process: whoever gets it starts the job or looks; what cannot begin says why."""

import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest

from gpu_workers.celery import make_app
from tests.gpu_workers.openrlhf.test_coming_home import write_saved
from tests.gpu_workers.openrlhf.test_jobs_on_ray import Ray, make_spec, ray
from tests.gpu_workers.test_jobs import ROOT, receive_until

__all__ = ["ray"]

pytestmark = [pytest.mark.torch, pytest.mark.broker, pytest.mark.slow]


def test_a_nudge_starts_a_job_brings_its_adapter_home_and_says_why_one_cannot_begin(ray: Ray, tmp_path: Path) -> None:
    broker = urlunsplit(urlsplit(os.environ["TENTALIS_REDIS_URL"])._replace(path="/8"))
    app = make_app(broker)
    folders = {name: tmp_path / name for name in ("whole", "full", "cancel", "pause")}
    for folder in folders.values():
        folder.mkdir()
    spec = make_spec(folders["whole"])

    def nudge(*args: object) -> None:
        app.send_task("gpu.tend", args=[*args, "http://web/r", "key"], queue="cluster")

    command = [sys.executable, "-m", "celery", "-A", "gpu_workers.celery:app", "worker", "-Q", "cluster", "-P", "solo"]
    url = ray.server.url
    environ = os.environ | {"TENTALIS_REDIS_URL": broker, "TENTALIS_RAY_URL": url}
    box = subprocess.Popen(command, cwd=ROOT, env=environ)
    try:
        nudge(spec.to_json())
        beat = receive_until(broker, "heartbeat")[-1]
        assert (beat.run_id, beat.attempt, beat.body) == (3, 1, {})
        assert beat.is_signed_with("key")
        write_saved(folders["whole"] / "out" / "1" / "saved")
        ray.jobs["run-3-1"]["status"] = "SUCCEEDED"
        for _ in range(2):  # the second finds the result of the first
            nudge(spec.to_json())
            (letter,) = receive_until(broker, "result")
            result = letter.body
            assert (result["ok"], result["run_id"], result["error_message"]) == (True, 3, "")
        ray.jobs.clear()
        nudge(make_spec(folders["full"], max_new_tokens=62).to_json())
        (letter,) = receive_until(broker, "result")
        result = letter.body
        assert (result["ok"], result["error_type"]) == (False, "NothingToLearnError")
        for file, error in (("cancel", "CancelledError"), ("pause", "PausedError")):
            unwanted = make_spec(folders[file])
            (folders[file] / "out" / "1" / file).touch()
            nudge(unwanted.to_json())
            (letter,) = receive_until(broker, "result")
            result = letter.body
            assert result["error_type"] == error
        assert ray.jobs == {}
    finally:
        box.terminate()
        box.wait(120)
