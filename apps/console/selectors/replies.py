"""What an adapter and its base model reply to the same held-out tasks, in words."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Q

from apps.adapters.models import Adapter
from apps.evals.grading import MOST_READ
from apps.evals.models import Evaluation, ItemTry
from apps.pipeline.demonstration import open_report


@dataclass(frozen=True)
class RepliedTwice:
    """The likeliest answers to a task. Args: was, now: outcomes, in [0, 1]; None: not known."""

    prompt: str
    before: str
    after: str
    was: float | None
    now: float | None


def find_replies(adapter: Adapter) -> Sequence[RepliedTwice]:
    """Those of the newest report on it, the base model's beside; () where there is none, or its tasks have changed."""
    kept = ItemTry.objects.filter(
        Q(evaluation__adapter=adapter) | Q(evaluation__adapter=None),
        evaluation__worker=adapter.worker_id,
        evaluation__purpose=Evaluation.Purpose.REPORT,
        evaluation__is_greedy=True,
        place__lt=MOST_READ,
    ).exclude(answer="")
    rows = list(kept.select_related("evaluation").order_by("-evaluation_id", "place"))
    newest = next((row.evaluation for row in rows if row.evaluation.adapter_id == adapter.pk), None)
    if newest is None:
        return ()
    asked = open_report(adapter.worker)
    if asked is None or asked.hash != newest.item_set_hash:
        return ()
    mine = {row.key: row for row in reversed(rows) if row.evaluation_id == newest.pk}
    theirs = {row.key: row for row in reversed(rows) if row.evaluation.adapter_id is None}
    prompts = dict(zip(asked.keys, (item.prompt for item in asked.items), strict=True))
    return [
        RepliedTwice(prompts[key], theirs[key].answer, row.answer, theirs[key].outcome, row.outcome)
        for key, row in sorted(mine.items(), key=lambda one: one[1].place)
        if key in theirs and key in prompts
    ]
