"""Working tickets with an in-process engine: sample, let the tool answer a call, go on, and judge the whole."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from gpu_workers.engine.engine import Engine
from gpu_workers.engine.jobs import Sample, TopLogprobs
from tentalis.core.desk import DeskVerdict, Ticket, answer_call, find_open_call, read_pieces, verify
from tentalis.core.hints import hinted_prompt

MOST_TOKENS = 44
_MOST_CALLS = 4


@dataclass
class Attempt:
    """One attempt at a ticket.

    Args:
        prompt_ids: (P,) the chat prompt.
        token_ids: (T,) everything after it, tool results included.
        logprobs: (T,) behaviour log-probs at temperature 1; 0.0 where not sampled.
        sampled: (T,) True where the model chose the token.
        top: (T,) the likeliest tokens at each place with their log-probs, most likely first, where they were asked for;
            none where not sampled.
        ended: the model closed its turn itself.
    """

    ticket: Ticket
    prompt_ids: list[int]
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    sampled: list[bool] = field(default_factory=list)
    top: list[TopLogprobs] = field(default_factory=list)
    ended: bool = False


def attempt_tickets(
    engine: Engine,
    tickets: Sequence[Ticket],
    *,
    n: int = 1,
    seed: int,
    temperature: float = 1.0,
    adapter: str | None = None,
    hints: Sequence[Sequence[str]] | None = None,
    top_k: int | None = None,
) -> list[list[Attempt]]:
    """Attempt every ticket n times, all together; an attempt has at most `MOST_TOKENS` tokens after its prompt.

    Args:
        hints: one sequence a ticket, written into its prompt.
        top_k: how many of the likeliest tokens to note at each place; None for none.
    """
    codec = engine.codec
    texts = [
        codec.render_chat([{"role": "user", "content": hinted_prompt(ticket.text, told)}])
        for ticket, told in zip(tickets, hints or [()] * len(tickets), strict=True)
    ]
    prompts = codec.encode(texts, add_special_tokens=False)
    first = engine.generate(
        prompts,
        n,
        adapter=adapter,
        max_tokens=MOST_TOKENS,
        temperature=temperature,
        seed=seed,
        stop_token_ids=_find_call_end(engine),
        top_logprobs=top_k,
    )
    groups = [
        [Attempt(ticket, list(prompt)) for _ in range(n)] for ticket, prompt in zip(tickets, prompts, strict=True)
    ]
    _work_on(engine, groups, first, seed=seed, temperature=temperature, adapter=adapter, top_k=top_k)
    return groups


def finish_attempts(
    engine: Engine,
    starts: Sequence[tuple[Attempt, int]],
    *,
    n: int,
    seed: int,
    temperature: float = 1.0,
    adapter: str | None = None,
) -> list[list[Attempt]]:
    """Attempts begun anew from their first tokens, n times each, all together.

    Args:
        starts: an attempt, and how many of its tokens stay; the tool's result right behind them stays too.
    """
    groups = []
    for attempt, size in starts:
        end = size
        while end < len(attempt.token_ids) and not attempt.sampled[end]:
            end += 1
        groups.append(
            [
                Attempt(
                    attempt.ticket,
                    attempt.prompt_ids,
                    attempt.token_ids[:end],
                    attempt.logprobs[:end],
                    attempt.sampled[:end],
                )
                for _ in range(n)
            ]
        )
    first = engine.generate(
        [group[0].prompt_ids + group[0].token_ids for group in groups],
        n,
        adapter=adapter,
        max_tokens=MOST_TOKENS,
        temperature=temperature,
        seed=seed,
        stop_token_ids=_find_call_end(engine),
    )
    _work_on(engine, groups, first, seed=seed, temperature=temperature, adapter=adapter)
    return groups


def _find_call_end(engine: Engine) -> frozenset[int]:
    return frozenset(engine.codec.encode(["</call>"], add_special_tokens=False)[0][:1])


def _work_on(
    engine: Engine,
    groups: Sequence[Sequence[Attempt]],
    drawn: Sequence[Sequence[Sample]],
    *,
    seed: int,
    temperature: float,
    adapter: str | None,
    top_k: int | None = None,
) -> None:
    """Take what was drawn, answer the calls in it, and go on until nobody waits for the tool."""
    codec, stops = engine.codec, _find_call_end(engine)
    running = [attempt for group in groups for attempt in group]
    samples = [sample for group in drawn for sample in group]
    for turn in range(1, _MOST_CALLS + 1):
        waiting = []
        for attempt, sample in zip(running, samples, strict=True):
            room = MOST_TOKENS - len(attempt.token_ids)
            attempt.token_ids += sample.token_ids[:room]
            attempt.logprobs += sample.logprobs.tolist()[:room]
            attempt.sampled += [True] * len(sample.token_ids[:room])
            attempt.top += (sample.top or [])[:room]
            is_whole = len(sample.token_ids) <= room
            attempt.ended = is_whole and sample.finish_reason == "stop" and sample.stop_reason is None
            call = find_open_call("".join(codec.split_pieces(attempt.token_ids)))
            if call is not None and sample.stop_reason in stops:
                result = codec.encode([answer_call(attempt.ticket, call)], add_special_tokens=False)[0]
                if len(attempt.token_ids) + len(result) < MOST_TOKENS:
                    attempt.token_ids += result
                    attempt.logprobs += [0.0] * len(result)
                    attempt.sampled += [False] * len(result)
                    attempt.top += [[]] * len(result) if top_k is not None else []
                    waiting.append(attempt)
        if not waiting:
            break
        running = waiting
        grouped = engine.generate(
            [attempt.prompt_ids + attempt.token_ids for attempt in running],
            adapter=adapter,
            max_tokens=MOST_TOKENS - min(len(attempt.token_ids) for attempt in running),
            temperature=temperature,
            seed=seed + turn,
            stop_token_ids=stops,
            top_logprobs=top_k,
        )
        samples = [group[0] for group in grouped]


def judge_attempt(engine: Engine, attempt: Attempt) -> DeskVerdict:
    """The rule book's verdict on an attempt."""
    reading = read_pieces(engine.codec.split_pieces(attempt.token_ids))
    return verify(attempt.ticket, reading.parts, attempt.ended)


def measure_accuracy(
    engine: Engine,
    tickets: Sequence[Ticket],
    *,
    seed: int,
    temperature: float = 1.0,
    adapter: str | None = None,
    hints: Sequence[Sequence[str]] | None = None,
) -> float:
    """The share of tickets, attempted once each, whose outcome is right."""
    groups = attempt_tickets(engine, tickets, seed=seed, temperature=temperature, adapter=adapter, hints=hints)
    return sum(judge_attempt(engine, group[0]).outcome for group in groups) / len(groups)
