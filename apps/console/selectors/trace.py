"""From a feedback to what came of it: rollouts, batch, run, adapter, verdict, held-out tasks that moved."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from django.db.models import Q

from apps.accounts.models import Project, User
from apps.adapters.models import Adapter, Verdict
from apps.evals.comparing import pair, read_outcomes
from apps.evals.models import Evaluation
from apps.evals.panels import find_own_prompts, is_own, open_panel
from apps.feedback.models import Feedback, Hint, StepFeedback
from apps.feedback.set_aside import Trust
from apps.rollouts.contents import Contents, count_contents
from apps.rollouts.models import Batch, Rollout
from apps.tasks.models import Task
from apps.training import provenance
from apps.training.models import TrainingRun
from apps.training.provenance import Use, find_furthest
from tentalis.core.contracts import StepReward
from tentalis.core.learning.advantages import group_advantages, step_corrections
from tentalis.core.learning.gate import GatePolicy, PairedComparison, compare_paired
from tentalis.core.learning.recipes import Recipe

TELLING = 1e-9
"""An advantage closer to 0 than this pulls nowhere."""


@dataclass(frozen=True)
class StepPull:
    """By how much what people said of a step moves the advantage of its tokens. Numbers count from 1."""

    number: int
    by: float


@dataclass(frozen=True)
class RolloutTrace:
    """What a task's attempt was worth before and after people spoke, and where that pulls the worker.

    Attributes:
        before: what the world or the scorers said, in [0, 1]; None where they could not.
        after: the reward it trains with; None where nobody could judge it.
        advantage: its reward against the other attempts', in standard deviations; None without a reward.
        steps: those that this feedback scores, as far as that moves them beside the reward.
    """

    rollout: Rollout
    before: float | None
    after: float | None
    advantage: float | None
    steps: Sequence[StepPull] = ()

    @property
    def change(self) -> float | None:
        return None if self.before is None or self.after is None else self.after - self.before

    @property
    def pull(self) -> str:
        """more, less, none (it equals the others) or unknown."""
        if self.advantage is None:
            return "unknown"
        if abs(self.advantage) <= TELLING:
            return "none"
        return "more" if self.advantage > 0 else "less"


@dataclass(frozen=True)
class MovedItem:
    """A held-out task that came out otherwise. Numbers count from 1; `text` is "" where it is not there any more."""

    number: int
    before: float
    after: float
    text: str


@dataclass(frozen=True)
class Movement:
    """An adapter against what it continued from, task by task of one held-out panel.

    Attributes:
        found: the paired difference of those that have an outcome on both sides; None where none has.
    """

    adapter: Adapter
    reference: Adapter | None
    panel: str
    items: int
    gained: Sequence[MovedItem]
    lost: Sequence[MovedItem]
    found: PairedComparison | None = None

    @property
    def same(self) -> int:
        return self.items - len(self.gained) - len(self.lost)


@dataclass(frozen=True)
class FeedbackTrace:
    """Everything the page of a feedback shows. What is None or empty has not happened yet.

    Attributes:
        uses: everywhere it is learnt from; the page follows the one that came furthest.
        holds: what that one's batch holds.
        withheld: why it, or its hint, does not count; "" where it does.
    """

    feedback: Feedback
    withheld: str
    words: Sequence[StepFeedback]
    hints: Sequence[Hint]
    rollouts: Sequence[RolloutTrace]
    batch: Batch | None
    run: TrainingRun | None
    adapter: Adapter | None
    verdicts: Sequence[Verdict]
    movement: Movement | None
    uses: Sequence[Use] = ()
    holds: Contents | None = None

    @property
    def task(self) -> Task:
        return self.feedback.task

    @property
    def stage(self) -> str:
        """How far it came: retracted, waits, unusable, nothing (its batch learns from what it did not give), items
        (pairs or demonstrations of it wait), batch, run, failed, gate, refused or learned.
        """
        if self.feedback.retracted_at is not None and self.batch is None:
            return "retracted"
        furthest = find_furthest(self.uses)
        if furthest is None or furthest.stage == "unusable":
            is_spent = any(hasattr(one.rollout, "training_use") for one in self.rollouts)
            return ("nothing" if is_spent else "unusable") if self.rollouts else "waits"
        if self.adapter is not None and self.adapter.state == Adapter.State.CANDIDATE and not self.verdicts:
            return "gate"
        return "items" if furthest.stage == "waits" else furthest.stage

    @property
    def missing_tasks(self) -> int:
        return max(0, self.batch.target_tasks - self.batch.task_count) if self.batch else 0

    @property
    def unusable_reasons(self) -> list[str]:
        found = (one.rollout.unusable_reason for one in self.rollouts if not one.rollout.is_usable)
        return list(dict.fromkeys(found))


def trace_feedback(project: Project, feedback_id: int, *, user: User) -> FeedbackTrace | None:
    """What `user` may read of a feedback's way, in a constant number of queries."""
    found = Feedback.objects.readable_by(user).filter(project=project, pk=feedback_id)
    feedback = found.with_gold().select_related("task__worker", "preferred_attempt").first()
    if feedback is None:
        return None
    rollouts = list(
        Rollout.objects.filter(task=feedback.task_id)
        .select_related("attempt__adapter", "training_use", "hint")
        .defer("attempt__text")
        .order_by("attempt__index")
    )
    uses = provenance.trace_feedback([feedback])[feedback.pk]
    furthest = find_furthest(uses)
    batch, run, adapter = (furthest.batch, furthest.run, furthest.adapter) if furthest else (None, None, None)
    words = list(
        StepFeedback.objects.filter(feedback=feedback)
        .select_related("attempt", "step")
        .order_by("attempt__index", "step__index")
    )
    return FeedbackTrace(
        feedback=feedback,
        withheld=Trust(feedback.project_id).silence(feedback, of_hint=True),
        words=words,
        hints=list(Hint.objects.filter(feedback=feedback)),
        rollouts=_weigh(rollouts, run, words),
        uses=uses,
        holds=count_contents([batch])[batch.pk] if batch else None,
        batch=batch,
        run=run,
        adapter=adapter,
        verdicts=list(Verdict.objects.filter(adapter=adapter)) if adapter else [],
        movement=find_movement(adapter) if adapter else None,
    )


def find_movement(adapter: Adapter) -> Movement | None:
    """The adapter against its parent, else against the base model, on its newest panel; None before it was measured.

    At most four queries.
    """
    measured = Evaluation.objects.on_panels()
    result = measured.filter(adapter=adapter).select_related("project").order_by("-id").first()
    if result is None:
        return None
    others = measured.filter(worker=adapter.worker_id, item_set=result.item_set, item_set_hash=result.item_set_hash)
    others = others.filter(Q(adapter=None) | Q(adapter=adapter.parent_id)).select_related("adapter")
    by_adapter = {other.adapter_id: other for other in others}
    reference = by_adapter.get(adapter.parent_id) or by_adapter.get(None)
    if reference is None:
        return None
    outcomes, weights = read_outcomes([result, reference])
    was = outcomes[reference.pk]
    is_drawn = not is_own(result.item_set)
    texts = _find_texts(result.item_set) if is_drawn else find_own_prompts(adapter.project_id, was.keys())
    moved = [
        MovedItem(place, was[key], after, texts.get(key, texts.get(place - 1, "")))
        for place, (key, after) in enumerate(outcomes[result.pk].items(), start=1)
        if key in was and was[key] != after
    ]
    pairs = pair(outcomes[result.pk], was, weights)
    confidence = GatePolicy.from_json(result.project.gate_policy).confidence
    return Movement(
        adapter=adapter,
        reference=reference.adapter,
        panel=result.item_set,
        items=result.items,
        gained=[item for item in moved if item.after > item.before],
        lost=[item for item in moved if item.after < item.before],
        found=compare_paired(*pairs, confidence=confidence) if pairs[0] else None,
    )


def find_reward_before(rollout: Rollout) -> float | None:
    """What the attempt was worth without anybody's word: what was verified, else what the scorers said."""
    attempt = rollout.attempt
    return attempt.outcome if attempt.outcome is not None else attempt.score


def _weigh(rollouts: Sequence[Rollout], run: TrainingRun | None, words: Sequence[StepFeedback]) -> list[RolloutTrace]:
    """Rewards against each other as the trainer compares them: only what is usable is in the group."""
    recipe = run.recipe if run else {}
    group = [rollout for rollout in rollouts if rollout.is_usable and rollout.reward is not None]
    values = group_advantages(
        [rollout.reward for rollout in group if rollout.reward is not None],
        std_floor=float(recipe.get("std_floor", 1e-6)),
        divide_by_std=recipe.get("algorithm") != "dr_grpo",
    )
    advantages = {rollout.pk: value for rollout, value in zip(group, values, strict=True)}
    step_mix = float(recipe.get("step_mix", Recipe().step_mix))
    return [
        RolloutTrace(
            rollout,
            find_reward_before(rollout),
            rollout.reward,
            advantages.get(rollout.pk),
            list(_find_pulls(rollout, words, step_mix)) if rollout.pk in advantages else (),
        )
        for rollout in rollouts
    ]


def _find_pulls(rollout: Rollout, words: Sequence[StepFeedback], step_mix: float) -> Iterator[StepPull]:
    rewards: dict[int | None, StepReward] = {reward.start: reward for reward in rollout.step_rewards}
    for word in words:
        if word.step is None or word.score is None or word.attempt_id != rollout.attempt_id:
            continue
        reward = rewards.get(word.step.token_start)
        if reward is not None and (moved := step_mix * rollout.weight * step_corrections([reward])[0]):
            yield StepPull(word.step.index + 1, moved)


@lru_cache(maxsize=8)
def _find_texts(panel_name: str) -> Mapping[int, str]:
    """Item's key, and its place on the panel, -> the task's text; {} where the world cannot draw it again."""
    panel = open_panel(panel_name)
    if panel is None:
        return {}
    prompts = [item.prompt for item in panel.items]
    return {**dict(enumerate(prompts)), **dict(zip(panel.item_set.keys, prompts, strict=True))}
