"""The promotion gate: whether an adapter may serve, and whether it is proved better, with the reasons in words.

Nothing is believed of a candidate: where it comes from, its tensors and what it was taught with are looked at before it
is served, then it is measured against what serves now on the kept panel, on tasks drawn for it alone, on skills no
reward sees, and at other strengths of its own.
"""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from apps.adapters.artifacts import path_of, read_manifest
from apps.adapters.errors import AdapterBrokenError, MovedMeanwhileError
from apps.adapters.models import Adapter, Deployment, Verdict
from apps.adapters.selectors import BASE, find_anchor, find_deployed
from apps.adapters.services import give_verdict, quarantine, refuse
from apps.adapters.serving import load, serve
from apps.adapters.weights import read_weights
from apps.audit.services import move
from apps.evals.errors import TooFewScoredError, TriesAwaitedError
from apps.evals.panels import Panel, choose_panel, choose_unchecked_panel, say_missing
from apps.gate.examination import LEFT, Examination, describe_comparisons, describe_evidence, join_words
from apps.gate.pairs import ByPeople, NoEvidence, SideBySide, WaitsForPeopleError, choose_evidence, size_of
from apps.gate.second_metrics import AskedLengths, ask_alignment, ask_capability, ask_lengths
from apps.gate.sides import CONFIRMATION, SideMeasurements
from apps.inference.errors import ModelNotServedError, ProviderRefusedError
from apps.outbox.services import final_write
from apps.tasks.offering import offer_tries, require_not_lost
from tentalis.core.learning.gate import (
    AnchorOutcome,
    AnchorVerdict,
    Direction,
    GatePolicy,
    ServingVerdict,
    find_direction,
    judge_progress,
    judge_serving,
)
from tentalis.core.learning.gate_course import may_show
from tentalis.core.learning.monitors import BatchFacts
from tentalis.core.learning.quarantine_checks import (
    Finding,
    suspect_origin,
    suspect_reward,
    suspect_tensors,
)

PEOPLE = "people, who compare its answers with those of what serves"


def gate_adapter(adapter_id: int, *, by: str) -> None:
    """Answer the two questions of the gate and store the verdicts in words.

    An adapter that the server will not load, or whose files are not what they should be, is refused for that reason.
    Where nothing says what is right, answers are compared side by side. Where the worker has no held-out tasks, too
    many of them could not be asked or told apart, or so few of its project's own show neither harm nor that it is good
    enough, nothing is proved: the adapter stays a candidate for a person to promote, or is quarantined where something
    is suspicious. Where people compare, it stays one without a verdict until they did.
    """
    adapter = Adapter.objects.select_related("worker__project", "worker__provider", "parent").get(pk=adapter_id)
    if adapter.state != Adapter.State.CANDIDATE:
        return
    policy = GatePolicy.from_json(adapter.worker.project.gate_policy)
    deployed = find_deployed(adapter.worker, end_user=adapter.end_user)
    try:
        findings = inspect_files(adapter, deployed)
        if broken := [one for one in findings if one.is_broken]:
            refuse(adapter, reason=f"refused: {join_words(broken)}", by=by)
            return
        serve(adapter)
        lengths = ask_lengths(adapter)
    except (ProviderRefusedError, AdapterBrokenError) as error:
        refuse(adapter, reason=f"refused: it cannot be served: {error}", by=by)
        return
    if lengths is not None and lengths.fault:
        words = f"refused: {lengths.fault}; {lengths.words}"
        refuse(adapter, reason=words, by=by, details={"lengths": lengths.details})
        return
    found = _measure(adapter, deployed, policy, findings, by=by)
    if isinstance(found, NoEvidence):
        _store_unproved(adapter, found, findings, lengths, by=by)
    elif found is not None:
        _store(adapter, found, lengths, by=by)


def _measure(
    adapter: Adapter, deployed: Adapter | None, policy: GatePolicy, findings: Sequence[Finding], *, by: str
) -> Examination | NoEvidence | None:
    """Examine a candidate that is served on what there is to measure it on, or say why nothing can be told; None where
    its verdict waits for others."""
    side_by_side: SideBySide | None = None
    panel = choose_panel(adapter.worker, version=adapter.line_version, policy=policy)
    if panel is None:
        panel = choose_unchecked_panel(adapter.worker, size=size_of(adapter, policy))
        if panel is None:
            return NoEvidence(say_missing(adapter.worker))
        chosen = choose_evidence(adapter, policy, by=by)
        if isinstance(chosen, NoEvidence):
            return chosen
        side_by_side = chosen
    ask = partial(examine, adapter, deployed, panel, policy=policy, findings=findings, side_by_side=side_by_side)
    try:
        try:
            return ask()
        except ModelNotServedError:  # the server was restarted in the middle, and forgot what it had loaded
            serve(adapter)
            return ask()
    except TriesAwaitedError as awaited:
        try:
            require_not_lost(awaited, since=adapter.created_at)
        except TooFewScoredError as error:
            return NoEvidence(str(error))
        with final_write():
            offer_tries(awaited, by=by)
            _wait_for(adapter, f"tries of {adapter.worker.name}'s agent")
    except TooFewScoredError as error:
        return NoEvidence(str(error))
    except WaitsForPeopleError:
        with final_write():
            _wait_for(adapter, PEOPLE)
    return None


def _wait_for(adapter: Adapter, reason: str) -> None:
    """Note, in the running transaction, what a candidate's verdict waits for; "" for nothing any more."""
    Adapter.objects.filter(pk=adapter.pk).update(waits_for=reason[:300])


def inspect_files(adapter: Adapter, deployed: Adapter | None) -> tuple[Finding, ...]:
    """What its manifest and its tensors say, without serving it.

    Raises:
        AdapterBrokenError: they cannot be read.
    """
    directory = path_of(adapter.uri)
    manifest = read_manifest(directory, sha256=adapter.sha256)
    parent = adapter.parent
    before = read_manifest(path_of(parent.uri), sha256=parent.sha256) if parent else None
    served = parent if _takes_place(adapter, deployed) else deployed
    origin = suspect_origin(
        manifest,
        parent=before,
        parent_sha256=parent.sha256 if parent else "",
        parent_name=_name(parent),
        served_sha256=served.sha256 if served else "",
        served_name=_name(served),
    )
    tensors = suspect_tensors(
        read_weights(directory),
        read_weights(path_of(parent.uri)) if parent else None,
        modules=manifest.target_modules,
        reach=adapter.taught.get("reach"),
    )
    return (*origin, *tensors)


def _takes_place(adapter: Adapter, deployed: Adapter | None) -> bool:
    """Whether a rebuilt adapter is of the line that serves: its ancestor does, or one that was barred."""
    if not adapter.is_rebuilt or deployed is None or deployed.barred:
        return adapter.is_rebuilt
    return deployed in adapter.lineage


def examine(
    adapter: Adapter,
    deployed: Adapter | None,
    panel: Panel,
    *,
    policy: GatePolicy,
    findings: Sequence[Finding] = (),
    side_by_side: SideBySide | None = None,
) -> Examination:
    """Measure a loaded candidate against what serves and against the anchor. Nothing is written.

    Raises:
        ProviderBusyError, ProviderRefusedError: the model server could not be asked.
        TooFewScoredError: too few answers have an outcome on both sides.
        WaitsForPeopleError: people have yet to compare answers.
    """
    anchor = find_anchor(adapter)
    for other in (deployed, anchor):
        if other is not None:
            load(other)
    sides = SideMeasurements(adapter, panel, policy, side_by_side)
    taught = BatchFacts(**adapter.taught) if adapter.taught else None
    known = [*findings, *(suspect_reward(taught, None) if taught else ())]
    answers = sides.run_course(deployed, asks_leak=not known)
    faults = [*findings, *(suspect_reward(taught, answers.outcomes) if taught else ()), *answers.leaks]
    alarms = list(answers.alarms)

    def judge() -> ServingVerdict:
        return judge_serving(
            answers.outcomes,
            against=_name(deployed),
            policy=policy,
            second=answers.steps if side_by_side is None else None,
            second_name="step scores",
            alarms=alarms,
            faults=[one.words for one in faults if one.is_broken],
            leaves_few=bool(panel.own),
        )

    # The dear questions come last, and only where they can still change what becomes of it.
    if judge().is_safe:
        faults += sides.suspect_skills(deployed)
    for name, ask in (
        ("capability", partial(ask_capability, adapter, panel.world, policy)),
        ("alignment", partial(ask_alignment, adapter, deployed, policy)),
    ):
        if judge().is_safe and (asked := ask()) is not None:
            alarms += asked.alarms
            sides.details[name] = asked.details | {"words": asked.words}
    serving = judge()
    count = answers.kept
    noise_std = None
    if serving.is_safe:
        if faults:
            sides.details["untried"] = "other strengths were not tried: it waits for a person anyway"
        else:
            faults += sides.suspect_strength()
        noise_std = sides.measure_noise(deployed, count) if policy.fresh_size and not panel.own else None
    if isinstance(side_by_side, ByPeople):
        words = "people compared it with what serves alone, not with the anchor"
        outcome = AnchorOutcome.TOO_EARLY
        progress = AnchorVerdict(outcome=outcome, comparison=answers.outcomes, words=words)
        details_then = {"panel": panel.name, "outcome": progress.outcome.value}
    else:
        progress, details_then = _ask_progress(sides, anchor, serving, faults, count=count, noise_std=noise_std)
        if CONFIRMATION in details_then:  # answers to tasks that nobody had looked at
            alarms += sides.ask_alarms()
            serving = judge()
    return Examination(
        deployed=deployed,
        anchor=anchor,
        panel=panel,
        faults=faults,
        serving=serving,
        progress=progress,
        details={
            "alarms": [asdict(alarm) for alarm in alarms],
            "panel": panel.name,
            "faults": [asdict(one) for one in faults],
            "noise_std": noise_std,
            **describe_comparisons(answers.outcomes, None if side_by_side else answers.steps),
            **describe_evidence(panel, serving, policy, side_by_side),
            **sides.details,
        },
        details_then=details_then,
    )


def _ask_progress(
    sides: SideMeasurements,
    anchor: Adapter | None,
    serving: ServingVerdict,
    faults: Sequence[Finding],
    *,
    count: int,
    noise_std: float | None,
) -> tuple[AnchorVerdict, dict[str, Any]]:
    """Whether it is better than the anchor, and the numbers behind that."""
    adapter, panel, policy = sides.adapter, sides.panel, sides.policy
    is_clear = serving.is_safe and not faults
    outcomes_then, steps_then = sides.compare_kept(anchor, count).compare(policy.confidence)
    shown = find_direction(outcomes_then, policy=policy, second=steps_then)
    if is_clear and shown is Direction.NEITHER and may_show(outcomes_then, steps_then, policy=policy, items=panel.size):
        outcomes_then, steps_then = sides.compare_kept(anchor, len(panel.items)).compare(policy.confidence)
        shown = find_direction(outcomes_then, policy=policy, second=steps_then)
    confirmation, unconfirmed = None, "and too few tasks to draw for a confirmation"
    if not serving.is_safe or (faults and shown is not Direction.WORSE):
        unconfirmed = "not asked of further tasks: it may not serve yet"
    elif shown is not Direction.NEITHER:
        confirmation = sides.confirm(anchor, shown)
    progress = judge_progress(
        outcomes_then,
        against=_name(anchor),
        policy=policy,
        updates_since_anchor=adapter.line_version - (anchor.line_version if anchor else 0),
        second=steps_then if sides.side_by_side is None else None,
        second_name="step scores",
        confirmation=confirmation,
        unconfirmed=unconfirmed,
        noise_std=noise_std,
    )
    return progress, {
        "panel": panel.name,
        "outcome": progress.outcome.value,
        **describe_comparisons(outcomes_then, None if sides.side_by_side else steps_then),
        **({CONFIRMATION: asdict(confirmation)} if confirmation else {}),
    }


def _store(adapter: Adapter, found: Examination, lengths: AskedLengths | None, *, by: str) -> None:
    state = found.state
    with final_write():
        _require_unmoved(adapter, found.deployed)
        _wait_for(adapter, "")
        give_verdict(
            adapter,
            Verdict.Question.SAFE,
            found.safe,
            reason=f"{found.words}; {lengths.words}" if lengths else found.words,
            compared_with=found.deployed,
            details=found.details | _tell(lengths),
            by=by,
        )
        give_verdict(
            adapter,
            Verdict.Question.PROVED,
            found.proved,
            reason=found.progress.words,
            compared_with=found.anchor,
            details=found.details_then,
            by=by,
        )
        if state == Adapter.State.QUARANTINED:
            quarantine(adapter, reason=join_words(found.faults), by=by)
            return
        if state == Adapter.State.CANDIDATE:  # it is left to a person
            return
        move(adapter, state, by=by)
        if state == Adapter.State.VERIFIED and found.progress.outcome is AnchorOutcome.PROVED:
            line = Adapter.objects.filter(worker=adapter.worker, end_user=adapter.end_user)
            line.filter(is_anchor=True).update(is_anchor=False)
            Adapter.objects.filter(pk=adapter.pk).update(is_anchor=True)


def _require_unmoved(adapter: Adapter, deployed: Adapter | None) -> None:
    """Lock what serves in the running transaction, and see that it is what was compared with.

    Raises:
        MovedMeanwhileError: somebody took it back or put another into service; the gate asks anew.
    """
    Deployment.hold(adapter)
    if find_deployed(adapter.worker, end_user=adapter.end_user) != deployed:
        raise MovedMeanwhileError(f"{_name(deployed)} served when {adapter.name} was measured, and serves no more")


def _store_unproved(
    adapter: Adapter, why: NoEvidence, found: Sequence[Finding], lengths: AskedLengths | None, *, by: str
) -> None:
    with final_write():
        Deployment.hold(adapter)
        _wait_for(adapter, "")
        words = f"{why.words}: {LEFT}"
        words = f"{words}; {lengths.words}" if lengths else words
        give_verdict(
            adapter,
            Verdict.Question.SAFE,
            Verdict.Outcome.INCONCLUSIVE,
            reason=f"{words}; under suspicion: {join_words(found)}" if found else words,
            compared_with=None,
            details={"faults": [asdict(one) for one in found]} | why.details | _tell(lengths),
            by=by,
        )
        if found:
            quarantine(adapter, reason=join_words(found), by=by)


def _tell(lengths: AskedLengths | None) -> dict[str, Any]:
    return {"lengths": lengths.details} if lengths else {}


def _name(adapter: Adapter | None) -> str:
    return adapter.name if adapter else BASE
