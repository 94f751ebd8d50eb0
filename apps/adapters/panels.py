"""Measuring a model on a worker's held-out panel."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from statistics import fmean
from typing import Any

from apps.adapters.models import Adapter, PanelResult, SideResult
from apps.workers.agents import get_agent
from apps.workers.models import Worker
from apps.workers.selectors import find_base_model
from apps.worlds.registry import get_world
from tentalis.core.learning.collapse import (
    AnswerProfile,
    AnswerTraits,
    join_profiles,
    measure_self_overlap,
    profile_answers,
)
from tentalis.core.learning.gate import LEAST_CONFIRMED, GatePolicy
from tentalis.core.worlds import AttemptDraft, PanelItem, Verification, World

WORLD_OF_KIND = {Worker.Kind.DESK: "desk"}
PANEL_SEED = 20_000


@dataclass(frozen=True)
class Panel:
    """Held-out tasks of one world. The same name means the same tasks and seeds."""

    name: str
    world: World
    size: int
    seed: int

    @property
    def items(self) -> Sequence[PanelItem]:
        return draw_panel(self)


@lru_cache(maxsize=32)
def draw_panel(panel: Panel) -> Sequence[PanelItem]:
    """Its tasks, drawn once a process: the same seed gives the same."""
    return tuple(panel.world.panel(panel.size, panel.seed))


@lru_cache(maxsize=32)
def draw_skills(panel: Panel) -> Sequence[PanelItem]:
    """As `draw_panel`, of what must not be lost."""
    return tuple(panel.world.skills(panel.size, panel.seed))


def has_panel(worker: Worker) -> bool:
    """Whether there are held-out tasks of a worker's kind, on which its adapters are measured."""
    return worker.kind in WORLD_OF_KIND


def choose_panel(worker: Worker, *, version: int, policy: GatePolicy) -> Panel | None:
    """The panel that this version of the worker is measured on; None where its world has no held-out tasks."""
    world_name = WORLD_OF_KIND.get(Worker.Kind(worker.kind))
    if world_name is None:
        return None
    draw = version // policy.panel_lifetime
    return Panel(
        f"{world_name}/{policy.panel_size}/{draw}", get_world(world_name), policy.panel_size, PANEL_SEED + draw
    )


@dataclass(frozen=True)
class FreshPanel:
    """Held-out tasks that no other candidate was measured on.

    Attributes:
        items: what every candidate is measured on.
        further: what is asked besides where those leave a doubt, or something is to be proved.
    """

    name: str
    items: Sequence[PanelItem]
    further: Sequence[PanelItem]

    @property
    def further_name(self) -> str:
        return f"{self.name}+{len(self.further)}"


def draw_fresh(panel: Panel, *, key: str, policy: GatePolicy) -> FreshPanel:
    """Held-out tasks of the panel's world that are not on the panel, drawn anew for each key.

    As many as the policy says and at most as many as are on the panel, but never fewer than a confirmation wants.

    Args:
        key: lower-case hex, a candidate's hash: whoever made it could not know the tasks.
    """
    size = min(policy.fresh_size, panel.size)
    both = max(size, min(policy.confirm_size, panel.size), LEAST_CONFIRMED)
    known = {item.prompt for item in panel.items}
    wide = replace(panel, size=2 * both, seed=int(key[:12], 16))
    drawn = [item for item in wide.items if item.prompt not in known][:both]
    return FreshPanel(f"{panel.world.name}/{size}/{key[:12]}", drawn[:size], drawn[size:])


def open_panel(name: str) -> Panel | None:
    """The panel a result was measured on, drawn again by its name; None where that says too little."""
    world_name, _, rest = name.partition("/")
    size, _, draw = rest.partition("/")
    if world_name not in WORLD_OF_KIND.values() or not (size.isdecimal() and draw.isdecimal()):
        return None
    return Panel(name, get_world(world_name), int(size), PANEL_SEED + int(draw))


def measure(worker: Worker, adapter: Adapter | None, panel: Panel, *, greedy: bool = False) -> PanelResult:
    """Try every task of the panel once and check the answers.

    Returns:
        An unsaved row; the sampled result of a model on a panel is kept once, see `find_or_measure`.
    Raises:
        ProviderBusyError, ProviderRefusedError: the model could not be asked; nothing is made up.
    """
    tried = try_items(worker, panel.world, panel.items, model=name_of(worker, adapter), greedy=greedy)
    return PanelResult(worker=worker, adapter=adapter, panel=panel.name, **asdict(tried))


@dataclass(frozen=True)
class Tried:
    """How a model did on some tasks: (items,) outcomes and step scores in [0, 1], and what its answers look like."""

    outcomes: Sequence[float]
    step_scores: Sequence[float]
    signals: dict[str, Any]

    def followed_by(self, further: "Tried") -> "Tried":
        signals = join_profiles(AnswerProfile(**self.signals), AnswerProfile(**further.signals))
        return Tried(
            [*self.outcomes, *further.outcomes], [*self.step_scores, *further.step_scores], signals=asdict(signals)
        )


def name_of(worker: Worker, adapter: Adapter | None) -> str:
    """What the server knows the adapter, or the worker's base model, by."""
    return adapter.name if adapter else find_base_model(worker)


def try_items(
    worker: Worker, world: World, items: Sequence[PanelItem], *, model: str, greedy: bool = False, again: int = 0
) -> Tried:
    """Have a model answer each task once, and check the answers.

    Args:
        again: another number gives other samples of the same tasks.
    Raises:
        ProviderBusyError, ProviderRefusedError: the model could not be asked; nothing is made up.
    """
    drafts = get_agent(worker).work(
        prompts=[item.prompt for item in items],
        world=world,
        group_size=1,
        seeds=[item.seed + again for item in items],
        model=model,
        greedy=greedy,
    )
    first = [group[0] for group in drafts]
    verified = [
        world.verify(item.prompt, item.reference, draft) or Verification(outcome=0.0)
        for item, draft in zip(items, first, strict=True)
    ]
    return Tried(
        outcomes=[round(found.outcome or 0.0, 4) for found in verified],
        step_scores=[round(_mean_step_score(found), 4) for found in verified],
        signals=asdict(profile_answers([_traits(draft) for draft in first])),
    )


def find_or_measure(worker: Worker, adapter: Adapter | None, panel: Panel) -> PanelResult:
    """The kept result of a model on a panel, measured now if it is not there; a new one is not saved yet."""
    kept = PanelResult.objects.filter(worker=worker, adapter=adapter, panel=panel.name).first()
    return kept or measure(worker, adapter, panel)


def profile_of(result: PanelResult | SideResult) -> AnswerProfile:
    return AnswerProfile(**result.signals)


def _mean_step_score(found: Verification) -> float:
    scores = [score for score in found.step_scores if score is not None] + [0.0] * found.missing_steps
    return fmean(scores) if scores else found.outcome or 0.0


def _traits(draft: AttemptDraft) -> AnswerTraits:
    chosen = [token for token, sampled in zip(draft.token_ids, draft.sampled, strict=True) if sampled]
    logprobs: Sequence[float] = [value for value, sampled in zip(draft.logprobs, draft.sampled, strict=True) if sampled]
    return AnswerTraits(
        has_broken_tags=any(step.kind in {"other", "bad"} for step in draft.steps) or not draft.steps,
        has_end=draft.ended,
        entropy_nats=-fmean(logprobs) if logprobs else 0.0,
        length_tokens=len(chosen),
        self_overlap=measure_self_overlap(chosen),
    )
