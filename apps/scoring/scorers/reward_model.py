"""A trained reward model's score of every step; the whole is as good as its worst step."""

from collections.abc import Mapping, Sequence

from apps.adapters.errors import AdapterBrokenError
from apps.inference.errors import ProviderBusyError, ProviderRefusedError
from apps.scoring.answers import Answer, read_answers
from apps.scoring.models import RewardModel
from apps.scoring.reward_models import score_answers
from apps.tasks.models import Attempt
from tentalis.core.scoring.protocol import ScorerResult, StepScored, Unscored

NAME = "prm"


def score_attempts(model: RewardModel, attempts: Sequence[Attempt]) -> Mapping[int, ScorerResult]:
    """Attempt id -> what the model says of it, all in one request; Unscored with the reason where it cannot.

    Source:
        The least of its steps' scores stands for a solution in Lightman et al., arXiv:2305.20050, and in
        Math-Shepherd, arXiv:2312.08935.
    """
    found = read_answers(attempt.pk for attempt in attempts)
    read = {pk: answer for pk, answer in found.items() if isinstance(answer, Answer)}
    away = ""
    scores: dict[int, list[float]] = {}
    try:
        scores = dict(zip(read, score_answers(model, list(read.values())), strict=True))
    except (ProviderBusyError, ProviderRefusedError, AdapterBrokenError) as error:
        away = f"the reward model {model.name} is away: {error}"[:2000]
    results = {}
    for attempt in attempts:
        answer = found.get(attempt.pk, "it is no stored attempt: its tokens are not known")
        if away or isinstance(answer, str):
            results[attempt.pk] = ScorerResult(scorer=NAME, value=Unscored(away or str(answer)))
        else:
            results[attempt.pk] = _make_result(model, answer, scores[attempt.pk])
    return results


def _make_result(model: RewardModel, answer: Answer, scores: Sequence[float]) -> ScorerResult:
    steps = tuple(StepScored(step.index, score) for step, score in zip(answer.steps, scores, strict=True))
    worst = min(steps, key=lambda step: step.score if isinstance(step.score, float) else 1.0)
    return ScorerResult(
        scorer=NAME,
        value=min(scores),
        steps=steps,
        comment=f"step {worst.index + 1} is the weakest",
        details={"model": model.name, "version": model.version},
    )
