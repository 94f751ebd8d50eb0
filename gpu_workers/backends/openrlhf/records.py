"""What OpenRLHF's stock trainers learn from, one JSON line a record, in exact tokens for `plugin.exact_tokens`."""

import itertools
import json
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from gpu_workers.artifacts import write_file
from gpu_workers.backends.base_models import locate_base
from gpu_workers.backends.errors import BaseModelError, NothingToLearnError
from gpu_workers.engine.errors import EngineError
from gpu_workers.engine.text import TextCodec
from tentalis.core.contracts import DemonstrationRecord, LabelledStepsRecord, PairRecord

GOOD = 0.5
"""A label from which a step is a good one."""


class Answer(NamedTuple):
    """Tokens of an answer, (T,), and which of them count: what a tool wrote does not."""

    ids: Sequence[int]
    counts: Sequence[bool]


@dataclass(frozen=True)
class BaseTokens:
    """A base model's words as tokens. Args: end: the token that ends an answer."""

    codec: TextCodec
    end: int

    @classmethod
    def open(cls, base_model: str) -> "BaseTokens":
        """Raises BaseModelError where its tokenizer cannot be read, or names no end."""
        directory = locate_base(base_model)
        try:
            codec = TextCodec.from_directory(directory)
            turns = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}]
            text = codec.render_chat(turns, add_generation_prompt=False)
            written = codec.encode([text], add_special_tokens=False)[0]
        except (OSError, ValueError, EngineError) as error:
            raise BaseModelError(f"{base_model} cannot write a conversation: {error}") from error
        ends = _read_ends(directory)
        found = next((token for token in reversed(written) if token in ends), None)
        if found is None:
            raise BaseModelError(f"the chat template of {base_model} ends no answer with one of {sorted(ends)}")
        return cls(codec, found)

    def read_prompt(self, ids: Sequence[int], messages: Sequence[Mapping[str, str]]) -> list[int]:
        """Exact tokens where there are any, else the conversation up to where the answer starts."""
        if ids:
            return list(ids)
        try:
            return list(self.codec.encode([self.codec.render_chat(messages)], add_special_tokens=False)[0])
        except EngineError as error:
            raise BaseModelError(f"the chat template refuses a conversation: {error}") from error

    def read_answer(self, ids: Sequence[int], counts: Sequence[bool], text: str) -> Answer:
        """Exact tokens where there are any, else the text as the model would have ended it."""
        if ids:
            return Answer(ids, counts)
        written = [*self.codec.encode([text], add_special_tokens=False)[0], self.end]
        return Answer(written, [True] * len(written))


def _read_ends(directory: Path) -> set[int]:
    for name in ("generation_config.json", "config.json"):
        path = directory / name
        found = json.loads(path.read_bytes()).get("eos_token_id") if path.is_file() else None
        if found is not None:
            return set(found) if isinstance(found, list) else {found}
    return set()


Pair = tuple[Sequence[int], Answer, Answer]
"""Prompt, chosen, rejected."""


def write_pairs(path: Path, pairs: Sequence[PairRecord], base: BaseTokens, *, max_tokens: int) -> int:
    """Write pairs (`is_of_one`); how many fit into `max_tokens` and differ.

    Raises:
        NothingToLearnError: none does. BaseModelError: a conversation cannot be written.
    """
    read = [_read_pair(pair, base) for pair in pairs]
    fit = [pair for pair in read if list(pair[1].ids) != list(pair[2].ids) and _fits(pair, max_tokens)]
    return _write(path, map(_pair_line, fit), found=len(pairs), max_tokens=max_tokens)


def _read_pair(pair: PairRecord, base: BaseTokens) -> Pair:
    (chosen,), (rejected,) = pair.chosen, pair.rejected
    return (
        base.read_prompt(pair.prompt_token_ids, pair.messages),
        base.read_answer(chosen.token_ids, chosen.counts, chosen.text),
        base.read_answer(rejected.token_ids, rejected.counts, rejected.text),
    )


def write_demonstrations(
    path: Path, demonstrations: Sequence[DemonstrationRecord], base: BaseTokens, *, max_tokens: int
) -> int:
    """Write demonstrations; how many fit into `max_tokens`. Raises as `write_pairs`."""
    read = [
        (
            base.read_prompt(one.prompt_token_ids, one.messages),
            base.read_answer(one.token_ids, one.counts, one.answer),
        )
        for one in demonstrations
    ]
    lines = (
        {"prompt": json.dumps(prompt), "answer": _write_answer(answer)}
        for prompt, answer in read
        if any(answer.counts) and len(prompt) + len(answer.ids) <= max_tokens
    )
    return _write(path, lines, found=len(demonstrations), max_tokens=max_tokens)


def write_step_pairs(
    path: Path, records: Sequence[LabelledStepsRecord], *, updates: int, batch: int, max_tokens: int, seed: int
) -> int:
    """Write pairs of answers to one prompt, up to the end of a good step and up to that of a bad one.

    They are drawn with replacement, as often as their labels are trusted and apart, since OpenRLHF counts every pair
    alike; how many: whole batches, no more than `updates` of them and than there are different pairs.

    Raises:
        NothingToLearnError: no prompt has a good and a bad step.
    """
    pairs, weights = [], []
    for pair, weight in _find_step_pairs(records):
        if _fits(pair, max_tokens):
            pairs.append(pair)
            weights.append(weight)
    if not pairs:
        raise NothingToLearnError(
            f"wanted tasks with good and bad steps of up to {max_tokens} tokens (options.max_tokens), found none among "
            f"{len(records)} attempts"
        )
    count = min(updates, -(-len(pairs) // batch)) * batch
    drawn = random.Random(seed).choices(pairs, weights, k=count)  # a shuffle, not a secret
    return _write(path, map(_pair_line, drawn), found=count, max_tokens=max_tokens)


def _find_step_pairs(records: Sequence[LabelledStepsRecord]) -> Iterable[tuple[Pair, float]]:
    """Good and bad steps of the same prompt, and how much each pair says."""
    by_prompt: defaultdict[tuple[int, ...], list[tuple[Sequence[int], float, float]]] = defaultdict(list)
    for record in records:
        for step in record.steps:
            if record.split == "train" and step.label is not None and step.weight > 0:
                prefix = record.token_ids[: step.end]
                by_prompt[tuple(record.prompt_token_ids)].append((prefix, step.label, step.weight))
    for prompt, steps in by_prompt.items():
        good = [step for step in steps if step[1] >= GOOD]
        bad = [step for step in steps if step[1] < GOOD]
        for (chosen, high, trust), (rejected, low, distrust) in itertools.product(good, bad):
            pair = (prompt, Answer(chosen, [True] * len(chosen)), Answer(rejected, [True] * len(rejected)))
            yield pair, (high - low) * min(trust, distrust)


def _fits(pair: Pair, max_tokens: int) -> bool:
    prompt, *answers = pair
    return all(any(answer.counts) and len(prompt) + len(answer.ids) <= max_tokens for answer in answers)


def _pair_line(pair: Pair) -> dict[str, str]:
    prompt, chosen, rejected = pair
    return {
        "prompt": json.dumps(list(prompt)),
        "chosen": _write_answer(chosen),
        "rejected": _write_answer(rejected),
    }


def _write_answer(answer: Answer) -> str:
    return json.dumps({"ids": list(answer.ids), "counts": list(answer.counts)})


def _write(path: Path, lines: Iterable[Mapping[str, str]], *, found: int, max_tokens: int) -> int:
    written = [json.dumps(line) + "\n" for line in lines]
    if not written:
        raise NothingToLearnError(
            f"none of {found} records says anything within {max_tokens} tokens (options.max_tokens)"
        )
    write_file(path, "".join(written).encode())
    return len(written)
