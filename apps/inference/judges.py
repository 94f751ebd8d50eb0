"""A model's judgement of every step and the whole of an attempt, by several votes cast at the same time."""

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from django.conf import settings

from apps.accounts.models import Project
from apps.base.errors import TentalisError
from apps.inference.client import ModelClient
from apps.inference.errors import raise_if_paced
from apps.inference.models import Provider
from apps.inference.services import client_for, find_server
from tentalis.core.scoring.judging import (
    Criterion,
    Judgement,
    JudgeRequest,
    build_judge_request,
    parse_judgement,
    tally_judgements,
)
from tentalis.core.scoring.protocol import AttemptContext, ScorerResult, StepScored, Unscored
from tentalis.core.scoring.quoting import clean_text
from tentalis.core.scoring.votes import Tally

VOTES = 3
MAX_TOKENS = 4096
TEMPERATURE = 0.7


@dataclass(frozen=True)
class Voter:
    """A model that votes. `provider_id` is its server's; None: the installation's own."""

    model: str
    client: ModelClient
    provider_id: int | None = None


def find_judging_model(project_id: int, name: str = "") -> tuple[Provider | None, str]:
    """The model of that name, as `find_server` reads it, or the installation's; "" where none is configured."""
    return find_server(project_id, name or settings.TENTALIS["LLM_MODEL"])


def find_voter(project: Project, name: str = "") -> Voter | None:
    """What asks `find_judging_model` for a project; None where none is configured. Raises: as `open_voter`."""
    provider, model = find_judging_model(project.pk, name)
    return open_voter(project.pk, provider, model) if model else None


def open_voter(project_id: int, provider: Provider | None, model: str) -> Voter:
    """What asks a model at a server for a project.

    Raises:
        NotGrantedError, ConflictError, SealedKeyError: as `client_for`.
    """
    return Voter(model, client_for(provider, project_id), provider.pk if provider else None)


@dataclass(frozen=True)
class JudgeScorer:
    """Medians of the valid votes; broken ones are counted and stand for no number.

    Args:
        voter: None: no model is configured, and nothing is scored; or why nobody is asked.
        pool: where votes are cast in parallel.
    """

    name: str
    criterion: Criterion
    voter: Voter | Unscored | None
    pool: Executor

    def score(self, context: AttemptContext) -> ScorerResult:
        voter = self.voter
        if voter is None:
            return ScorerResult(scorer=self.name, value=Unscored("no model is configured to judge it"))
        if isinstance(voter, Unscored):
            return ScorerResult(scorer=self.name, value=voter)
        request = build_judge_request(context, criterion=self.criterion)
        votes = list(self.pool.map(lambda seed: cast_vote(voter, request, seed=seed), range(VOTES)))
        tally = tally_judgements(votes, total_steps=len(context.steps))
        said = [vote for vote in votes if not isinstance(vote, Unscored)]
        steps = tuple(
            StepScored(index, step.value, _comment(said, index, step), step.spread)
            for index, step in enumerate(tally.steps)
        )
        details = {
            "judges": ["default"],
            "votes": [vote.overall for vote in said],
            "invalid_votes": tally.overall.invalid,
            "invalid_reasons": dict(Counter(tally.overall.invalid_reasons)),
            "prompt_version": request.prompt_version,
        }
        return ScorerResult(
            scorer=self.name,
            value=tally.overall.value,
            steps=steps,
            comment=_closest(said, tally.overall),
            spread=tally.overall.spread,
            details=details,
        )


def cast_vote(
    voter: Voter, request: JudgeRequest, *, temperature: float = TEMPERATURE, seed: int | None = None
) -> Judgement | Unscored:
    """Ask a model once; what is no vote comes back as the reason. Raises PacedError: it is to be asked later."""
    try:
        answers = voter.client.chat(
            request.messages, model=voter.model, max_tokens=MAX_TOKENS, temperature=temperature, seed=seed
        )
    except TentalisError as error:
        raise_if_paced(error)
        return Unscored(clean_text(f"{type(error).__name__}: {error}"[:500]))
    return parse_judgement(answers[0].text, step_count=request.step_count)


def _closest(said: Sequence[Judgement], tally: Tally) -> str:
    """The words of the vote nearest to the median."""
    value = tally.value
    if isinstance(value, Unscored) or not said:
        return ""
    return min(said, key=lambda vote: abs(vote.overall - value)).reason


def _comment(said: Sequence[Judgement], index: int, tally: Tally) -> str:
    value = tally.value
    spoken = [vote.steps[index] for vote in said if index < len(vote.steps)]
    if isinstance(value, Unscored) or not spoken:
        return ""
    return min(spoken, key=lambda vote: abs(vote.score - value)).reason
