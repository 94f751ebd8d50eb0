"""From pairs, demonstrations and judged rollouts to examples: answers that should become likelier, and others less."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from gpu_workers.artifacts import path_from_uri
from gpu_workers.backends.base_models import BaseModel
from gpu_workers.backends.errors import NothingToLearnError
from gpu_workers.backends.held_out import choose_held_out, find_tasks
from gpu_workers.backends.replaying import ReplayError
from gpu_workers.backends.rollout_files import read_records
from gpu_workers.backends.training_example import Refused
from tentalis.core.contracts import AnswerRecord, DemonstrationRecord, PairRecord, RolloutRecord, TrainSpec

GOOD = 0.5
"""A reward from which an answer is one to learn, for KTO."""

Item = tuple[tuple[int, ...], tuple[int, ...]]
"""Prompt and answer."""


@dataclass(frozen=True)
class Answer:
    """One answer to one prompt; an attempt of several calls is several, each to a prompt of its own.

    Args:
        prompt: (P,) token ids; tokens: (T,) the answer, end token included.
        counts: (T,) True where a token is the author's and no tool's.
        reference: (T,) nats, of the policy the run starts from; None before it is computed.
    """

    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    counts: tuple[bool, ...]
    reference: tuple[float, ...] | None = None

    @property
    def item(self) -> Item:
        return self.prompt, self.tokens

    @cached_property
    def size_tokens(self) -> int:
        """Tokens that count."""
        return sum(self.counts)

    @cached_property
    def reference_nats(self) -> float:
        """The reference's log-prob of all tokens that count; 0 where it was not computed."""
        known = zip(self.reference or (), self.counts, strict=self.reference is not None)
        return sum(value for value, counts in known if counts)


@dataclass(frozen=True)
class Example:
    """What there is to learn: a chosen attempt over a rejected one, or one of them alone.

    Args:
        group_id: the task; whole tasks are held out.
        weight: trust, > 0.
        chosen, rejected: all answers of the attempt, which is as likely as all of them together; () for none.
    """

    group_id: int
    weight: float
    chosen: tuple[Answer, ...] = ()
    rejected: tuple[Answer, ...] = ()

    @property
    def answers(self) -> tuple[Answer, ...]:
        return self.chosen + self.rejected

    @property
    def chosen_tokens(self) -> int:
        """Tokens of the chosen attempt that count."""
        return sum(answer.size_tokens for answer in self.chosen)


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
        attempts: dict[int, list[RolloutRecord]] = {}
        for one in rollouts:
            attempts.setdefault(one.rollout_id, []).append(one)
        made = (_from_attempt(parts, tasks[rollout_id]) for rollout_id, parts in attempts.items())
    elif algorithm == "sft":
        demonstrations = read_records(path, DemonstrationRecord, sha256=spec.rollouts_sha256)
        made = (_from_demonstration(one, base) for one in demonstrations)
    else:
        made = (_from_pair(one, base) for one in read_records(path, PairRecord, sha256=spec.rollouts_sha256))
    examples: list[Example] = []
    refused = Refused()
    for found in made:
        reason = found if isinstance(found, str) else _find_misfit(found, base) if isinstance(found, Example) else ""
        if isinstance(found, Unreadable):
            refused.note("template_refuses", found.words, record=found.record)
        elif reason:
            refused.counts[reason] += 1
        elif isinstance(found, Example):
            examples.append(found)
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


def _from_attempt(parts: Sequence[RolloutRecord], group_id: int) -> Example | str:
    """A judged attempt, whose sequences share its reward.

    Half-hearted judgements teach half: the weight falls to 0 where the reward is as far from good as from bad.
    """
    reward = parts[0].reward
    if reward is None:
        return "no_reward"
    answers = tuple(Answer(tuple(one.prompt_token_ids), tuple(one.token_ids), tuple(one.sampled)) for one in parts)
    weight = parts[0].weight * abs(2 * reward - 1)
    if reward >= GOOD:
        return Example(group_id, weight, chosen=answers)
    return Example(group_id, weight, rejected=answers)


def _from_pair(pair: PairRecord, base: BaseModel) -> Example | Unreadable | str:
    try:
        chosen, rejected = (
            tuple(
                _read_answer(one, one.prompt_token_ids or pair.prompt_token_ids, pair.messages, base) for one in answers
            )
            for answers in (pair.chosen, pair.rejected)
        )
    except ReplayError as error:
        return Unreadable(f"pair {pair.pair_id}", str(error))
    if [answer.item for answer in chosen] == [answer.item for answer in rejected]:
        return "same_answers"
    return Example(pair.group_id, pair.weight, chosen, rejected)


def _from_demonstration(one: DemonstrationRecord, base: BaseModel) -> Example | Unreadable | str:
    told = AnswerRecord(token_ids=one.token_ids, counts=one.counts, text=one.answer)
    try:
        answer = _read_answer(told, one.prompt_token_ids, one.messages, base)
    except ReplayError as error:
        return Unreadable(f"demonstration {one.demonstration_id}", str(error))
    return Example(one.group_id, one.weight, chosen=(answer,))


def _read_answer(
    told: AnswerRecord, prompt_token_ids: Sequence[int], messages: Sequence[Mapping[str, str]], base: BaseModel
) -> Answer:
    """The exact tokens, else the text as the model would have ended it.

    Raises:
        ReplayError: the prompt is known as messages only, and the model's template refuses them.
    """
    prompt = tuple(prompt_token_ids) or base.replayer.read(messages)
    if told.token_ids:
        return Answer(prompt, tuple(told.token_ids), tuple(told.counts))
    written = (*base.codec.encode([told.text], add_special_tokens=False)[0], base.end_of_turn)
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
        chosen, rejected: places in `answers` of each example's; () where it has none.
    """

    examples: Sequence[Example]
    answers: list[Answer]
    chosen: list[tuple[int, ...]]
    rejected: list[tuple[int, ...]]

    @property
    def items(self) -> list[Item]:
        return [answer.item for answer in self.answers]

    @property
    def places(self) -> list[tuple[int, ...]]:
        """Of all answers of each example."""
        return [good + bad for good, bad in zip(self.chosen, self.rejected, strict=True)]

    def take(self, members: Sequence[int]) -> "Sheet":
        """The examples that these answers are of, which are all of theirs; the answers in this order."""
        places = {member: place for place, member in enumerate(members)}
        mine = [index for index, of in enumerate(self.places) if of[0] in places]
        return Sheet(
            [self.examples[index] for index in mine],
            [self.answers[member] for member in members],
            *([tuple(places[one] for one in side[index]) for index in mine] for side in (self.chosen, self.rejected)),
        )


def gather(examples: Sequence[Example]) -> Sheet:
    """An answer that many pairs hold is computed once; other tokens that count, or another reference, are another."""
    places: dict[Answer, int] = {}

    def find(answers: Sequence[Answer]) -> tuple[int, ...]:
        return tuple(places.setdefault(answer, len(places)) for answer in answers)

    chosen = [find(example.chosen) for example in examples]
    rejected = [find(example.rejected) for example in examples]
    return Sheet(examples, list(places), chosen, rejected)


def map_answers(examples: Sequence[Example], change: Callable[[Answer], Answer]) -> list[Example]:
    """The examples with each answer changed."""
    return [
        replace(one, chosen=tuple(map(change, one.chosen)), rejected=tuple(map(change, one.rejected)))
        for one in examples
    ]


def count_reasons(refused: Mapping[str, int]) -> dict[str, float]:
    return {f"refused_{reason}": float(count) for reason, count in sorted(refused.items()) if count}
