"""Adapters of people over REST: found by whose they are, rolled back for them alone."""

from urllib.parse import quote

from apps.adapters.models import Adapter, Deployment
from apps.rollouts.models import Batch
from apps.workers.models import Worker
from tests.apps.console.test_per_user import GRACE, adapters
from tests.edges.caller import Caller

__all__ = ["adapters"]  # a fixture


def test_rest_finds_what_is_a_persons_and_rolls_it_back(
    worker: Worker, as_alice: Caller, adapters: tuple[Adapter, Adapter]
) -> None:
    Batch.objects.create(project=worker.project, worker=worker, number=1, end_user=GRACE, target_tasks=9)
    for resource in ("adapters", "batches"):
        found = as_alice.get(f"{resource}?end_user={quote(GRACE)}").body["results"]
        assert [row["end_user"] for row in found] == [GRACE]
    changed = as_alice.patch(f"workers/{worker.pk}", {"adapters_per": "worker", "user_batch_tasks": 4})
    assert (changed.body["adapters_per"], changed.body["user_batch_tasks"], changed.body["adapter"]) == (
        "worker",
        4,
        adapters[0].name,
    )
    assert as_alice.patch(f"workers/{worker.pk}", {"adapters_per": "team"}).status == 400
    back = as_alice.post(f"adapters/{adapters[1].pk}/rollback", {})
    assert (back.body["end_user"], back.body["adapter"]) == (GRACE, None)
    assert Deployment.objects.get(end_user="").adapter == adapters[0]
