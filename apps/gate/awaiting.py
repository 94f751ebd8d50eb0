"""A verdict that waits for what others do, an agent's tries or people's words: a state, `Adapter.waits_for`, which ends
when they have done it, and the gate asks anew.

What is known by then is kept where it was measured or said, so that asking anew costs only what is new.
"""

from collections.abc import Sequence

from django.db import transaction

from apps.adapters.models import Adapter
from apps.evals.models import Evaluation
from apps.gate.models import AnswerPair
from apps.gate.pairs import withdraw_pairs


def find_answered() -> list[tuple[int, int]]:
    """(id, project) of the candidates whose verdicts wait for nothing any more."""
    waiting = Adapter.objects.filter(state=Adapter.State.CANDIDATE).exclude(waits_for="")
    measured = Evaluation.objects.filter(state=Evaluation.State.WAITING, asked_by="")
    compared = AnswerPair.objects.that_wait()
    answered = waiting.exclude(worker__in=measured.values("worker")).exclude(pk__in=compared.values("adapter"))
    return list(answered.values_list("pk", "project_id"))


def were_compared(task_ids: Sequence[int]) -> bool:
    """Whether people compared an adapter's answers in one of these tasks."""
    return AnswerPair.objects.filter(task__in=task_ids).exists()


def withdraw_decided(*, by: str) -> None:
    """Let an adapter wait for nothing that a person decided about meanwhile: its pairs leave the queue."""
    decided = Adapter.objects.exclude(state=Adapter.State.CANDIDATE).exclude(waits_for="")
    with transaction.atomic():
        ids = list(decided.select_for_update(no_key=True, of=("self",)).values_list("pk", flat=True))
        withdraw_pairs(ids, by=by)
        Adapter.objects.filter(pk__in=ids).update(waits_for="")
