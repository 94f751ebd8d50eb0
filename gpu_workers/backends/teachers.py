"""The frozen teacher who reads the hint: how far from the behaviour policy it finds each token."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import torch

from gpu_workers.backends.base_models import BaseModel, load_base
from gpu_workers.backends.chat_templates import Reader
from gpu_workers.backends.errors import BaseModelError
from gpu_workers.backends.micro_batches import pack_items, score_frozen, spread_temperatures
from gpu_workers.backends.ranks import ask_first, gather_all
from gpu_workers.backends.replaying import Prompt, Replayer, ReplayError
from gpu_workers.backends.training_example import Refused, Support, TrainingExample, name_record
from tentalis.core.contracts import RolloutRecord
from tentalis.core.learning.recipes import SERVED, Recipe
from tentalis.core.opd import choose_hint, token_opd_advantages, top_k_advantages


class HintReader(Protocol):
    """What of a teacher decides which hints it can read."""

    @property
    def context_length(self) -> int: ...

    @property
    def replayer(self) -> Replayer: ...


def add_teacher(
    examples: Sequence[TrainingExample],
    recipe: Recipe,
    base: BaseModel,
    refused: Refused,
    options: Mapping[str, Any] = MappingProxyType({}),
) -> list[TrainingExample]:
    """Give each example with a hint what the frozen teacher, who reads the hint, says of its tokens.

    It counts by how far who gave the hint is trusted, whoever judged the rollout.
    A hint whose conversation does not replay to the very tokens the engine saw is left out, counted and explained.

    Args:
        options: the spec's; `teacher_url` is where a served teacher is asked.
    Raises:
        BaseModelError: a teacher on this box cannot be loaded, or has another vocabulary.
        TeacherError: a served one cannot be asked, or is asked for what no server tells.
    """
    if recipe.teacher.startswith(SERVED):
        return _add_served(examples, recipe, base, refused, options)
    teacher = base if recipe.teacher == "base" else load_base(recipe.teacher)
    if teacher.vocabulary_size != base.vocabulary_size:
        raise BaseModelError(
            f"recipe.teacher must share the base's vocabulary of {base.vocabulary_size} tokens, "
            f"found {teacher.vocabulary_size}"
        )
    taught = list(examples)
    if recipe.opd_mode == "top_k":
        for index, support in _find_supports(examples, recipe, base, teacher, refused).items():
            taught[index] = replace(examples[index], support=support)
    else:
        return add_gaps(
            examples, recipe, base, teacher, refused, score=lambda items: score_frozen(teacher, items), divides=True
        )
    return taught


@dataclass(frozen=True)
class _ServedReader:
    """A served teacher reads the hinted conversation as the base does: in the base's tokens, not in words."""

    base: BaseModel
    context_length: int

    @property
    def replayer(self) -> Replayer:
        return self.base.replayer


def _add_served(
    examples: Sequence[TrainingExample], recipe: Recipe, base: BaseModel, refused: Refused, options: Mapping[str, Any]
) -> list[TrainingExample]:
    from gpu_workers.backends.served_teachers import TeacherError, open_teacher  # here: few runs ask a server

    if recipe.opd_mode == "top_k":
        raise TeacherError(
            "recipe.opd_mode must be logprobs with a served teacher, found top_k: a server tells its own likeliest "
            "tokens of a prompt, not those of the worker; a teacher on this box does it"
        )
    with open_teacher(recipe.teacher, options) as teacher:

        def score(items: Sequence[tuple[Prompt, RolloutRecord]]) -> list[list[float]]:
            if items:
                ids = (token for prompt, rollout in items for token in (*prompt, *rollout.token_ids))
                teacher.require_same_tokens(ids, base.codec)
            return ask_first(lambda: teacher.score(items))

        return add_gaps(examples, recipe, base, _ServedReader(base, teacher.context_length), refused, score=score)


def _read_hinted(
    messages: Sequence[Mapping[str, Any]],
    rollout: RolloutRecord,
    base: Reader,
    teacher: HintReader,
    refused: Refused,
) -> Prompt | None:
    """The rollout's prompt with the hint in it as the teacher reads it; None, and noted, where it cannot be used."""
    try:
        prompt = base.replayer.hint(rollout, messages, reader=teacher.replayer)
    except ReplayError as error:
        refused.note(f"hint_{error.reason}", str(error), record=name_record(rollout))
        return None
    if len(prompt) + len(rollout.token_ids) > teacher.context_length:
        words = f"{len(prompt)} tokens with the hint and {len(rollout.token_ids)} of the answer, the teacher reads"
        words = f"{words} {teacher.context_length}"
        refused.note("hint_longer_than_the_context", words, record=name_record(rollout))
        return None
    return prompt


def note_lost_hints(examples: Sequence[TrainingExample], refused: Refused) -> None:
    """Say which hints were given and could not be put into their conversation."""
    for example in examples:
        if example.rollout.hint_fault:
            refused.note("hint_has_no_place", example.rollout.hint_fault, record=name_record(example.rollout))


def add_gaps(
    examples: Sequence[TrainingExample],
    recipe: Recipe,
    base: Reader,
    teacher: HintReader,
    refused: Refused,
    *,
    score: Callable[[Sequence[tuple[Prompt, RolloutRecord]]], Sequence[Sequence[float]]],
    divides: bool = False,
) -> list[TrainingExample]:
    """Give each example with a hint the teacher's gap at each of its tokens (T,), in nats.

    Args:
        score: (hinted prompt, rollout) each -> the teacher's log-probs of the rollout's tokens (T,), in nats.
        divides: those are at the temperature the rollout was sampled at, else at 1.
    """
    taught = list(examples)
    hinted: dict[int, Prompt] = {}
    for index, example in enumerate(examples):
        if example.rollout.hinted_messages and not divides and example.rollout.temperature != 1:
            words = f"sampled at temperature {example.rollout.temperature:g}, a served teacher tells log-probs at 1"
            refused.note("hint_at_another_temperature", words, record=name_record(example.rollout))
        elif example.rollout.hinted_messages:
            prompt = _read_hinted(example.rollout.hinted_messages, example.rollout, base, teacher, refused)
            if prompt is not None:
                hinted[index] = prompt
    scored = score([(prompt, examples[index].rollout) for index, prompt in hinted.items()])
    for index, logprobs in zip(hinted, scored, strict=True):
        rollout = examples[index].rollout
        gaps = token_opd_advantages(logprobs, rollout.logprobs, rollout.sampled, gap_max=recipe.opd_clip)
        taught[index] = replace(examples[index], gaps=[rollout.trust_in_hint * gap for gap in gaps])
    return taught


class _Opinion(NamedTuple):
    """What the teacher thinks under one hint.

    Args:
        logprobs: (T, K) nats, of the behaviour policy's likeliest tokens.
        top: (T, K) its own likeliest tokens.
    """

    logprobs: list[list[float]]
    top: list[list[int]]


def _find_supports(
    examples: Sequence[TrainingExample], recipe: Recipe, base: BaseModel, teacher: BaseModel, refused: Refused
) -> dict[int, Support]:
    """Position of a example -> its support under the hint whose teacher stays nearest to the behaviour policy."""
    asked: list[tuple[int, Prompt]] = []
    for index, example in enumerate(examples):
        rollout = example.rollout
        candidates = rollout.candidate_hints or ([rollout.hinted_messages] if rollout.hinted_messages else [])
        if candidates and not _has_top_k(rollout, recipe.opd_top_k):
            words = f"the hybrid wants the {recipe.opd_top_k} likeliest tokens at each place, its server told fewer"
            refused.note("no_top_k", words, record=name_record(rollout))
            continue
        prompts = [_read_hinted(each, rollout, base, teacher, refused) for each in candidates[: recipe.opd_hints]]
        asked += [(index, prompt) for prompt in prompts if prompt is not None]
    opinions: dict[int, list[_Opinion]] = {}
    items = [(prompt, examples[index].rollout) for index, prompt in asked]
    for (index, _), opinion in zip(asked, _ask(teacher, items, recipe.opd_top_k), strict=True):
        opinions.setdefault(index, []).append(opinion)
    return {index: _weigh(examples[index].rollout, heard, recipe) for index, heard in opinions.items()}


def _has_top_k(rollout: RolloutRecord, k: int) -> bool:
    """Whether the engine told at least k likeliest tokens wherever the policy chose."""
    tops = rollout.top_token_ids
    if tops is None:
        return False
    return all(len(top) >= k for top, is_sampled in zip(tops, rollout.sampled, strict=True) if is_sampled)


def _support_ids(rollout: RolloutRecord, k: int) -> list[list[int]]:
    """(T, K); the token itself K times where the policy did not choose."""
    tops = rollout.top_token_ids or ()
    return [
        list(top[:k]) if is_sampled else [token] * k
        for top, token, is_sampled in zip(tops, rollout.token_ids, rollout.sampled, strict=True)
    ]


@torch.inference_mode()
def _ask(teacher: BaseModel, items: Sequence[tuple[Prompt, RolloutRecord]], k: int) -> list[_Opinion]:
    """The teacher's opinion of each rollout after the given prompt."""
    found: list[tuple[int, _Opinion]] = []
    for batch, members in pack_items([(prompt, rollout.token_ids) for prompt, rollout in items], teacher):
        ids = torch.tensor([ids for member in members for ids in _support_ids(items[member][1], k)])
        spread = spread_temperatures([items[member][1].temperature for member in members], batch)
        logprobs, top = teacher.rank(batch, ids, k, temperatures=spread)
        sizes = list(batch.sizes)
        parts = torch.split(logprobs.cpu(), sizes), torch.split(top.cpu(), sizes)
        opinions = (_Opinion(mine.tolist(), theirs.tolist()) for mine, theirs in zip(*parts, strict=True))
        found += zip(members, opinions, strict=True)
    opinion_of = dict(gather_all(found))
    return [opinion_of[member] for member in range(len(items))]


def _weigh(rollout: RolloutRecord, opinions: Sequence[_Opinion], recipe: Recipe) -> Support:
    """Choose the hint, and what it says of each token; tool results say nothing and count nothing."""
    k = recipe.opd_top_k
    ids = _support_ids(rollout, k)
    sampled = [index for index, counts in enumerate(rollout.sampled) if counts]
    chosen = opinions[
        choose_hint([ids[index] for index in sampled], [[one.top[index] for index in sampled] for one in opinions])
    ]
    tops = rollout.top_logprobs or ()
    logprobs = [list(top[:k]) if counts else [0.0] * k for top, counts in zip(tops, rollout.sampled, strict=True)]
    advantages = [[0.0] * k for _ in ids]
    for index in sampled:
        tokens = top_k_advantages(logprobs[index], chosen.logprobs[index], gap_max=recipe.opd_top_k_clip)
        advantages[index] = [rollout.trust_in_hint * token.advantage for token in tokens]
    return Support(ids, logprobs, advantages)
