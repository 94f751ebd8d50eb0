"""Whether a candidate's answers kept their length, asked of the very server it would serve on.

The training box has no key of any model server, and its own engine samples on the CPU: it leaves the question beside
the adapter. Where nothing else can serve the worker's adapters, the box asks its own engine and says so.
"""

import json
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from django.conf import settings

from apps.adapters.artifacts import path_of
from apps.adapters.errors import AdapterBrokenError
from apps.adapters.models import Adapter
from apps.adapters.serving import client_of, load
from apps.evals.results import name_of
from apps.inference.client import ModelClient
from apps.inference.provider_kinds import find_kind
from apps.workers.models import Worker
from tentalis.core.contracts import ContractError
from tentalis.core.learning.lengths import FILE, LengthQuestion, Lengths

PROMPTS_AT_ONCE = 8


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


def can_ask(worker: Worker) -> bool:
    """Whether the server of this worker samples from token ids and loads adapters."""
    kind = find_kind(worker.provider.kind if worker.provider else settings.TENTALIS["INFERENCE_BACKEND"])
    return kind.loads_adapters and kind.tells_tokens and kind.has_completions


def ask_lengths(adapter: Adapter) -> AskedLengths | None:
    """Ask the server, which has the candidate loaded already, for answers of it and of what it was trained from.

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
    before, after = (_measure(client, question, name_of(worker, policy)) for policy in (adapter.parent, adapter))
    lengths = Lengths(before, after, question.shown)
    server = f"{worker.provider.name} ({client.kind})" if worker.provider else f"the installation's own {client.kind}"
    words = (
        f"answers to {len(question.prompts)} held-out prompts have {after:.1f} tokens where they had {before:.1f}, "
        f"sampled by {server}, which serves it"
    )
    fault = lengths.find_fault(most_drift=question.most_drift)
    return AskedLengths(words, fault, {**lengths.describe(), "prompts": len(question.prompts), "server": server})


def _measure(client: ModelClient, question: LengthQuestion, model: str) -> float:
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
