"""Block adapters for ever when somebody they learnt from was erased (GDPR, unlearning)."""

from collections.abc import Iterable

from apps.adapters.canary import clear_canary
from apps.adapters.models import Adapter, Deployment, Shadow, Verdict
from apps.adapters.services import quarantine
from apps.adapters.shadows import close_shadow
from apps.audit.kinds import Kind
from apps.audit.services import record

SUSPECT = frozenset({Adapter.State.CANDIDATE, Adapter.State.VERIFIED, Adapter.State.RETIRED})


def find_taught(run_ids: Iterable[int]) -> list[Adapter]:
    """Adapters that came from these trainings, and every one that continues them, oldest first."""
    found = {one.pk: one for one in Adapter.objects.filter(run_id__in=list(run_ids))}
    newest: Iterable[int] = list(found)
    while newest:
        children = {one.pk: one for one in Adapter.objects.filter(parent__in=newest)}
        newest = children.keys() - found.keys()
        found |= children
    return [found[pk] for pk in sorted(found)]


def bar(adapters: Iterable[Adapter], *, reason: str, by: str) -> list[Adapter]:
    """Keep adapters from ever serving again, in the running transaction; one at work stays for now.

    Returns:
        Those that were not barred before.
    """
    adapters = list(adapters)
    served = Deployment.objects.filter(worker__in={one.worker_id for one in adapters}).order_by("pk")
    list(served.select_for_update(of=("self",)).values_list("pk"))  # before the adapters, as who deploys one does
    rows = Adapter.objects.select_for_update(of=("self",)).filter(pk__in=[one.pk for one in adapters], barred="")
    barred = list(rows.exclude(state=Adapter.State.REFUSED).select_related("worker").order_by("pk"))
    for adapter in barred:
        for deployment in Deployment.objects.filter(canary=adapter):
            clear_canary(deployment, outcome="stopped", reason=reason[:300], by=by)
        for shadow in Shadow.objects.filter(adapter=adapter, state=Shadow.State.RUNNING):
            close_shadow(shadow, outcome=Shadow.Outcome.STOPPED, reason=reason, by=by)
        Adapter.objects.filter(pk=adapter.pk).update(barred=reason)
        record(Kind.ADAPTER_BARRED, subject=adapter, by=by, payload={"words": reason})
        if adapter.state in SUSPECT:
            quarantine(adapter, reason=reason, by=by)
    for adapter in barred:
        if adapter.is_anchor:
            _hand_on_anchor(adapter)
    return barred


def _hand_on_anchor(adapter: Adapter) -> None:
    """What was proved before it is what "improved by" is measured from; the base model where nothing was."""
    Adapter.objects.filter(pk=adapter.pk).update(is_anchor=False)
    before = adapter.parent
    proofs = Verdict.objects.filter(question=Verdict.Question.PROVED, outcome=Verdict.Outcome.YES)
    while before is not None and before.end_user == adapter.end_user:
        if not before.barred and proofs.filter(adapter=before).exists():
            Adapter.objects.filter(pk=before.pk).update(is_anchor=True)
            return
        before = before.parent
