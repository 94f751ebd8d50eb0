"""Episodes with an in-process engine: turn by turn and token by token, as a worker plays them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from gpu_workers.apprentice.lessons import Rehearsal, Teaching
from gpu_workers.engine.engine import Engine
from tentalis.core.tool_calls import read_written_calls

ANSWER_TOKENS: Final = 96
MOST_TURNS: Final = 12


@dataclass
class PlayedEpisode:
    """One episode.

    Args:
        prompt_ids: (P,); token_ids, logprobs, sampled: (T,) all that came behind it, what its tools said included.
    """

    rehearsal: Rehearsal
    prompt_ids: list[int]
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    sampled: list[bool] = field(default_factory=list)


def play_episodes(
    engine: Engine,
    rehearsals: Sequence[Rehearsal],
    *,
    seed: int,
    temperature: float = 1.0,
    adapter: str | None = None,
) -> list[PlayedEpisode]:
    """Play them all together, each to its end."""
    codec = engine.codec
    texts = [codec.render_chat(one.messages, variables={"tools": one.tools}) for one in rehearsals]
    prompts = codec.encode(texts, add_special_tokens=False)
    episodes = [PlayedEpisode(one, list(ids)) for one, ids in zip(rehearsals, prompts, strict=True)]
    running = list(episodes)
    for turn in range(MOST_TURNS):
        drawn = engine.generate(
            [one.prompt_ids + one.token_ids for one in running],
            adapter=adapter,
            max_tokens=ANSWER_TOKENS,
            temperature=temperature,
            seed=seed * MOST_TURNS + turn,
        )
        waiting = []
        for episode, (sample,) in zip(running, drawn, strict=True):
            episode.token_ids += sample.token_ids
            episode.logprobs += sample.logprobs.tolist()
            episode.sampled += [True] * len(sample.token_ids)
            if sample.finish_reason != "stop":
                continue
            calls = read_written_calls(codec.decode(sample.token_ids, skip_special=False)).calls
            told = [episode.rehearsal.answer(call) for call in calls]
            if not told or any(ends for _, ends in told):
                continue
            text = codec.render_chat([{"role": "tool", "content": words} for words, _ in told])
            ids = codec.encode([text], add_special_tokens=False)[0]
            episode.token_ids += ids
            episode.logprobs += [0.0] * len(ids)
            episode.sampled += [False] * len(ids)
            waiting.append(episode)
        running = waiting
        if not running:
            break
    return episodes


def measure_accuracy(
    engine: Engine, teaching: Teaching, *, size: int, seed: int, temperature: float, is_hinted: bool
) -> float:
    """The share of held-out tasks, tried once each, that go right."""
    assert teaching.draw_rehearsal is not None
    rng = Random(seed)
    rehearsals = [teaching.draw_rehearsal(rng, is_hinted) for _ in range(size)]
    play_episodes(engine, rehearsals, seed=seed, temperature=temperature)
    return sum(one.is_right() for one in rehearsals) / size
