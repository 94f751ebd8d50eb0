"""From pairs, demonstrations and judged rollouts to examples: answers that should become likelier, and others less."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gpu_workers.artifacts import path_from_uri
from gpu_workers.backends.base_models import BaseModel
from gpu_workers.backends.errors import NothingToLearnError
from gpu_workers.backends.held_out import choose_held_out, find_tasks
from gpu_workers.backends.replaying import ReplayError
from gpu_workers.backends.rollout_files import read_records
from gpu_workers.backends.training_example import Refused
from tentalis.core.contracts import DemonstrationRecord, PairRecord, RolloutRecord, TrainSpec

GOOD = 0.5
"""A reward from which an answer is one to learn, for KTO."""

Item = tuple[tuple[int, ...], tuple[int, ...]]
"""Prompt and answer."""


@dataclass(frozen=True)
class Answer:
    """One answer to one prompt.

    Args:
        prompt: (P,) token ids; tokens: (T,) the answer, end token included.
        counts: (T,) True where a token is the author's and no tool's.
        reference: (T,) nats, of the policy the run starts from; None: to be computed.
    """

    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    counts: tuple[bool, ...]
    reference: tuple[float, ...] | None = None

    @property
    def item(self) -> Item:
        return self.prompt, self.tokens

    @property
    def size_tokens(self) -> int:
        """Tokens that count."""
        return sum(self.counts)


@dataclass(frozen=True)
class Example:
    """What there is to learn: a chosen answer over a rejected one, or one of them alone.

    Args:
        group_id: the task; whole tasks are held out.
        weight: trust, > 0.
    """

    group_id: int
    weight: float
    chosen: Answer | None = None
    rejected: Answer | None = None

    @property
    def answers(self) -> tuple[Answer, ...]:
        return tuple(answer for answer in (self.chosen, self.rejected) if answer is not None)


class Unreadable(NamedTuple):
    """A record whose conversation the model's template refuses."""

    record: str
    words: str


@dataclass(frozen=True)
class Examples:
    """A run's examples: what is learnt, what it is checked on, and which records are neither and why."""

    learnt: list[Example]
    held_out: list[Example]
    refused: Refused


def read_examples(spec: TrainSpec, algorithm: str, base: BaseModel, *, held_out_share: float) -> Examples:
    """Read the spec's records as the algorithm wants them, and hold whole tasks out.

    Raises:
        ArtifactError, RolloutsUnreadableError: the file.
        NothingToLearnError: fewer than two tasks are left.
    """
    path = path_from_uri(spec.rollouts_uri)
    made: Iterable[Example | Unreadable | str]
    if algorithm == "kto":
        rollouts = list(read_records(path, RolloutRecord, sha256=spec.rollouts_sha256))
        tasks = find_tasks(rollouts)
        made = (_from_rollout(one, tasks[one.rollout_id]) for one in rollouts)
    elif algorithm == "sft":
        demonstrations = read_records(path, DemonstrationRecord, sha256=spec.rollouts_sha256)
        made = (_from_demonstration(one, base) for one in demonstrations)
    else:
        made = (_from_pair(one, base) for one in read_records(path, PairRecord, sha256=spec.rollouts_sha256))
    examples: list[Example] = []
    refused = Refused()
    for one in made:
        reason = one if isinstance(one, str) else "" if isinstance(one, Unreadable) else _find_misfit(one, base)
        if isinstance(one, Unreadable):
            refused.note("template_refuses", one.words, record=one.record)
        elif reason:
            refused.counts[reason] += 1
        elif isinstance(one, Example):
            examples.append(one)
    held_out = choose_held_out({example.group_id for example in examples}, share=held_out_share)
    if not held_out:
        reasons = (
            ", ".join(f"{count} {reason}" for reason, count in sorted(refused.counts.items())) or "no more records"
        )
        reasons = "; ".join([reasons, *refused.notes[:3]])
        raise NothingToLearnError(
            f"wanted examples of at least two tasks, one of them to be held out, found {len(examples)} examples of "
            f"{len({example.group_id for example in examples})} ({reasons})"
        )
    return Examples(
        [example for example in examples if example.group_id not in held_out],
        [example for example in examples if example.group_id in held_out],
        refused,
    )


def _from_rollout(rollout: RolloutRecord, group_id: int) -> Example | str:
    """Half-hearted judgements teach half: the weight falls to 0 where the reward is as far from good as from bad."""
    if rollout.reward is None:
        return "no_reward"
    answer = Answer(tuple(rollout.prompt_token_ids), tuple(rollout.token_ids), tuple(rollout.sampled))
    weight = rollout.weight * abs(2 * rollout.reward - 1)
    if rollout.reward >= GOOD:
        return Example(group_id, weight, chosen=answer)
    return Example(group_id, weight, rejected=answer)


def _from_pair(pair: PairRecord, base: BaseModel) -> Example | Unreadable | str:
    try:
        prompt = tuple(pair.prompt_token_ids) or base.replayer.read(pair.messages)
    except ReplayError as error:
        return Unreadable(f"pair {pair.pair_id}", str(error))
    chosen, rejected = (
        _read_answer(prompt, tokens, counts, logprobs, text, base)
        for tokens, counts, logprobs, text in (
            (pair.chosen_token_ids, pair.chosen_sampled, pair.chosen_logprobs, pair.chosen_answer),
            (pair.rejected_token_ids, pair.rejected_sampled, pair.rejected_logprobs, pair.rejected_answer),
        )
    )
    if chosen.tokens == rejected.tokens:
        return "same_answers"
    return Example(pair.group_id, pair.weight, chosen, rejected)


def _from_demonstration(one: DemonstrationRecord, base: BaseModel) -> Example | Unreadable | str:
    try:
        prompt = tuple(one.prompt_token_ids) or base.replayer.read(one.messages)
    except ReplayError as error:
        return Unreadable(f"demonstration {one.demonstration_id}", str(error))
    return Example(
        one.group_id, one.weight, chosen=_read_answer(prompt, one.token_ids, one.counts, None, one.answer, base)
    )


def _read_answer(
    prompt: tuple[int, ...],
    tokens: Sequence[int],
    counts: Sequence[bool],
    logprobs: Sequence[float] | None,
    text: str,
    base: BaseModel,
) -> Answer:
    """The exact tokens, else the text as the model would have ended it."""
    if tokens:
        return Answer(prompt, tuple(tokens), tuple(counts), None if logprobs is None else tuple(logprobs))
    written = (*base.codec.encode([text], add_special_tokens=False)[0], base.end_of_turn)
    return Answer(prompt, written, (True,) * len(written))


def _find_misfit(example: Example, base: BaseModel) -> str:
    """Why the model cannot learn from this example; "" when it can."""
    if not 0 < example.weight < math.inf:
        return "no_weight"
    for answer in example.answers:
        if not all(map(math.isfinite, answer.reference or ())):
            return "impossible_log_prob"
        if not answer.prompt:
            return "no_prompt"
        if not any(answer.counts):
            return "no_counted_token"
        ids = (*answer.prompt, *answer.tokens)
        if len(ids) > base.context_length:
            return "longer_than_the_context"
        if min(ids) < 0 or max(ids) >= base.vocabulary_size:
            return "unknown_token"
    return ""


@dataclass(frozen=True)
class Sheet:
    """The answers of some examples, each once, and where each example finds its own.

    Args:
        chosen, rejected: place in `answers` of each example's; None where it has none.
    """

    answers: list[Answer]
    chosen: list[int | None]
    rejected: list[int | None]

    @property
    def items(self) -> list[Item]:
        return [answer.item for answer in self.answers]

    def first_place(self, example: int) -> int:
        """A place in `answers` of an example's; its other answer has the same prompt, and so the same micro-batch."""
        chosen, rejected = self.chosen[example], self.rejected[example]
        place = chosen if chosen is not None else rejected
        if place is None:
            raise ValueError(f"example {example} has no answer")
        return place


def gather(examples: Sequence[Example]) -> Sheet:
    """An answer that many pairs hold is computed once; other tokens that count, or another reference, are another."""
    places: dict[Answer, int] = {}
    answers: list[Answer] = []

    def find(answer: Answer | None) -> int | None:
        if answer is None:
            return None
        if answer not in places:
            places[answer] = len(answers)
            answers.append(answer)
        return places[answer]

    chosen = [find(example.chosen) for example in examples]
    rejected = [find(example.rejected) for example in examples]
    return Sheet(answers, chosen, rejected)


def map_answers(examples: Sequence[Example], change: Callable[[Answer], Answer]) -> list[Example]:
    """The examples with each answer changed."""
    return [
        Example(
            one.group_id,
            one.weight,
            None if one.chosen is None else change(one.chosen),
            None if one.rejected is None else change(one.rejected),
        )
        for one in examples
    ]


def count_reasons(refused: Mapping[str, int]) -> dict[str, float]:
    return {f"refused_{reason}": float(count) for reason, count in sorted(refused.items()) if count}
