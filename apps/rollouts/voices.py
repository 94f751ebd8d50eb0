"""Whose judgement a batch learns from, and what one of them may weigh in it (`core.learning.voices`)."""

from collections import defaultdict
from collections.abc import Mapping

from apps.feedback.models import Feedback
from apps.feedback.set_aside import Trust
from apps.rollouts.models import Batch, Rollout
from tentalis.core.learning.voices import cap_voices

SPOKEN = frozenset({Feedback.Source.HUMAN, Feedback.Source.AI, Feedback.Source.OUTSIDE})
"""Sources of rewards that are somebody's word; the others are one voice each, and are never held down."""


def find_voices(batch: Batch) -> dict[int, dict[str, float]]:
    """Rollout id -> voice -> the weight that its judgement gives the rollout. Two statements, and one for trust.

    The word of the rank that gives the reward counts, by each author's trust; without a reward, of who gave the hint.
    """
    rows = Rollout.objects.filter(training_use__batch=batch).order_by("pk")
    told = list(rows.values_list("pk", "task_id", "weight", "reward_source", "hint__feedback__author"))
    given = list(Feedback.objects.counting().filter(task__in={task for _, task, *_ in told}, source__in=SPOKEN))
    trust = Trust(batch.project_id).weigh(given)
    said: dict[tuple[int, str], dict[str, float]] = defaultdict(dict)
    for one in sorted(given, key=lambda feedback: feedback.pk):
        if trust[one.pk] > 0:
            said[one.task_id, one.source][one.author] = trust[one.pk]
    found = {}
    for pk, task, weight, source, teacher in told:
        authors = said.get((task, source)) or {(source if source else teacher) or "nobody": 1.0}
        total = sum(authors.values())
        found[pk] = {author: weight * value / total for author, value in authors.items()}
    return found


def find_factors(batch: Batch, most_share: float) -> Mapping[int, float]:
    """Rollout id -> factor on its weight, in (0, 1]; {} where nobody is held down."""
    if most_share >= 1:
        return {}
    voices = find_voices(batch)
    fixed = frozenset(voice for parts in voices.values() for voice in parts if ":" not in voice)
    factors = cap_voices(list(voices.values()), most_share=most_share, fixed=fixed)
    return {pk: factor for pk, factor in zip(voices, factors, strict=True) if factor < 1}
