"""Make training examples of rollouts: per token the advantage or hint, and why some rollouts are left out."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tentalis.core.contracts import RolloutRecord
from tentalis.core.learning.recipes import Recipe

SMALLEST_ADVANTAGE = 1e-6


MOST_NOTES = 20
MOST_NOTE_CHARS = 500


@dataclass
class Refused:
    """What of a batch is not learnt from: how often, by reason, and what the numbers alone do not say, in words.

    Args:
        notes: one a reason and text; the first of them.
    """

    counts: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    def note(self, reason: str, text: str, *, record: str) -> None:
        """Count one, and say why once."""
        self.counts[reason] += 1
        said = f"{reason.replace('_', ' ')}: {text}"[:MOST_NOTE_CHARS]
        known = {one.partition(" (first: ")[0] for one in self.notes}
        if said not in known and len(self.notes) < MOST_NOTES:
            self.notes.append(f"{said} (first: {record})")


def name_record(rollout: RolloutRecord) -> str:
    """A rollout, as notes name it."""
    return f"rollout {rollout.rollout_id}"


@dataclass(frozen=True)
class Support:
    """The behaviour policy's likeliest tokens at each position and what the hinted teacher says of them, all (T, K).

    Args:
        logprobs: nats, of the behaviour policy.
        advantages: dimensionless, 0 where the policy did not choose the token.
    """

    token_ids: Sequence[Sequence[int]]
    logprobs: Sequence[Sequence[float]]
    advantages: Sequence[Sequence[float]]


@dataclass(frozen=True)
class TrainingExample:
    """One rollout and what to learn from it, all (T,).

    Args:
        advantages: the reward's; the imitation's weights for `reward_weighted_sft`; None without a reward.
        gaps: the hinted teacher's, in nats; None without a usable hint, or where `support` holds them.
        support: the same over the likeliest tokens; None without a usable hint, or where `gaps` hold them.
        base_logprobs: of the frozen base without a hint; None when no KL is asked for.
        start_logprobs: of the policy the run starts from; start_support: (T, K), the same of the support's tokens; None
            when it is not asked for.
    """

    rollout: RolloutRecord
    advantages: list[float] | None
    gaps: list[float] | None = None
    support: Support | None = None
    base_logprobs: list[float] | None = None
    start_logprobs: list[float] | None = None
    start_support: Sequence[Sequence[float]] | None = None

    @property
    def is_hinted(self) -> bool:
        return self.gaps is not None or self.support is not None

    @property
    def sampled_tokens(self) -> int:
        return sum(self.rollout.sampled)

    def in_loss_mean(self, recipe: Recipe) -> bool:
        """Whether a mean of the recipe's loss is over its tokens, whatever they teach."""
        return self.is_hinted or (self.advantages is not None and recipe.w_rl > 0)

    def is_better(self, recipe: Recipe, version: int) -> bool:
        """Whether this version's own answer was worth more than what it was compared with, and the recipe asks that."""
        if recipe.w_rl == 0 or self.advantages is None or self.rollout.policy_version != version:
            return False
        gained = sum(value for value, drawn in zip(self.advantages, self.rollout.sampled, strict=True) if drawn)
        return gained > SMALLEST_ADVANTAGE

    def has_signal(self, recipe: Recipe) -> bool:
        """Whether reward or hint would move a weight."""
        if self.is_hinted:
            return True
        differs = self.advantages is not None and any(abs(value) > SMALLEST_ADVANTAGE for value in self.advantages)
        return differs and recipe.w_rl > 0

    def has_gradient(self, recipe: Recipe) -> bool:
        """Whether it has a gradient: what teaches, and where every answer is held to the base or kept open, all."""
        return recipe.kl_coef > 0 or recipe.entropy_coef > 0 or self.has_signal(recipe)
