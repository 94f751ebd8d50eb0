"""A team on a running platform whose trainings on the cluster are cancelled, and killed.

Run in the platform's own environment; what came of it is one JSON line.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import django

django.setup()

from django.conf import settings  # noqa: E402

from apps.accounts.models import User  # noqa: E402
from apps.adapters.models import Adapter  # noqa: E402
from apps.audit.models import AuditEntry  # noqa: E402
from apps.pipeline import flow, trainings  # noqa: E402
from apps.pipeline.demonstration import make_demo_project  # noqa: E402
from apps.rollouts.models import Demonstration  # noqa: E402
from apps.tasks.models import Task  # noqa: E402
from apps.training.models import TrainingRun  # noqa: E402
from apps.workers.models import Worker  # noqa: E402
from gpu_workers.backends.openrlhf.ray_jobs import RayJobs  # noqa: E402
from tentalis.core.desk import make_tickets  # noqa: E402

RECIPE = {"algorithm": "sft", "learning_rate": 1e-3, "minibatches": 2, "epochs": 15, "lora_rank": 8, "kl_coef": 0.0}
SHOWN = 128
"""Demonstrations of a run; fewer than 100 are not worth one."""
ENDED = {"succeeded", "failed", "refused", "cancelled"}


def main(patience_s: float) -> dict[str, Any]:
    by = User.objects.filter(is_superuser=True).first()
    assert by is not None
    worker = make_demo_project(by)
    deadline = time.monotonic() + patience_s

    def wait(until: Callable[[], bool]) -> bool:
        while time.monotonic() < deadline and not until():
            time.sleep(0.2)
        return until()

    cancelled = start(worker, by, round_number=1)
    wait(lambda: has_checkpoint(cancelled, 1) or is_over(cancelled))
    trainings.cancel_run(run=TrainingRun.objects.get(pk=cancelled), by=by)
    wait(lambda: is_over(cancelled))
    after_cancel = {**describe(cancelled), "processes": len(find_processes(cancelled, 1))}

    killed = start(worker, by, round_number=2)
    wait(lambda: has_checkpoint(killed, 1) or is_over(killed))
    processes = find_processes(killed, 1)
    if not processes:
        raise SystemExit(f"nothing trains that could be killed: {describe(killed)}")
    driver = next(pid for pid, words in processes.items() if "torch.distributed.run" in words)
    os.kill(driver, signal.SIGKILL)
    all_gone = wait(lambda: not find_processes(killed, 1))
    wait(lambda: is_over(killed))
    return {
        "cancelled": after_cancel,
        "killed": {**describe(killed), "processes_before": len(processes), "all_gone": all_gone},
        "adapters": Adapter.objects.filter(worker=worker).count(),
        "started": AuditEntry.objects.filter(kind="run.started", project_id=worker.project_id).count(),
    }


def start(worker: Worker, by: User, *, round_number: int) -> int:
    """Queue a run on answers that a person wrote."""
    texts = list(dict.fromkeys(ticket.text for ticket in make_tickets(round_number, 4 * SHOWN, held_out=False)))
    for place, text in enumerate(texts[:SHOWN]):
        task = Task.objects.create(
            project=worker.project, worker=worker, environment="desk", prompt=text, submitted_by=by,
            state=Task.State.DONE, group_size=1,
        )  # fmt: skip
        Demonstration.objects.create(
            project=worker.project, worker=worker, task=task, source="edit", text="4 EUR", digest=f"{place:064}",
            messages=[{"role": "user", "content": text}],
        )  # fmt: skip
    return flow.close_batch(worker=worker, by=by, backend="openrlhf", recipe=RECIPE).pk


def is_over(run_id: int) -> bool:
    return TrainingRun.objects.get(pk=run_id).state in ENDED


def folder(run_id: int, attempt: int) -> Path:
    found: Path = settings.ARTIFACTS / "runs" / str(run_id) / str(attempt)
    return found.resolve()


def has_checkpoint(run_id: int, attempt: int) -> bool:
    return (folder(run_id, attempt) / "checkpoints" / "latest").exists()


def find_processes(run_id: int, attempt: int) -> dict[int, str]:
    """Pid -> command line of what trains an attempt on this machine."""
    place, found = f"{folder(run_id, attempt)}/data.jsonl", {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if place in words:
                found[int(entry.name)] = words
    return found


def describe(run_id: int) -> dict[str, Any]:
    run = TrainingRun.objects.get(pk=run_id)
    ray = RayJobs(settings.TENTALIS["RAY_URL"])
    jobs = {attempt: ray.find(f"run-{run_id}-{attempt}") for attempt in range(1, run.attempt + 2)}
    return {
        "state": run.state,
        "failure": run.failure,
        "attempt": run.attempt,
        "external_id": run.external_id,
        "resumes": (run.spec or {}).get("resume_uri"),
        "updates": [update["update"] for update in run.metrics],
        "jobs": {attempt: job.status for attempt, job in jobs.items() if job is not None},
        "adapters": Adapter.objects.filter(run_id=run_id).count(),
        "seen": [len(find_processes(run_id, attempt)) for attempt in jobs],
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(float(sys.argv[1])), default=str) + "\n")
