"""What an adapter forgot of what its base model could do besides the work: asked once of each, and kept.

The server scores texts that no reward sees; nothing is sampled. A model whose tokenizer spells plain text letter by
letter had nothing of it to forget, and is not asked.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict
from functools import lru_cache, partial
from typing import Final

from apps.adapters.models import Adapter
from apps.adapters.serving import client_of
from apps.base.errors import TentalisError
from apps.evals.models import Evaluation, ItemTry
from apps.evals.panels import ItemSet
from apps.evals.results import commit, find_measured, name_of
from apps.gate.second_metrics import SecondMetric, tell_nothing
from apps.inference.client import ModelClient
from apps.inference.errors import ModelNotServedError, ProviderBusyError
from apps.workers.models import Worker
from tentalis.core.learning.capability import (
    Capability,
    SentencePair,
    compare_capability,
    make_pairs,
    measure_capability,
)
from tentalis.core.learning.capability_texts import TEXTS
from tentalis.core.learning.gate import GatePolicy
from tentalis.core.worlds import PanelItem, World

TEXTS_AT_ONCE: Final = 16
MOST_TOKENS_A_WORD: Final = 2.5
"""Of English by a tokenizer that has words for it: those of language models take 1.2 to 1.5."""
LEAST_CHANCE: Final = 1e-300
"""Of a token, so that what a text costs can be told from what is kept."""


def ask_capability(adapter: Adapter, world: World, policy: GatePolicy) -> SecondMetric | None:
    """Compare a loaded candidate with its base model.

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
        return tell_nothing(f"what it forgot was not measured: {str(error)[:200]}")
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
