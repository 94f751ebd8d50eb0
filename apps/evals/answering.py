"""Has an agent answer items, or play their episodes to the end, and find out what is known of each answer."""

import logging
import uuid
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any, Final, NamedTuple

from apps.checks.graders import convene_graders
from apps.evals.grading import charging_judges, verify_items
from apps.evals.records import KeptTry, make_record
from apps.evals.results import WantedTry, name_of
from apps.inference.client import ModelClient
from apps.inference.errors import ProviderRefusedError
from apps.workers.models import Worker
from apps.worlds.episodes import Episode
from apps.worlds.playing import play as play_episodes
from tentalis.core.worlds import Agent, AttemptDraft, TurnAgent, TurnAsked, Verification, World

AGAIN: Final = 7_919
"""Added to an item's seed for each further try of it."""
logger = logging.getLogger(__name__)


class Answered(NamedTuple):
    """What came of a try, and what is known of it; None: nothing, or it says nothing of the model.

    Args:
        base_nats: of `AnswerTraits`.
        kept: all of it, where that is.
    """

    draft: AttemptDraft
    found: Verification | None
    base_nats: float | None = None
    kept: KeptTry | None = None


def answer_tries(
    agent: Agent,
    worker: Worker,
    world: World,
    tries: Sequence[WantedTry],
    *,
    model: str,
    greedy: bool,
    server: ModelClient | None = None,
) -> list[Answered]:
    """Have the agent try them; in a world with turns their episodes are played to their end, and kept nowhere.

    Args:
        server: is asked what the base model gives the answers; None: nobody is.
    """
    seeds = [one.item.seed + one.asked.measured.evaluation.seed + AGAIN * one.number for one in tries]
    if world.has_turns and isinstance(agent, TurnAgent):
        return _play(agent, worker, world, tries, seeds, model=model, greedy=greedy)
    asked = list(zip(tries, seeds, strict=True))
    made: dict[WantedTry, AttemptDraft] = {}
    if isinstance(agent, TurnAgent) and (told := [one for one in asked if one[0].item.messages]):
        turns = [TurnAsked(messages=one.item.messages, seed=seed) for one, seed in told]
        said = agent.take_turns(turns, world=world, tools=(), model=model, greedy=greedy)
        made |= {one: turn.draft for (one, _), turn in zip(told, said, strict=True)}
    if plain := [one for one in asked if one[0] not in made]:
        prompts, of_plain = [one.item.prompt for one, _ in plain], [seed for _, seed in plain]
        groups = agent.work(prompts=prompts, world=world, group_size=1, seeds=of_plain, model=model, greedy=greedy)
        made |= {one: draft for (one, _), (draft,) in zip(plain, groups, strict=True)}
    drafts, evaluation = [made[one] for one in tries], tries[0].asked.measured.evaluation
    found = verify_items([one.item for one in tries], world, drafts, evaluation=evaluation)
    kept = [make_record(*one) if evaluation.keeps_records else None for one in zip(drafts, found, strict=True)]
    return list(map(Answered, drafts, found, _measure_base_nats(server, worker, tries, drafts), kept))


def _measure_base_nats(
    server: ModelClient | None, worker: Worker, tries: Sequence[WantedTry], drafts: Sequence[AttemptDraft]
) -> list[float | None]:
    """Mean of -log p under the base model of what each answer's tokens are; one request for all of them.

    Returns:
        Nats a token; 0 of nothing said; None where no alarm looks at it, or the server refused.
    """
    looked_at = {
        place: draft
        for place, (one, draft) in enumerate(zip(tries, drafts, strict=True))
        if one.is_looked_at and draft.token_ids and draft.prompt_token_ids
    }
    found: list[float | None] = [None if draft.text else 0.0 for draft in drafts]
    if not looked_at or server is None:
        return found
    rows = [(draft.prompt_token_ids, draft.token_ids) for draft in looked_at.values()]
    try:
        scores = server.score_answers(rows, model=name_of(worker, None))
    except ProviderRefusedError as error:
        logger.warning("the model server of %s would not score answers: %s", worker, error)
        return found
    for (place, draft), score in zip(looked_at.items(), scores, strict=True):
        chosen = [value for value, sampled in zip(score, draft.sampled, strict=True) if sampled]
        found[place] = -fmean(chosen) if chosen else 0.0
    return found


def _play(
    agent: TurnAgent,
    worker: Worker,
    world: World,
    tries: Sequence[WantedTry],
    seeds: Sequence[int],
    *,
    model: str,
    greedy: bool,
) -> list[Answered]:
    with charging_judges(tries[0].asked.measured.evaluation):
        graders = convene_graders(worker.project, [one.item.checks for one in tries])
        episodes = [
            Episode(
                key=uuid.uuid4().hex,  # nobody goes on with it, and another evaluation of the item is another episode
                prompt=one.item.prompt,
                reference=one.item.reference,
                checks=one.item.checks,
                graders=graders,
                seed=seed,
                sampling_seed=seed,
                opening=one.item.messages or world.messages_for(one.item.prompt, worker.system_prompt),
            )
            for one, seed in zip(tries, seeds, strict=True)
        ]
        play_episodes(episodes, world=world, agent=agent, model=model, greedy=greedy)
    keeps = tries[0].asked.measured.evaluation.keeps_records
    return [_tell(one, keeps=keeps) for one in episodes]


def _tell(episode: Episode, *, keeps: bool) -> Answered:
    draft = _join_tokens(episode)
    turns = [turn.draft for turn in episode.turns]
    kept = make_record(draft, episode.verification, turns=turns, opening=episode.opening) if keeps else None
    return Answered(draft, episode.verification, kept=kept)


def _join_tokens(episode: Episode) -> AttemptDraft:
    """An episode as one try, with all that its model wrote, for what an answer looks like."""
    drafts = [turn.draft for turn in episode.turns]
    told: dict[str, Any] = {
        name: [value for draft in drafts for value in getattr(draft, name)]
        for name in ("token_ids", "logprobs", "sampled")
    }
    return replace(episode.join(), **told)
