"""From rewards and step scores to one advantage per token."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from tentalis.core.contracts import RolloutRecord, StepReward
from tentalis.core.learning.recipes import Recipe


class Spread(NamedTuple):
    """Mean and population standard deviation of a set of numbers."""

    mean: float
    std: float


def measure_spread(values: Sequence[float], weights: Sequence[float] | None = None) -> Spread:
    """Mean and population std, weighted where weights are given; (0, 0) of nothing."""
    counts = [1.0] * len(values) if weights is None else list(weights)
    total = math.fsum(counts)
    if total <= 0:
        return Spread(0.0, 0.0)
    mean = math.fsum(count * value for count, value in zip(counts, values, strict=True)) / total
    squares = (count * (value - mean) ** 2 for count, value in zip(counts, values, strict=True))
    return Spread(mean, math.sqrt(math.fsum(squares) / total))


def group_advantages(
    rewards: Sequence[float],
    weights: Sequence[float] | None = None,
    *,
    std_floor: float = 1e-6,
    divide_by_std: bool = True,
) -> list[float]:
    """Centre and scale rewards that are compared with each other: A_i = (r_i - mean) / (std + std_floor).

    Args:
        rewards: (G,), samples of one prompt, or a whole batch of prompts tried once.
        weights: (G,) >= 0, how much each counts in mean and std; None: all alike.
        divide_by_std: False leaves the scale out (Dr. GRPO, arXiv:2503.20783).
    Returns:
        (G,), dimensionless, weighted sum 0; all zeros when the rewards agree, or nothing has a weight.
    Source:
        GRPO, arXiv:2402.03300, sec. 4.1.2. We keep the population std; the paper does not say which. Over a batch
        instead of a prompt's group: REINFORCE++, arXiv:2501.03262. It knows no weights, and takes the KL into the
        reward, which we do not.
    """
    counts = [1.0] * len(rewards) if weights is None else list(weights)
    total = math.fsum(counts)
    if total <= 0 or all(reward == rewards[0] for reward in rewards):
        return [0.0] * len(rewards)
    mean, std = measure_spread(rewards, counts)
    scale = std + std_floor if divide_by_std else 1.0
    return [(reward - mean) / scale for reward in rewards]


def overlong_penalty(size_tokens: int, *, limit: int, buffer: int, penalty: float) -> float:
    """What an answer loses for its length: nothing up to limit - buffer, then linearly more, `penalty` beyond `limit`.

    Args:
        size_tokens: tokens the policy sampled; limit, buffer: tokens; buffer 0 takes nothing from anyone.
        penalty: in units of reward.
    Returns:
        In [-penalty, 0].
    Source:
        DAPO's soft overlong punishment, arXiv:2503.14476, eq. 13. Its rewards span 2 and it takes up to 1; ours span 1.
    """
    if buffer == 0 or size_tokens <= limit - buffer:
        return 0.0
    return -penalty * min(1.0, (size_tokens - (limit - buffer)) / buffer)


def is_informative(rewards: Sequence[float]) -> bool:
    """Whether a group's rewards differ, so that comparing them says something (DAPO's dynamic sampling)."""
    return bool(rewards) and min(rewards) < max(rewards)


STEP_UNIT = 0.5
"""What step credit is counted in: the standard deviation of a fair coin, the most that scores in [0, 1] can have."""


def step_returns(scores: Sequence[float | None], means: Sequence[float]) -> list[float]:
    """Return-to-go of each step: by how much it and those after it beat the mean at their place, over the steps.

    Each place is compared with itself: were all steps of a group centred together, attempts that are alike would be
    taught to make less of the places where scores are lower, mostly the later ones. Where attempts have equally many
    steps this is the return-to-go less its mean at that place. Where they have not, an attempt that ended earlier is
    neither better nor worse for it, unless steps are missing.

    No spread is divided by. That of a place, or of a group, that all but agrees is noise alone; one over the batch
    shrinks as groups come to agree, and makes the rare difference huge. Scores lie in [0, 1], so a fixed unit will do:
    it is the one a person's word is counted in, and how scores spread elsewhere does not move what a step is worth.

    Args:
        scores: (S,) in [0, 1], of a whole attempt by place, missing steps with 0; None for a step nobody could score,
            which adds nothing to any return.
        means: (S,) or more, in [0, 1], of the scores of all attempts compared at each place.
    Returns:
        (S,) in [-2, 2], in units of `STEP_UNIT`. A step's score moves its own return and earlier ones, never a later
        one.
    Source:
        Process supervision of GRPO, arXiv:2402.03300, sec. 4.1.3, sums standardised scores, with one mean for all steps
        of a group; divided here by the number of steps, so that long answers do not weigh more. A mean a place, over
        the answers that reach it: the masked step advantage of SPRO, arXiv:2507.01551; OpenClaw-RL, arXiv:2603.10165,
        standardises by step index too, and GiGPO, arXiv:2505.10978, within equal states, where a step alone in its
        state gets 0. Without the std: GiGPO's other normalisation, after Dr. GRPO, arXiv:2503.20783.
    """
    rest = 0.0
    returns = []
    for score, mean in reversed([*zip(scores, means, strict=False)]):
        rest += 0.0 if score is None else (score - mean) / STEP_UNIT
        returns.append(rest / len(scores))
    return returns[::-1]


def _find_step_returns(rollouts: Sequence[RolloutRecord], members: Sequence[int]) -> dict[int, list[float]]:
    """Position -> return of each of its steps, among rollouts that are compared with each other.

    A step's place is counted over all parts of its attempt, in the order in which they come. A mean is over the scores
    at that place, each as trusted as its rollout: where one attempt alone has one, it is that score.
    """
    attempts: dict[int, list[int]] = {}
    for index in members:
        attempts.setdefault(rollouts[index].rollout_id, []).append(index)
    scores = {attempt: _list_step_scores([rollouts[index] for index in parts]) for attempt, parts in attempts.items()}
    at_place: list[list[tuple[float, float]]] = [[] for _ in range(max(map(len, scores.values()), default=0))]
    for attempt, of_attempt in scores.items():
        for place, score in enumerate(of_attempt):
            if score is not None:
                at_place[place].append((score, rollouts[attempts[attempt][0]].weight))
    means = [measure_spread([score for score, _ in found], [weight for _, weight in found]).mean for found in at_place]
    returns: dict[int, list[float]] = {}
    for attempt, parts in attempts.items():
        rest = iter(step_returns(scores[attempt], means))
        returns |= {index: [next(rest) for _ in rollouts[index].steps] for index in parts}
    return returns


def _list_step_scores(parts: Sequence[RolloutRecord]) -> list[float | None]:
    """Score of each step of an attempt, by place, and a 0 for each missing one where anybody scored the others."""
    missing = sum(part.missing_steps for part in parts) if any(map(has_step_scores, parts)) else 0
    return [step.score for part in parts for step in part.steps] + [0.0] * missing


UNJUDGED = 0.5
"""What a person's word on a step is compared with where nobody else scored it."""


def step_corrections(steps: Sequence[StepReward]) -> list[float]:
    """How far a person's word moves each step: (said - score) / .5, in the unit of the steps' returns.

    It is local credit: it moves exactly that step's tokens, neither the group's mean nor the return of earlier steps,
    so that one word of a reviewer changes what the reviewer pointed at and nothing else.

    Returns:
        (S,) in [-2, 2]; 0 where no person spoke.
    """
    return [
        0.0 if step.said is None else (step.said - (UNJUDGED if step.score is None else step.score)) / STEP_UNIT
        for step in steps
    ]


def has_step_scores(rollout: RolloutRecord) -> bool:
    """Whether anybody scored a step of it; only then do missing steps count against it."""
    return any(step.score is not None for step in rollout.steps)


def spread_over_tokens(rollout: RolloutRecord, outcome: float, returns: Sequence[float], recipe: Recipe) -> list[float]:
    """Mix per token: (1 - s) * outcome everywhere, plus s * (return + correction) of the step on exactly its span.

    Where no scorer scored any step, the outcome keeps its whole weight.

    Returns:
        (T,) dimensionless, 0 for tokens the policy did not sample.
    """
    scored_mix = recipe.step_mix if has_step_scores(rollout) else 0.0
    values = [(1.0 - scored_mix) * outcome] * len(rollout.token_ids)
    corrections = step_corrections(rollout.steps)
    for step, step_return, correction in zip(rollout.steps, returns, corrections, strict=True):
        for index in range(step.start, step.end):
            values[index] += scored_mix * step_return + recipe.step_mix * correction
    return [value if counts else 0.0 for value, counts in zip(values, rollout.sampled, strict=True)]


def token_advantages(rollouts: Sequence[RolloutRecord], recipe: Recipe) -> list[list[float] | None]:
    """The reward's advantage of every token of every rollout.

    Args:
        rollouts: (R,) any number of groups; outcomes and step scores are both compared within their group only. Groups
            of one attempt are compared with each other where the recipe says so (`singles`). Records of one id are
            parts of one attempt: an attempt counts once in a comparison, however many parts it has.
    Returns:
        (R,) of (T,): already multiplied by the rollout's weight; None for a rollout without a reward, which has no RL
        term, and for those of a group that `dapo` drops. A rollout with a reward whose steps nobody scored gets its
        outcome advantage alone, undiminished; a person's word on one of them is added to it there.
    """
    compared, singles = _split_groups_and_singletons(rollouts, recipe)
    outcomes = _compare_groups(rollouts, compared, recipe)
    alone = group_advantages(
        [_shaped_reward(rollouts[index], recipe) for index in singles],
        _share(rollouts, singles),
        std_floor=recipe.std_floor,
    )
    outcomes.update(zip(singles, alone, strict=True))
    advantages: list[list[float] | None] = [None] * len(rollouts)
    for members in (*compared, singles):
        returns = _find_step_returns(rollouts, members)
        for index in members:
            rollout = rollouts[index]
            values = spread_over_tokens(rollout, outcomes[index], returns[index], recipe)
            advantages[index] = [rollout.weight * value for value in values]
    return advantages


def _split_groups_and_singletons(
    rollouts: Sequence[RolloutRecord], recipe: Recipe
) -> tuple[list[list[int]], list[int]]:
    """Positions of rewarded rollouts that are compared within their group, by group, and of those that are alone."""
    groups: dict[int, list[int]] = {}
    for index, rollout in enumerate(rollouts):
        if rollout.reward is not None:
            groups.setdefault(rollout.group_id, []).append(index)
    compared: list[list[int]] = []
    singles: list[int] = []
    for members in groups.values():
        if recipe.singles == "batch" and len({rollouts[index].rollout_id for index in members}) == 1:
            singles += members
        elif recipe.algorithm != "dapo" or is_informative([rollouts[index].reward or 0.0 for index in members]):
            compared.append(members)
    return compared, singles


def _share(rollouts: Sequence[RolloutRecord], members: Sequence[int]) -> list[float]:
    """How much each counts in mean and std: the trust in it over the number of parts that its attempt has among these.

    Advantages are multiplied by the same trust, so that those of a group add up to zero.
    """
    parts = Counter(rollouts[index].rollout_id for index in members)
    return [rollouts[index].weight / parts[rollouts[index].rollout_id] for index in members]


def _compare_groups(
    rollouts: Sequence[RolloutRecord], groups: Sequence[Sequence[int]], recipe: Recipe
) -> dict[int, float]:
    """Position -> outcome advantage, of the rollouts in these groups.

    `reinforce_pp` takes the group's mean away and scales by the batch's std (REINFORCE++ with a baseline,
    arXiv:2501.03262), over answers; OpenRLHF's code does over tokens.
    """
    divides = recipe.algorithm not in {"dr_grpo", "reinforce_pp"}
    outcomes: dict[int, float] = {}
    for members in groups:
        rewards = [_shaped_reward(rollouts[index], recipe) for index in members]
        shares = _share(rollouts, members)
        found = group_advantages(rewards, shares, std_floor=recipe.std_floor, divide_by_std=divides)
        outcomes.update(zip(members, found, strict=True))
    if recipe.algorithm == "reinforce_pp":
        everyone = [*outcomes]
        scaled = group_advantages([*outcomes.values()], _share(rollouts, everyone), std_floor=recipe.std_floor)
        return dict(zip(everyone, scaled, strict=True))
    return outcomes


def _shaped_reward(rollout: RolloutRecord, recipe: Recipe) -> float:
    """The reward of a judged rollout, less what its length costs."""
    return (rollout.reward or 0.0) + overlong_penalty(
        sum(rollout.sampled),
        limit=recipe.answer_tokens,
        buffer=recipe.overlong_buffer,
        penalty=recipe.overlong_penalty,
    )


def imitation_weights(rewards: Sequence[float], *, temperature: float, weight_max: float) -> list[float]:
    """How strongly to imitate each answer: w = min(exp((r - mean) / temperature), weight_max).

    Source:
        Reward-weighted regression, Peters and Schaal 2007; arXiv:1910.00177 (AWR) caps the weight too.
    """
    mean = measure_spread(rewards).mean
    cap = math.log(weight_max)
    return [math.exp(min(cap, (reward - mean) / temperature)) for reward in rewards]
