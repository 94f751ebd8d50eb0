"""A verdict that waits for what others do: a state, which ends when they have done it, and the gate asks anew.

What is known by then is kept where it was measured, so that asking anew costs only what is new.
"""

from apps.adapters.models import Adapter
from apps.evals.models import Evaluation


def wait_for(adapter: Adapter, reason: str) -> None:
    """Note, in the running transaction, what a candidate's verdict waits for; "" for nothing any more."""
    Adapter.objects.filter(pk=adapter.pk).update(waits_for=reason[:300])


def find_answered() -> list[tuple[int, int]]:
    """(id, project) of the candidates whose verdicts wait for nothing any more."""
    waiting = Adapter.objects.filter(state=Adapter.State.CANDIDATE).exclude(waits_for="")
    measured = Evaluation.objects.filter(state=Evaluation.State.WAITING, asked_by="")
    return list(waiting.exclude(worker__in=measured.values("worker")).values_list("pk", "project_id"))
