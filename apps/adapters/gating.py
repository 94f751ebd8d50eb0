"""The promotion gate: whether an adapter may serve, and whether it is proved better, with the reasons in words.

Nothing is believed of a candidate: where it comes from, its tensors and what it was taught with are looked at before it
is served, then it is measured against what serves now on the kept panel, on tasks drawn for it alone, on skills no
reward sees, and at other strengths of its own.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any

from apps.adapters.artifacts import path_of, read_manifest
from apps.adapters.canary import hold_served
from apps.adapters.errors import AdapterBrokenError, AdapterNotServableError, MovedMeanwhileError
from apps.adapters.models import Adapter, PanelResult, SideResult, Verdict
from apps.adapters.panels import (
    Panel,
    Tried,
    choose_panel,
    draw_fresh,
    find_or_measure,
    measure,
    name_of,
    profile_of,
    read_gate_policy,
    try_items,
)
from apps.adapters.scales import serve_scaled
from apps.adapters.selectors import find_anchor, find_deployed
from apps.adapters.services import BASE, give_verdict, quarantine, refuse
from apps.adapters.serving import client_of, load, serve
from apps.adapters.weights import read_weights
from apps.audit.services import move
from apps.inference.errors import ModelNotServedError, ProviderRefusedError
from apps.outbox.services import final_write
from tentalis.core.learning.collapse import Alarm, AnswerProfile, decide_alarms
from tentalis.core.learning.gate import (
    AnchorOutcome,
    AnchorVerdict,
    GatePolicy,
    PairedComparison,
    ServingVerdict,
    compare_paired,
    judge_progress,
    judge_serving,
)
from tentalis.core.learning.suspicion import (
    SCALES,
    BatchFacts,
    Finding,
    suspect_leak,
    suspect_origin,
    suspect_reward,
    suspect_skills,
    suspect_strength,
    suspect_tensors,
)
from tentalis.core.worlds import PanelItem

SKILLS_SEED = 90_000
SKILLS_DRAWN = 4
"""Tasks that the base model is tried on for each one that it is hoped to do right."""
SKILLS_ROUNDS = 4
"""Times that each of those is answered at most, where the base model does few right."""
AGAIN = 7_919
"""Added to a panel's seeds where it is measured once more."""

_PROVED = {
    AnchorOutcome.PROVED: Verdict.Outcome.YES,
    AnchorOutcome.WORSE: Verdict.Outcome.NO,
    AnchorOutcome.TOO_EARLY: Verdict.Outcome.INCONCLUSIVE,
    AnchorOutcome.INCONCLUSIVE: Verdict.Outcome.INCONCLUSIVE,
}


@dataclass(frozen=True)
class Examination:
    """What the gate found, before it is written.

    Attributes:
        faults: what is suspicious; a broken thing refuses, another one asks for a person.
        details: numbers behind both verdicts, for the pages.
    """

    deployed: Adapter | None
    anchor: Adapter | None
    panel: Panel
    results: Sequence[PanelResult]
    sides: Sequence[SideResult]
    faults: Sequence[Finding]
    serving: ServingVerdict
    progress: AnchorVerdict
    details: dict[str, Any]
    details_then: dict[str, Any]

    @property
    def state(self) -> Adapter.State:
        if not self.serving.is_safe or self.progress.outcome is AnchorOutcome.WORSE:
            return Adapter.State.REFUSED
        return Adapter.State.QUARANTINED if self.faults else Adapter.State.VERIFIED


def gate_adapter(adapter_id: int, *, by: str) -> None:
    """Answer the two questions of the gate and store the verdicts in words.

    An adapter that the server will not load, or whose files are not what they should be, is refused for that reason.
    Where the worker's world has no held-out tasks nothing is proved: the adapter stays a candidate for a person to
    promote, or is quarantined where something is suspicious.
    """
    adapter = Adapter.objects.select_related("worker__project", "worker__provider", "parent").get(pk=adapter_id)
    if adapter.state != Adapter.State.CANDIDATE:
        return
    policy = read_gate_policy(adapter.worker.project)
    deployed = find_deployed(adapter.worker, end_user=adapter.end_user)
    try:
        found = inspect_files(adapter, deployed)
        if broken := [one for one in found if one.is_broken]:
            refuse(adapter, words=f"refused: {_join(broken)}", by=by)
            return
        serve(adapter)
    except (ProviderRefusedError, AdapterBrokenError) as error:
        refuse(adapter, words=f"refused: it cannot be served: {error}", by=by)
        return
    panel = choose_panel(adapter.worker, version=adapter.line_version, policy=policy)
    if panel is None:
        _store_unproved(adapter, found, by=by)
        return
    try:
        examination = examine(adapter, deployed, panel, policy=policy, found=found)
    except ModelNotServedError:  # the server was restarted in the middle, and forgot what it had loaded
        serve(adapter)
        examination = examine(adapter, deployed, panel, policy=policy, found=found)
    _store(adapter, examination, by=by)


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
    before = adapter.parent
    while before is not None and before != deployed:
        before = before.parent
    return before is not None


def examine(
    adapter: Adapter, deployed: Adapter | None, panel: Panel, *, policy: GatePolicy, found: Sequence[Finding] = ()
) -> Examination:
    """Measure a loaded candidate against what serves and against the anchor. Nothing is written.

    Raises:
        ProviderBusyError, ProviderRefusedError: the model server could not be asked.
    """
    worker, anchor = adapter.worker, find_anchor(adapter)
    for other in (deployed, anchor):
        if other is not None:
            load(other)
    measured = {model: find_or_measure(worker, model, panel) for model in dict.fromkeys((None, deployed, anchor))}
    candidate = measure(worker, adapter, panel)
    sides = _Sides(adapter, panel, policy)
    fresh = [sides.measure_fresh(adapter), sides.measure_fresh(deployed)] if policy.fresh_size else []
    alarms = sides.find_alarms(candidate, measured[None])
    kept, _ = _compare([candidate], [measured[deployed]], policy)
    outcomes, steps = _compare([candidate, *fresh[:1]], [measured[deployed], *fresh[1:]], policy)
    faults = [*found, *suspect_reward(BatchFacts(**adapter.taught), outcomes)] if adapter.taught else [*found]
    if fresh:
        drawn, _ = _compare(fresh[:1], fresh[1:], policy)
        faults += suspect_leak(kept, drawn)
    faults += sides.suspect_skills(deployed)
    faults += sides.suspect_strength(candidate)
    noise_std = sides.measure_noise(deployed, measured[deployed]) if policy.fresh_size else None
    serving = judge_serving(
        outcomes,
        against=_name(deployed),
        policy=policy,
        second=steps,
        second_name="step scores",
        alarms=alarms,
        faults=[one.words for one in faults if one.is_broken],
    )
    outcomes_then, steps_then = _compare([candidate], [measured[anchor]], policy)
    progress = judge_progress(
        outcomes_then,
        against=_name(anchor),
        policy=policy,
        updates_since_anchor=adapter.line_version - (anchor.line_version if anchor else 0),
        second=steps_then,
        second_name="step scores",
        noise_std=noise_std,
    )
    return Examination(
        deployed=deployed,
        anchor=anchor,
        panel=panel,
        results=[*measured.values(), candidate],
        sides=sides.made,
        faults=faults,
        serving=serving,
        progress=progress,
        details=_describe(panel, alarms, faults, noise_std) | _numbers(outcomes, steps) | sides.details,
        details_then={"panel": panel.name, "outcome": progress.outcome.value, **_numbers(outcomes_then, steps_then)},
    )


class _Sides:
    """The measurements beside the panel, each made once and kept."""

    def __init__(self, adapter: Adapter, panel: Panel, policy: GatePolicy) -> None:
        self.adapter, self.worker, self.panel, self.policy = adapter, adapter.worker, panel, policy
        self.made: list[SideResult] = []
        self.details: dict[str, Any] = {}

    def find_alarms(self, candidate: PanelResult, base: PanelResult) -> tuple[Alarm, ...]:
        """Whether its answers fall apart; what a small panel cannot tell from noise is asked of tasks behind it too."""

        def measure_more(count: int) -> tuple[AnswerProfile, AnswerProfile] | None:
            items = self.panel.world.panel(self.panel.size + count, self.panel.seed)[self.panel.size :]
            if not items:
                return None
            name = f"{self.panel.name}+{len(items)}"
            mine, theirs = (
                profile_of(self._find_or_try(SideResult.Kind.MORE, model, items, panel=name))
                for model in (self.adapter, None)
            )
            return mine, theirs

        found = decide_alarms(profile_of(candidate), profile_of(base), measure_more=measure_more)
        if found.doubted:
            self.details["doubted alarms"] = [asdict(one) for one in found.doubted]
        return found.alarms

    def measure_fresh(self, model: Adapter | None) -> SideResult:
        """On tasks that are drawn for this candidate alone."""
        size = min(self.policy.fresh_size, self.panel.size)
        fresh = draw_fresh(self.panel, key=self.adapter.sha256, size=size)
        return self._find_or_try(SideResult.Kind.FRESH, model, fresh.items, panel=fresh.name)

    def suspect_skills(self, deployed: Adapter | None) -> Iterator[Finding]:
        """On tasks whose likeliest answer by the base model is right: chosen by it alone, so neither side is favoured.

        They are answered as in service, by sampling: one token that overtakes another by a hair turns the likeliest
        answer to all tasks of a kind, and says nothing of what the model can do.
        """
        size = min(self.policy.skills_size, self.panel.size)
        drawn = self.panel.world.skills(SKILLS_DRAWN * size, SKILLS_SEED) if size else []
        if not drawn:
            return
        name = f"{self.panel.world.name}/{len(drawn)}/skills"
        base = self._find_or_try(SideResult.Kind.SKILLS, None, drawn, panel=name, greedy=True)
        items = [item for item, outcome in zip(drawn, base.outcomes, strict=True) if outcome == 1.0][:size]
        if not items:
            return
        rounds = range(min(SKILLS_ROUNDS, -(-size // len(items))))
        asked = [replace(item, seed=item.seed + AGAIN * again) for again in rounds for item in items]
        mine, *before = (
            _means(self._find_or_try(SideResult.Kind.SKILLS, model, asked, panel=f"{name}/{len(asked)}"), len(items))
            for model in dict.fromkeys((self.adapter, None, deployed))
        )
        found = compare_paired(mine, min(before, key=fmean), confidence=self.policy.confidence)
        self.details["skills"] = asdict(found)
        yield from suspect_skills(found, margin=self.policy.skills_margin)

    def suspect_strength(self, candidate: PanelResult) -> Iterator[Finding]:
        """At other strengths, on the first tasks of the panel; what is not tried is told."""
        size = min(self.policy.sweep_size, self.panel.size)
        if not size:
            return
        items = self.panel.world.panel(self.panel.size, self.panel.seed)[:size]
        client, at = client_of(self.worker), {1.0: list(candidate.outcomes[:size])}
        for scale in SCALES:
            if scale != 1.0:
                try:
                    with serve_scaled(client, self.adapter, scale) as name:
                        tried = try_items(self.worker, self.panel.world, items, model=name)
                except AdapterNotServableError as error:
                    self.details["untried"] = f"other strengths were not tried: {error}"
                    return
                self._keep(SideResult.Kind.SCALE, self.adapter, tried, panel=self.panel.name, scale=scale)
                at[scale] = list(tried.outcomes)
        self.details["scales"] = {f"{scale:g}": sum(found) / size for scale, found in sorted(at.items())}
        yield from suspect_strength(at)

    def measure_noise(self, deployed: Adapter | None, first: PanelResult) -> float:
        """Spread of an item's difference between two measurements of what serves."""
        items = self.panel.world.panel(self.panel.size, self.panel.seed)[: self.policy.fresh_size]
        again = SideResult.objects.filter(worker=self.worker, kind="repeat", panel=self.panel.name).last()
        if again is not None and again.adapter_id != (deployed.pk if deployed else None):
            kept = PanelResult.objects.filter(worker=self.worker, adapter=again.adapter_id, panel=self.panel.name)
            first = kept.first() or first
        else:
            again = self._find_or_try(SideResult.Kind.REPEAT, deployed, items, panel=self.panel.name, again=AGAIN)
        return compare_paired(again.outcomes, first.outcomes[: len(again.outcomes)]).std

    def _find_or_try(
        self,
        kind: SideResult.Kind,
        model: Adapter | None,
        items: Sequence[PanelItem],
        *,
        panel: str,
        greedy: bool = False,
        again: int = 0,
    ) -> SideResult:
        kept = SideResult.objects.filter(worker=self.worker, adapter=model, kind=kind, panel=panel, scale=1.0).first()
        if kept is not None:
            return kept
        name = name_of(self.worker, model)
        tried = try_items(self.worker, self.panel.world, items, model=name, greedy=greedy, again=again)
        return self._keep(kind, model, tried, panel=panel)

    def _keep(
        self, kind: SideResult.Kind, model: Adapter | None, tried: Tried, *, panel: str, scale: float = 1.0
    ) -> SideResult:
        made = SideResult(worker=self.worker, adapter=model, kind=kind, panel=panel, scale=scale, **asdict(tried))
        self.made.append(made)
        return made


def _store(adapter: Adapter, found: Examination, *, by: str) -> None:
    state = found.state
    with final_write():
        _require_unmoved(adapter, found.deployed)
        PanelResult.objects.bulk_create([one for one in found.results if one._state.adding], ignore_conflicts=True)
        SideResult.objects.bulk_create(found.sides, ignore_conflicts=True)
        give_verdict(
            adapter,
            Verdict.Question.SAFE,
            Verdict.Outcome.YES if found.serving.is_safe else Verdict.Outcome.NO,
            words=_say(found),
            compared_with=found.deployed,
            details=found.details,
            by=by,
        )
        give_verdict(
            adapter,
            Verdict.Question.PROVED,
            _PROVED[found.progress.outcome],
            words=found.progress.words,
            compared_with=found.anchor,
            details=found.details_then,
            by=by,
        )
        if state == Adapter.State.QUARANTINED:
            quarantine(adapter, words=_join(found.faults), by=by)
            return
        move(adapter, state, by=by)
        if state == Adapter.State.VERIFIED and found.progress.outcome is AnchorOutcome.PROVED:
            Adapter.objects.filter(worker=adapter.worker, end_user=adapter.end_user, is_anchor=True).update(
                is_anchor=False
            )
            Adapter.objects.filter(pk=adapter.pk).update(is_anchor=True)


def _require_unmoved(adapter: Adapter, deployed: Adapter | None) -> None:
    """Lock what serves in the running transaction, and see that it is what was compared with.

    Raises:
        MovedMeanwhileError: somebody took it back or put another into service; the gate asks anew.
    """
    hold_served(adapter)
    if find_deployed(adapter.worker, end_user=adapter.end_user) != deployed:
        raise MovedMeanwhileError(f"{_name(deployed)} served when {adapter.name} was measured, and serves no more")


def _say(found: Examination) -> str:
    suspicious = [one for one in found.faults if not one.is_broken]
    words = [found.serving.words]
    if "untried" in found.details:
        words.append(found.details["untried"])
    if suspicious:
        words.append(f"under suspicion: {_join(suspicious)}")
    return "; ".join(words)


def _store_unproved(adapter: Adapter, found: Sequence[Finding], *, by: str) -> None:
    with final_write():
        words = "no held-out tasks in this environment: nothing is proved; a person may promote it"
        give_verdict(
            adapter,
            Verdict.Question.SAFE,
            Verdict.Outcome.INCONCLUSIVE,
            words=f"{words}; under suspicion: {_join(found)}" if found else words,
            compared_with=None,
            details={"faults": [asdict(one) for one in found]},
            by=by,
        )
        if found:
            quarantine(adapter, words=_join(found), by=by)


def _join(found: Sequence[Finding]) -> str:
    return "; ".join(one.words for one in found)


def _compare(
    candidate: Sequence[PanelResult | SideResult], reference: Sequence[PanelResult | SideResult], policy: GatePolicy
) -> tuple[PairedComparison, PairedComparison]:
    """Outcomes, and step scores, of the same tasks; those of several panels are one after the other."""
    outcomes, steps = (
        compare_paired(
            [value for one in candidate for value in getattr(one, name)],
            [value for one in reference for value in getattr(one, name)],
            confidence=policy.confidence,
        )
        for name in ("outcomes", "step_scores")
    )
    return outcomes, steps


def _means(result: SideResult, items: int) -> list[float]:
    """(items,) mean outcome of each task that was answered in several rounds, one round after the other."""
    return [fmean(result.outcomes[place::items]) for place in range(items)]


def _describe(
    panel: Panel, alarms: Sequence[Alarm], faults: Sequence[Finding], noise_std: float | None
) -> dict[str, Any]:
    return {
        "alarms": [asdict(alarm) for alarm in alarms],
        "panel": panel.name,
        "faults": [asdict(one) for one in faults],
        "noise_std": noise_std,
    }


def _numbers(outcomes: PairedComparison, steps: PairedComparison) -> dict[str, Any]:
    return {"sampled accuracy": asdict(outcomes), "step scores": asdict(steps)}


def _name(adapter: Adapter | None) -> str:
    return adapter.name if adapter else BASE
