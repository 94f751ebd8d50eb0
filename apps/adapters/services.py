"""From a trained directory to a served adapter: record, gate, promote, roll back."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.db.models import Max
from django.db.models.functions import Now
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.adapters import permitted
from apps.adapters.artifacts import path_of, read_manifest
from apps.adapters.canary import clear_canary, end_trial_of, look_again
from apps.adapters.errors import AdapterBrokenError, WrongLineError
from apps.adapters.models import Adapter, Deployment, Verdict
from apps.adapters.selectors import BASE, find_deployed, find_deployment, find_fallback, find_returning
from apps.adapters.serving import serve
from apps.adapters.shadows import end_overtaken
from apps.audit.kinds import Kind
from apps.audit.services import move, record, was_last_by
from apps.base.errors import BadInputError, ConflictError, IllegalMoveError
from apps.outbox.kinds import OUTBOX
from apps.outbox.services import final_write
from apps.workers.models import Worker
from apps.workers.rules import require_own_line
from tentalis.core.learning.gate import GatePolicy

EVERYBODYS = "what serves everybody"


def record_adapter(
    *,
    worker: Worker,
    parent: Adapter | None,
    run_id: int | None,
    uri: str,
    sha256: str,
    by: str,
    end_user: str = "",
    is_rebuilt: bool = False,
    made_by: Mapping[str, object] | None = None,
) -> Adapter:
    """Take a trained directory into the registry as a candidate, after checking every file's hash.

    Args:
        run_id: None where no run of ours made it.
        end_user: whose own it is; "" for the worker's.
        is_rebuilt: it takes the place of one that was barred.
        made_by: what its manifest must say of the training it came from.
    Raises:
        AdapterBrokenError: the directory is not what it should be, or of another training; nothing is written.
    """
    manifest = read_manifest(path_of(uri), sha256=sha256)
    for name, wanted in (made_by or {}).items():
        if (found := getattr(manifest, name)) != wanted:
            raise AdapterBrokenError(f"the manifest is of another training: {name} must be {wanted}, found {found}")
    with transaction.atomic():
        Worker.objects.select_for_update(no_key=True).get(pk=worker.pk)
        last = Adapter.objects.filter(worker=worker).order_by("-version").first()
        version = last.version + 1 if last else 1
        line = Adapter.objects.filter(worker=worker, end_user=end_user).aggregate(last=Max("line_version"))["last"]
        adapter = Adapter.objects.create(
            project_id=worker.project_id,
            worker=worker,
            name=f"{worker.project.slug}.{worker.name}@v{version}-{sha256[:8]}",
            version=version,
            end_user=end_user,
            line_version=max(line or 0, parent.line_version if parent else 0) + 1,
            parent=parent,
            run_id=run_id,
            uri=uri,
            sha256=sha256,
            manifest=manifest.to_json(),
            is_rebuilt=is_rebuilt,
        )
        record(Kind.ADAPTER_RECORDED, subject=adapter, by=by, payload={"run": run_id, "sha256": sha256})
    return adapter


def refuse(adapter: Adapter, *, reason: str, by: str, details: dict[str, Any] | None = None) -> None:
    """Store an adapter as refused with the reason, and the numbers behind it where there are some."""
    with final_write():
        give_verdict(
            adapter,
            Verdict.Question.SAFE,
            Verdict.Outcome.NO,
            reason=reason,
            compared_with=None,
            details=details or {},
            by=by,
        )
        end_trial_of(adapter, outcome="stopped", reason=reason, by=by)
        move(adapter, Adapter.State.REFUSED, by=by, payload={"words": reason})


def refuse_unjudged(adapter_id: int, *, reason: str, by: str) -> None:
    """Refuse an adapter that could not be judged or served; one that serves or was refused already is left alone, and
    so is a candidate that was judged: it is left to a person."""
    adapter = Adapter.objects.get(pk=adapter_id)
    if adapter.state == Adapter.State.CANDIDATE:
        if not adapter.verdicts.filter(question=Verdict.Question.SAFE).exists():
            refuse(adapter, reason=reason, by=by)
    elif adapter.state == Adapter.State.VERIFIED:
        with transaction.atomic():
            end_trial_of(adapter, outcome="stopped", reason=reason, by=by)
            move(adapter, Adapter.State.REFUSED, by=by, payload={"words": reason})


def revive_unjudged(adapter_id: int, *, link: str, by: str) -> None:
    """Have an adapter judged or put into service after all that `refuse_unjudged` refused, and nobody else: it is what
    it was before that. The verdict that says only why it could not be judged goes; the audit keeps it."""
    adapter = Adapter.objects.get(pk=adapter_id)
    was_refused = adapter.state == Adapter.State.REFUSED and not adapter.barred
    if not was_refused or not was_last_by(Kind.ADAPTER_REFUSED, adapter, by=OUTBOX):
        return
    safe = adapter.verdicts.filter(question=Verdict.Question.SAFE)
    is_judged = safe.exclude(outcome=Verdict.Outcome.NO).exists()
    with transaction.atomic():
        if not is_judged:
            safe.delete()
        move(adapter, Adapter.State.VERIFIED if is_judged else Adapter.State.CANDIDATE, by=by, payload={"link": link})


def give_verdict(
    adapter: Adapter,
    question: Verdict.Question,
    outcome: Verdict.Outcome,
    *,
    reason: str,
    compared_with: Adapter | None,
    details: dict[str, Any],
    by: str,
) -> Verdict:
    """Write a verdict and its audit entry."""
    verdict = Verdict.objects.create(
        adapter=adapter,
        question=question,
        outcome=outcome,
        words=reason,
        compared_with=compared_with.name if compared_with else "",
        details=details,
    )
    payload = {"question": question.value, "outcome": outcome.value, "words": reason}
    record(Kind.VERDICT_GIVEN, subject=adapter, by=by, payload=payload)
    return verdict


def promote_verified(adapter_id: int, *, by: str) -> None:
    """Deploy an adapter that the gate found safe; one it refused is left alone, and so is one on trial.

    Where the project's policy wants a canary first, that is the pipeline's to start: it knows the tasks. A person's
    adapter has none: too few tasks are theirs. While another is on trial it is held back, for a day at most: see
    `find_held`.
    """
    adapter = Adapter.objects.select_related("worker__provider", "worker__project").get(pk=adapter_id)
    if adapter.state != Adapter.State.VERIFIED:
        return
    if GatePolicy.from_json(adapter.project.gate_policy).canary_percent and not adapter.end_user:
        return
    if find_trial_before(adapter) is None:
        serve(adapter)
    with final_write():
        Deployment.hold(adapter)
        if (trial := find_trial_before(adapter)) is not None:
            _hold_back(adapter, trial, by=by)
            return
        if words := find_outdated(adapter):
            quarantine(adapter, reason=words, by=by)
            return
        deploy(adapter.worker, adapter, by=by, kind=Kind.DEPLOYMENT_MOVED, end_user=adapter.end_user)


def find_trial_before(adapter: Adapter) -> Deployment | None:
    """The trial whose end comes before an adapter may serve by itself; None where it need not wait.

    What was made again without a forgotten person's data waits for nothing.
    """
    deployment = None if adapter.is_rebuilt or adapter.end_user else find_deployment(adapter.worker)
    until = deployment.holds_until if deployment is not None else None
    return deployment if until is not None and until > timezone.now() else None


def find_held() -> list[Adapter]:
    """What was held back by a trial that has ended, or lasted too long: the newest of each worker.

    Older ones were overtaken and wait no more; a person may still promote them.
    """
    waiting = Adapter.objects.filter(state=Adapter.State.VERIFIED, held_since__isnull=False)
    newest: dict[int, Adapter] = {}
    for adapter in waiting.select_related("worker").order_by("version"):
        newest[adapter.worker_id] = adapter
    waiting.exclude(pk__in=[adapter.pk for adapter in newest.values()]).update(held_since=None)
    return [adapter for adapter in newest.values() if find_trial_before(adapter) is None]


def _hold_back(adapter: Adapter, trial: Deployment, *, by: str) -> None:
    """Note that an adapter waits for the end of another's trial, in the running transaction; once."""
    if trial.canary is None or trial.canary_id == adapter.pk or trial.holds_until is None:
        return
    if Adapter.objects.filter(pk=adapter.pk, held_since=None).update(held_since=Now()):
        until = trial.holds_until.isoformat()
        words = f"held back until the canary {trial.canary.name} has ended, at the latest at {until}"
        record(Kind.ADAPTER_HELD, subject=adapter, by=by, payload={"words": words, "until": until})


def find_outdated(adapter: Adapter) -> str:
    """Why the gate's answer holds no more: what it was compared with serves no longer; "" while it holds.

    Somebody took that back meanwhile, and what was just judged continues it. What serves is locked in the running
    transaction.
    """
    Deployment.hold(adapter)
    verdict = adapter.verdicts.filter(question=Verdict.Question.SAFE).first()
    serving = find_deployed(adapter.worker, end_user=adapter.end_user)
    now = serving.name if serving else ""
    if verdict is None or adapter.is_rebuilt or verdict.compared_with == now:
        return ""
    return f"it was found safe beside {verdict.compared_with or BASE}, and {now or BASE} serves by now"


def find_taken_back(adapter: Adapter) -> str:
    """Why an adapter is not to be tried by itself: what the gate compared it with was taken back, and something older
    serves by now; "" otherwise.

    Beside something newer it is tried, and so is what a person released. What serves is locked in the running
    transaction.
    """
    if adapter.suspicion or not (words := find_outdated(adapter)):
        return ""
    compared = Adapter.objects.filter(
        worker=adapter.worker_id,
        name__in=adapter.verdicts.filter(question=Verdict.Question.SAFE).values("compared_with"),
    ).first()
    if compared is None:
        return ""
    serving = find_deployed(adapter.worker, end_user=adapter.end_user)
    return words if serving is None or serving.version < compared.version else ""


def promote(*, adapter: Adapter, by: User) -> Deployment:
    """Deploy an adapter by a person's decision: for everybody, or for the one whose own it is.

    Raises:
        IllegalMoveError: it was refused, suspected or barred, be it while it was loaded, or serves already.
    """
    require_right(by, adapter.project, Right.ADAPTERS_WRITE)
    permitted.require(adapter, "promoted")
    serve(adapter)
    with transaction.atomic():
        Deployment.lock(adapter.worker, end_user=adapter.end_user)
        adapter.state = _require_still_promotable(adapter)
        if adapter.state == Adapter.State.CANDIDATE:
            words = {"words": "promoted without proof, by a person"}
            move(adapter, Adapter.State.VERIFIED, by=by.handle, payload=words)
        return deploy(adapter.worker, adapter, by=by.handle, kind=Kind.DEPLOYMENT_MOVED, end_user=adapter.end_user)


def _require_still_promotable(adapter: Adapter) -> str:
    """The state that an adapter, which was loaded meanwhile, is in now; locked in the running transaction.

    Raises:
        IllegalMoveError: it may not be put into service any more.
    """
    now = look_again(adapter)
    permitted.require(now, "promoted")
    return now.state


def quarantine(adapter: Adapter, *, reason: str, by: str) -> None:
    """Let a person look at it before it serves, in the running transaction; where it is on trial, that ends."""
    end_trial_of(adapter, outcome="stopped", reason=reason, by=by)
    move(adapter, Adapter.State.QUARANTINED, by=by, payload={"words": reason[:300]}, suspicion=reason, held_since=None)


def suspect(*, adapter: Adapter, by: User, reason: str) -> Adapter:
    """Put an adapter under suspicion by a person's decision: it cannot serve before somebody releases it.

    Raises:
        BadInputError: no reason is given.
        IllegalMoveError: it serves (roll it back first), or was refused.
    """
    require_right(by, adapter.project, Right.ADAPTERS_WRITE)
    _require_reason(reason, "what is suspicious")
    permitted.require(adapter, "suspected")
    with transaction.atomic():
        Deployment.lock(adapter.worker, end_user=adapter.end_user)
        quarantine(adapter, reason=reason.strip(), by=by.handle)
    return adapter


def release(*, adapter: Adapter, by: User, reason: str) -> Adapter:
    """Let an adapter out of quarantine by a person's decision: it counts as safe, and may be promoted.

    Raises:
        BadInputError: no reason is given.
        IllegalMoveError: it is not in quarantine, or was barred.
    """
    require_right(by, adapter.project, Right.ADAPTERS_WRITE)
    _require_reason(reason, "why it is harmless")
    permitted.require(adapter, "released")
    payload = {"words": f"released by a person: {reason.strip()[:240]}", "suspicion": adapter.suspicion[:300]}
    move(adapter, Adapter.State.VERIFIED, by=by.handle, payload=payload)
    return adapter


def _require_reason(reason: str, wanted: str) -> None:
    if not reason.strip():
        raise BadInputError.at("reason", f"wanted {wanted}, found nothing")


def promote_tried(deployment: Deployment, *, by: str) -> Deployment:
    """Put the canary that `deployment` names into service, after its trial went well.

    Raises:
        ConflictError: it is not the canary any more.
        IllegalMoveError: it was refused, suspected or barred meanwhile.
    """
    adapter = deployment.canary
    if adapter is None:
        raise ConflictError(f"{deployment.worker.name} has no canary")
    serve(adapter)
    with transaction.atomic():
        if not Deployment.objects.select_for_update().filter(pk=deployment.pk, canary=adapter).exists():
            raise ConflictError(f"{adapter.name} is not tried any more")
        adapter.state = _require_still_promotable(adapter)
        if adapter.state == Adapter.State.CANDIDATE:
            move(
                adapter,
                Adapter.State.VERIFIED,
                by=by,
                payload={"words": f"found safe on trial: {deployment.canary_words}"},
            )
        return deploy(deployment.worker, adapter, by=by, kind=Kind.DEPLOYMENT_MOVED)


def roll_back(*, worker: Worker, by: User, end_user: str = "") -> Deployment:
    """Return a worker, or one person who asks it, to what served before.

    Args:
        end_user: who has adapters of their own; after the first of them the worker's serve again.
    Raises:
        ConflictError: nothing but the base model ever served it, it learns with another, or what serves it moved
            meanwhile.
    """
    require_right(by, worker.project, Right.ADAPTERS_WRITE)
    require_own_line(worker, "roll back")
    deployment = find_deployment(worker, end_user=end_user)
    if deployment is None or deployment.adapter is None:
        found = EVERYBODYS if end_user else BASE
        raise ConflictError(f"{worker.name} is served by {found}: there is nothing to roll back to")
    return _go_back(deployment, by=by.handle)


def rollback_blocked(deployment: Deployment, *, by: str) -> Deployment:
    """Put what served before into the place of an adapter that was barred while it served; of any other, nothing."""
    if deployment.adapter is None or not deployment.adapter.barred:
        return deployment
    return _go_back(deployment, by=by)


def _go_back(deployment: Deployment, *, by: str) -> Deployment:
    target = find_returning(Deployment.objects.select_related("previous").get(pk=deployment.pk))
    if target is not None:
        serve(target)
    with transaction.atomic():
        now = Deployment.lock(deployment.worker, end_user=deployment.end_user)
        if now.adapter_id != deployment.adapter_id:
            found = now.adapter.name if now.adapter else BASE
            raise ConflictError(f"{now.worker.name} is served by {found} by now: look again before you roll back")
        return deploy(deployment.worker, target, by=by, kind=Kind.DEPLOYMENT_ROLLED_BACK, end_user=deployment.end_user)


def deploy(worker: Worker, adapter: Adapter | None, *, by: str, kind: Kind, end_user: str = "") -> Deployment:
    """Move the worker's deployment in the running transaction; requests under way end on what they started with.

    Args:
        adapter: of the same line; None for the base model, and for a person what serves everybody.
        end_user: whose deployment; "" for the worker's.
    Raises:
        WrongLineError: the adapter is another person's.
        IllegalMoveError: it was barred.
    """
    if adapter is not None and adapter.end_user != end_user:
        raise WrongLineError(f"{adapter.name} is not of this line: it may serve nobody else")
    if adapter is not None:
        barred = Adapter.objects.values_list("barred", flat=True).get(pk=adapter.pk)
        if barred:
            raise IllegalMoveError(f"{adapter.name} cannot be put into service: {barred}")
    deployment = Deployment.lock(worker, end_user=end_user)
    before = deployment.adapter
    if before is not None and adapter is not None and before.pk == adapter.pk:
        return deployment
    if not end_user:
        end_overtaken(worker, serves=adapter, by=by)
    if before is not None:
        move(before, Adapter.State.RETIRED, by=by)
        if before.barred:
            quarantine(before, reason=before.barred, by=by)
    if adapter is not None:
        move(adapter, Adapter.State.DEPLOYED, by=by, held_since=None)
    deployment.adapter = adapter
    goes_back = kind == Kind.DEPLOYMENT_ROLLED_BACK or (before is not None and before.barred)
    deployment.previous = find_fallback(adapter) if goes_back else before
    deployment.epoch += 1
    deployment.save(update_fields=["adapter", "previous", "epoch", "moved_at"])
    if (tried := deployment.canary) is not None:
        is_it = adapter is not None and tried.pk == adapter.pk
        clear_canary(deployment, outcome="promoted" if is_it else "replaced", reason="", by=by, replaced_by=adapter)
    none = EVERYBODYS if end_user else BASE
    payload = {
        "from": before.name if before else none,
        "to": adapter.name if adapter else none,
        "epoch": deployment.epoch,
    }
    record(kind, subject=worker, by=by, payload=payload)
    return deployment
