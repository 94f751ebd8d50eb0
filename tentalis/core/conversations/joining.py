"""Several calls of a model as one sequence, where each goes on exactly where the one before it ended."""

from collections.abc import Sequence
from typing import NamedTuple


class Call(NamedTuple):
    """One call, token for token.

    Args:
        prompt: (P,) all of it.
        tokens, logprobs, sampled: (T,) each, of the answer.
    """

    prompt: Sequence[int]
    tokens: Sequence[int]
    logprobs: Sequence[float]
    sampled: Sequence[bool]


class Joined(NamedTuple):
    """Calls as one: the first prompt, and everything behind it.

    Args:
        spans: [start, end) of each call's own tokens.
    """

    prompt: list[int]
    tokens: list[int]
    logprobs: list[float]
    sampled: list[bool]
    spans: list[tuple[int, int]]


def follows(before: Call, after: Call) -> bool:
    """Whether the later prompt begins with the earlier prompt and its answer, token for token."""
    size, end = len(before.prompt), len(before.prompt) + len(before.tokens)
    return (
        len(after.prompt) >= end
        and list(after.prompt[:size]) == list(before.prompt)
        and list(after.prompt[size:end]) == list(before.tokens)
    )


def split_chains(calls: Sequence[Call]) -> list[list[Call]]:
    """Runs of calls, each of which goes on where the one before it ended; in order, every call in one of them."""
    chains: list[list[Call]] = []
    for call in calls:
        if chains and follows(chains[-1][-1], call):
            chains[-1].append(call)
        else:
            chains.append([call])
    return chains


def join_calls(calls: Sequence[Call], *, hidden: Sequence[Sequence[int]] = ()) -> Joined:
    """Make one sequence of a chain; what stands between two answers was told to the agent: not sampled, log-prob 0.

    Args:
        hidden: stretches [start, end) of the joined tokens to take out of the loss: they count as not sampled.
    Raises:
        ValueError: a call does not go on where the one before it ended.
    """
    first = calls[0]
    joined = Joined(list(first.prompt), [], [], [], [])
    before: Call | None = None
    for place, call in enumerate(calls):
        if before is not None:
            if not follows(before, call):
                raise ValueError(f"call {place} does not go on where call {place - 1} ended")
            told = list(call.prompt[len(before.prompt) + len(before.tokens) :])
            _extend(joined, told, [0.0] * len(told), [False] * len(told))
        start = len(joined.tokens)
        _extend(joined, call.tokens, call.logprobs, call.sampled)
        joined.spans.append((start, len(joined.tokens)))
        before = call
    for start, end in hidden:
        for place in range(max(start, 0), min(end, len(joined.tokens))):
            joined.sampled[place], joined.logprobs[place] = False, 0.0
    return joined


def _extend(joined: Joined, tokens: Sequence[int], logprobs: Sequence[float], sampled: Sequence[bool]) -> None:
    joined.tokens.extend(tokens)
    joined.logprobs.extend(logprobs)
    joined.sampled.extend(sampled)
