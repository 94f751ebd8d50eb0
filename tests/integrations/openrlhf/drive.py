"""A team on a running platform that trains with OpenRLHF: tickets in, reviewed, trained on the cluster, served.

Run in the platform's own environment; what came of it is one JSON line.
"""

import json
import sys
import time
from typing import Any

import django

django.setup()

from apps.accounts.models import Project, User  # noqa: E402
from apps.adapters.models import Adapter, Deployment  # noqa: E402
from apps.adapters.selectors import find_deployed  # noqa: E402
from apps.audit.chain import seal_entries, verify_chain  # noqa: E402
from apps.audit.models import AuditEntry  # noqa: E402
from apps.outbox.models import Segment  # noqa: E402
from apps.pipeline import flow  # noqa: E402
from apps.pipeline.demonstration import make_demo_project  # noqa: E402
from apps.training.models import RewardAnswer, TrainingRun  # noqa: E402
from tentalis.core.desk import make_tickets  # noqa: E402

ENDED = {"succeeded", "failed", "refused", "cancelled"}
RECIPE = {
    "algorithm": "grpo", "step_mix": 0.0, "w_rl": 0.7, "w_opd": 0.3, "opd_mode": "logprobs", "importance_cap": 2.0,
    "learning_rate": 4e-3, "minibatches": 2, "lora_rank": 8, "lora_alpha": 16.0,
}  # fmt: skip


def main(patience_s: float) -> dict[str, Any]:
    by = User.objects.filter(is_superuser=True).first()
    assert by is not None
    worker = make_demo_project(by)
    Project.objects.filter(pk=worker.project_id).update(recipe=RECIPE)
    worker.project.refresh_from_db()
    for index, ticket in enumerate(make_tickets(5, worker.project.batch_tasks, held_out=False)):
        flow.submit(
            project=worker.project, prompt=ticket.text, environment="desk", by=by, worker=worker, seed=1000 + index
        )
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline and not is_over(worker.pk):
        time.sleep(1.0)
    while seal_entries():
        pass
    run = TrainingRun.objects.get(worker=worker)
    adapter = Adapter.objects.filter(run_id=run.pk).first()
    deployed = find_deployed(worker)
    entries = AuditEntry.objects.filter(project_id=worker.project_id).order_by("id")
    return {
        "run": {"state": run.state, "failure": run.failure, "external_id": run.external_id, "attempt": run.attempt},
        "metrics": run.metrics,
        "summary": run.summary,
        "rewards": RewardAnswer.objects.filter(run=run).count(),
        "adapter": {"name": adapter.name, "state": adapter.state} if adapter else None,
        "verdicts": [[one.question, one.words] for one in adapter.verdicts.all()] if adapter else [],
        "deployed": deployed.name if deployed else "",
        "deployments": Deployment.objects.filter(worker=worker).count(),
        "audit": list(entries.values_list("kind", flat=True)),
        "audit_ok": verify_chain().is_clean,
    }


def is_over(worker_id: int) -> bool:
    run = TrainingRun.objects.filter(worker_id=worker_id).first()
    if run is None or run.state not in ENDED:
        return False
    adapter = Adapter.objects.filter(run_id=run.pk).first()
    if adapter is None:
        return run.state != "succeeded"
    adopting = Segment.objects.filter(kind="adopt", subject_id=adapter.pk, state=Segment.State.OPEN)
    return adapter.state != Adapter.State.CANDIDATE and not adopting.exists()


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(float(sys.argv[1])), default=str) + "\n")
