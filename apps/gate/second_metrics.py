"""What a candidate is asked beside its work, of which no reward sees anything: whether its answers kept their length,
what it forgot of what its base model could do, whether it is as honest as what serves.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache, lru_cache, partial
from statistics import fmean
from typing import Any, Final, NamedTuple

from django.conf import settings

from apps.adapters.artifacts import path_of
from apps.adapters.errors import AdapterBrokenError
from apps.adapters.models import Adapter
from apps.adapters.serving import client_of, load
from apps.base.errors import TentalisError
from apps.evals.alignment import GRADER, read_answers, read_asked
from apps.evals.catalogue import find_entry
from apps.evals.errors import TriesAwaitedError
from apps.evals.measuring import play
from apps.evals.models import Evaluation, ItemTry
from apps.evals.panels import ItemSet
from apps.evals.results import WantedTries, commit, find_measured, name_of
from apps.inference.client import ModelClient
from apps.inference.errors import ModelNotServedError, ProviderBusyError
from apps.inference.provider_kinds import find_kind
from apps.workers.models import Worker
from apps.workers.rules import find_environment_error
from apps.worlds.registry import get_world
from tentalis.core.alignment.figures import compare_alignment
from tentalis.core.alignment.scenarios import HELD_OUT
from tentalis.core.contracts import ContractError
from tentalis.core.learning.capability import (
    Capability,
    SentencePair,
    compare_capability,
    make_pairs,
    measure_capability,
)
from tentalis.core.learning.capability_texts import TEXTS
from tentalis.core.learning.collapse import Alarm
from tentalis.core.learning.gate import GatePolicy
from tentalis.core.learning.lengths import FILE, LengthQuestion, Lengths
from tentalis.core.worlds import PanelItem, World

PROMPTS_AT_ONCE: Final = 8
TEXTS_AT_ONCE: Final = 16
MOST_TOKENS_A_WORD: Final = 2.5
"""Of English by a tokenizer that has words for it: those of language models take 1.2 to 1.5."""
LEAST_CHANCE: Final = 1e-300
"""Of a token, so that what a text costs can be told from what is kept."""
ALIGNMENT_PROMPTS: Final = 112
"""The first ones of the benchmark, eight groups of twins of each family: so many that one family answered otherwise
throughout is surely seen."""


class SecondMetric(NamedTuple):
    """What came of one.

    Args:
        words: for a person. details: the numbers, or under `untold` why there are none.
    """

    alarms: Sequence[Alarm]
    words: str
    details: dict[str, Any]


def _tell_nothing(reason: str) -> SecondMetric:
    """Of what could not be measured: why."""
    return SecondMetric((), reason, {"untold": reason})


# --- lengths ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AskedLengths:
    """What was found.

    Args:
        words: for a person: the lengths, of how many prompts, and who sampled; fault: what forbids it; "" where nothing
            does.
        details: the numbers, for pages.
    """

    words: str
    fault: str
    details: dict[str, Any]


def can_ask_lengths(worker: Worker) -> bool:
    """Whether the server of this worker samples from token ids and loads adapters."""
    kind = find_kind(worker.provider.kind if worker.provider else settings.TENTALIS["INFERENCE_BACKEND"])
    return kind.loads_adapters and kind.tells_tokens and kind.has_completions


def ask_lengths(adapter: Adapter) -> AskedLengths | None:
    """Ask the server, which has the candidate loaded already, for answers of it and of what it was trained from.

    The training box has no key of any model server, and its own engine samples on the CPU: it leaves the question
    beside the adapter. Where nothing else can serve the worker's adapters, the box asks its own engine and says so.

    Returns:
        None where the training left no question: it does not ask, or was answered by the box.
    Raises:
        AdapterBrokenError: what it left is no question.
        ProviderBusyError, ProviderRefusedError: the server could not be asked.
    """
    path = path_of(adapter.uri).parent / FILE
    try:
        question = LengthQuestion.from_json(json.loads(path.read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, ContractError) as error:
        raise AdapterBrokenError(f"{path}: {error}") from error
    if adapter.parent is not None:
        load(adapter.parent)
    worker, client = adapter.worker, client_of(adapter.worker)
    before, after = (_measure_length(client, question, name_of(worker, policy)) for policy in (adapter.parent, adapter))
    lengths = Lengths(before, after, question.shown)
    server = f"{worker.provider.name} ({client.kind})" if worker.provider else f"the installation's own {client.kind}"
    words = (
        f"answers to {len(question.prompts)} held-out prompts have {after:.1f} tokens where they had {before:.1f}, "
        f"sampled by {server}, which serves it"
    )
    fault = lengths.find_fault(most_drift=question.most_drift)
    return AskedLengths(words, fault, {**lengths.describe(), "prompts": len(question.prompts), "server": server})


def _measure_length(client: ModelClient, question: LengthQuestion, model: str) -> float:
    """Mean tokens of the answers that the server samples under this name."""
    sizes = []
    for start in range(0, len(question.prompts), PROMPTS_AT_ONCE):
        groups = client.sample(
            question.prompts[start : start + PROMPTS_AT_ONCE],
            model=model,
            n=question.answers,
            max_tokens=question.max_tokens,
            seed=question.seed + start,
        )
        sizes += [len(sample.token_ids) for group in groups for sample in group]
    return fmean(sizes)


# --- capability ------------------------------------------------------------------------------------------------------


def ask_capability(adapter: Adapter, world: World, policy: GatePolicy) -> SecondMetric | None:
    """Compare what a loaded candidate can do besides its work with what its base can; each is asked once, and kept.

    The server scores texts; nothing is sampled. A model whose tokenizer spells plain text letter by letter had nothing
    of it to forget.

    Returns:
        None where nobody asks for it, or its model has no words for plain text. Where the server does not score texts,
        no numbers, and words that say so.
    Raises:
        ProviderBusyError, ModelNotServedError: it could not be asked now.
    """
    if not policy.capability_pairs:
        return None
    worker, client = adapter.worker, client_of(adapter.worker)
    try:
        if not _has_words(client, name_of(worker, None)):
            return None
        found = compare_capability(
            *(_find_capability(worker, model, world, policy, client) for model in (adapter, None)),
            confidence=policy.confidence,
        )
    except (ProviderBusyError, ModelNotServedError):
        raise
    except TentalisError as error:
        return _tell_nothing(f"what it forgot was not measured: {str(error)[:200]}")
    alarms = found.find_alarms(text_margin_nats=policy.text_margin_nats, reasoning_margin=policy.reasoning_margin)
    return SecondMetric(alarms, found.words, asdict(found))


def _has_words(client: ModelClient, model: str) -> bool:
    """Whether the tokenizer writes one of the texts in words, or in pieces of them, and not letter by letter."""
    return len(client.tokenize(TEXTS[0], model=model)) <= MOST_TOKENS_A_WORD * len(TEXTS[0].split())


@lru_cache(maxsize=8)
def _make_pairs(count: int) -> Sequence[SentencePair]:
    return tuple(make_pairs(count))


def _find_capability(
    worker: Worker, adapter: Adapter | None, world: World, policy: GatePolicy, client: ModelClient
) -> Capability:
    """What is known of a model, or is asked of it now and kept as two evaluations: of the texts, and of the pairs."""
    pairs = _make_pairs(policy.capability_pairs)
    items = (
        ItemSet(f"plain text/{len(TEXTS)}", world, [PanelItem(prompt=text) for text in TEXTS]),
        ItemSet(
            f"small reasoning/{len(pairs)}", world, [PanelItem(prompt=right, reference=wrong) for right, wrong in pairs]
        ),
    )
    kept = [find_measured(worker, adapter, one, Evaluation.Purpose.CAPABILITY) for one in items]
    if not all(one.tries for one in kept):
        found = measure_capability(TEXTS, pairs, partial(_score, client, name_of(worker, adapter)))
        chances = [max(math.exp(-nats), LEAST_CHANCE) for nats in found.text_nats]
        for one, asked, outcomes in zip(kept, items, (chances, found.shares), strict=True):
            if not one.tries:
                rows = [
                    ItemTry(place=place, key=asked.keys[place], outcome=outcome)
                    for place, outcome in enumerate(outcomes)
                ]
                commit(one, rows, is_last=True, by="gate")
    texts, reasoning = ([one.outcomes[key] for key in asked.keys] for one, asked in zip(kept, items, strict=True))
    return Capability(text_nats=[-math.log(chance) for chance in texts], shares=reasoning)


def _score(client: ModelClient, model: str, texts: Sequence[str]) -> list[list[float]]:
    found: list[list[float]] = []
    for start in range(0, len(texts), TEXTS_AT_ONCE):
        found += client.score_texts(texts[start : start + TEXTS_AT_ONCE], model=model)
    return found


# --- alignment -------------------------------------------------------------------------------------------------------


def ask_alignment(adapter: Adapter, deployed: Adapter | None, policy: GatePolicy) -> SecondMetric | None:
    """Compare a loaded candidate's honesty with that of what serves, by scenarios; each is asked once, and kept.

    Rewards teach what is rewarded. Scenarios say what that did to answers where a wrong one pleases, pays or passes.

    Returns:
        None where the installation does not ask. Where a model could not be asked, or answers nothing but tasks of its
        own environment, no numbers, and words that say so.
    Raises:
        ProviderBusyError, ModelNotServedError: it could not be asked now.
        TriesAwaitedError: its agent works outside, and has not made its tries yet.
    """
    if not settings.TENTALIS["ALIGNMENT_ENABLED"]:
        return None
    panel = _open_scenarios()
    if why := find_environment_error(adapter.worker, panel.world.name):
        return _tell_nothing(f"its alignment was not measured: {why[:200]}")
    sides = [find_measured(adapter.worker, one, panel, Evaluation.Purpose.ALIGNMENT) for one in (adapter, deployed)]
    try:
        play(*(WantedTries(one, panel) for one in sides))
    except (ProviderBusyError, ModelNotServedError, TriesAwaitedError):
        raise
    except TentalisError as error:
        return _tell_nothing(f"its alignment was not measured: {str(error)[:200]}")
    mine, theirs = (read_answers(one.tries.values()) for one in sides)
    found = compare_alignment(read_asked(panel.items), mine, theirs, confidence=policy.confidence)
    return SecondMetric(found.find_alarms(margin=policy.alignment_margin), found.words, asdict(found))


@cache
def _open_scenarios() -> ItemSet:
    entry = find_entry(GRADER)
    items = [
        PanelItem(prompt=one.prompt, checks=entry.check(one), seed=place, category=one.category)
        for place, one in enumerate(entry.list_items(HELD_OUT, count=ALIGNMENT_PROMPTS))
    ]
    return ItemSet(f"{entry.name} {entry.version}/{len(items)}", get_world(entry.environment), items)
