"""How much rewards had to say in a batch: how far they lie apart, which groups agree, how old the attempts are."""

from collections import defaultdict
from statistics import fmean, pstdev

from apps.rollouts.models import Batch, TrainingUse
from apps.training.models import TrainingRun


def measure_spread(run: TrainingRun) -> dict[str, float]:
    """Figures of the judged attempts of the run's batch; {} where it learns from no rewards, or nothing was judged.

    Returns:
        reward_std: population standard deviation over all of them; groups: tasks with two or more of them;
        groups_without_signal: of those, the ones whose rewards are all the same; staleness, staleness_max: how many
        versions of the line the attempts are older than what the run continues, on average and at most.
    """
    if run.batch is None or run.batch.kind != Batch.Kind.ROLLOUTS:
        return {}
    judged = TrainingUse.objects.filter(batch=run.batch, rollout__reward__isnull=False)
    rows = judged.values_list("rollout__task", "rollout__reward", "rollout__adapter__line_version")
    groups: dict[int, list[float]] = defaultdict(list)
    ages = []
    present = run.parent.line_version if run.parent else 0
    for task, reward, version in rows:
        groups[task].append(float(reward or 0.0))
        ages.append(max(0, present - (version or 0)))
    if not ages:
        return {}
    compared = [rewards for rewards in groups.values() if len(rewards) > 1]
    return {
        "reward_std": pstdev([reward for rewards in groups.values() for reward in rewards]),
        "groups": float(len(compared)),
        "groups_without_signal": float(sum(min(rewards) == max(rewards) for rewards in compared)),
        "staleness": fmean(ages),
        "staleness_max": float(max(ages)),
    }
