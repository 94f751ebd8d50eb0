"""Pairs and demonstrations on their way into a batch, and as the trainer reads them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from django.db.models import Q, QuerySet

from apps.evals.holding import HELD_OUT, find_held_out
from apps.inference.selectors import IncompleteConversationError
from apps.rollouts.contents import ITEMS
from apps.rollouts.models import Batch, Demonstration, PreferencePair
from apps.rollouts.tokens import find_other_base, load_conversations, read_parts
from apps.tasks.models import Attempt
from tentalis.core.contracts import AnswerRecord, DemonstrationRecord, PairRecord
from tentalis.core.conversations.joining import Call

PAGE = 200
MOST_ITEMS = 20_000
"""What one batch holds at most, the oldest first."""


class UnusableItemError(ValueError):
    """A pair or a demonstration that cannot be told to a trainer; the message says why."""


def put_items(batch: Batch, kind: str) -> tuple[int, Counter[str]]:
    """Make a closed batch one of pairs or of demonstrations, and put the line's unused ones into it.

    One whose attempts cannot be told in tokens is kept out for good, with its reason; so is one of a task whose others
    are in an earlier batch: a task is held out from training or it is not, as a whole.

    Returns:
        How many are in it now, and how many were kept out, by reason.
    """
    rows: QuerySet[Any] = ITEMS[kind].objects.all()
    unused = rows.filter(
        worker=batch.worker_id, end_user=batch.end_user, batch__isnull=True, unusable_reason=""
    ).order_by("id")
    taken: list[int] = []
    refused = Counter[str]()
    for page in _page(_with_attempts(unused[:MOST_ITEMS])):
        read = _PageReader(page)
        earlier = rows.filter(task__in={item.task_id for item in page}, worker=batch.worker_id, end_user=batch.end_user)
        numbers = dict(earlier.exclude(batch=None).values_list("task", "batch__number"))
        held_out = find_held_out({item.task for item in page})
        for item in page:
            try:
                if item.task_id in held_out:
                    raise UnusableItemError(HELD_OUT)
                if item.task_id in numbers:
                    raise UnusableItemError(f"its task had its turn: batch {numbers[item.task_id]} was learnt from")
                read.require_told(item)
            except (ValueError, IncompleteConversationError) as error:
                refused[str(error)] += 1
                rows.filter(pk=item.pk).update(unusable_reason=str(error)[:300])
            else:
                taken.append(item.pk)
    rows.filter(pk__in=taken, batch__isnull=True).update(batch=batch)
    batch.kind = kind
    if not batch.rollout_count:
        batch.task_count = rows.filter(batch=batch).values("task").distinct().count()
    Batch.objects.filter(pk=batch.pk).update(kind=kind, task_count=batch.task_count)
    return len(taken), refused


def iterate_pairs(batch: Batch) -> Iterator[PairRecord]:
    """The batch's pairs in order."""
    return _iterate_pairs(PreferencePair.objects.filter(batch=batch))


def _iterate_pairs(pairs: QuerySet[PreferencePair]) -> Iterator[PairRecord]:
    for page in _page(_with_attempts(pairs.order_by("id"))):
        read = _PageReader(page)
        for pair in page:
            yield read.compare(pair)


def find_several(batch: Batch) -> list[int]:
    """Ids of the batch's pairs a side of which is several sequences of tokens, in order."""
    pairs = PreferencePair.objects.filter(batch=batch)
    ids = pairs.filter(Q(chosen__further__isnull=False) | Q(rejected__further__isnull=False)).values("pk")
    return [one.pair_id for one in _iterate_pairs(pairs.filter(pk__in=ids)) if not one.is_of_one]


def iterate_demonstrations(batch: Batch) -> Iterator[DemonstrationRecord]:
    """The batch's demonstrations in order."""
    for page in _page(_with_attempts(Demonstration.objects.filter(batch=batch).order_by("id"))):
        read = _PageReader(page)
        for shown in page:
            yield from read.show(shown)


def _with_attempts(rows: QuerySet[Any]) -> QuerySet[Any]:
    names = ("chosen", "rejected") if rows.model is PreferencePair else ("attempt",)
    return rows.select_related("worker", "task", *(f"{name}__{of}" for name in names for of in ("exchange", "adapter")))


def _page(rows: QuerySet[Any]) -> Iterator[list[Any]]:
    found = rows.iterator(chunk_size=PAGE)
    while page := list(islice(found, PAGE)):
        yield page


class _PageReader:
    """A page of items with their attempts' tokens: three queries."""

    def __init__(self, page: Sequence[PreferencePair | Demonstration]) -> None:
        self._attempts = {one.pk: one for item in page for one in _attempts_of(item)}
        self._conversations = load_conversations(self._attempts.values())

    def require_told(self, item: PreferencePair | Demonstration) -> None:
        """Raise what `compare` and `show` raise."""
        if isinstance(item, PreferencePair):
            self.compare(item)
        else:
            self.show(item)

    def compare(self, pair: PreferencePair) -> PairRecord:
        """As it goes over the wire.

        Raises:
            UnusableItemError, ContractError: it cannot be told.
            IncompleteConversationError: a part of a conversation was deleted.
        """
        prompts: list[list[int]] = []
        sides: list[list[AnswerRecord]] = []
        for attempt, text in ((pair.chosen, pair.text), (pair.rejected, pair.rejected_text)):
            if attempt is None:
                sides.append([AnswerRecord(text=text)])
                continue
            found = self._read(attempt, pair)
            prompts.append(list(found[0].prompt))
            sides.append(_tell(found))
        if any(prompt != prompts[0] for prompt in prompts):
            raise UnusableItemError("the two attempts answered different prompts")
        return PairRecord(
            pair_id=pair.pk,
            group_id=pair.task_id,
            source=pair.source,
            messages=_ask(pair),
            prompt_token_ids=prompts[0] if prompts and not pair.messages else [],
            chosen=sides[0],
            rejected=sides[1],
            weight=pair.weight,
        )

    def show(self, shown: Demonstration) -> list[DemonstrationRecord]:
        """As it goes over the wire, one record a sequence of tokens; raises what `compare` raises."""
        told: list[dict[str, Any]] = [{"messages": _ask(shown)}]
        if shown.attempt is not None and not shown.messages:
            found = self._read(shown.attempt, shown)
            told = [
                {"messages": [], "prompt_token_ids": one.prompt, "token_ids": one.tokens, "counts": one.sampled}
                for one in found
            ]
            if shown.text:
                told = [{"messages": [], "prompt_token_ids": found[0].prompt}]
        return [
            DemonstrationRecord(
                demonstration_id=shown.pk,
                group_id=shown.task_id,
                source=shown.source,
                weight=shown.weight,
                answer=shown.text,
                **values,
            )
            for values in told
        ]

    def _read(self, attempt: Attempt, item: PreferencePair | Demonstration) -> list[Call]:
        """The attempt's sequences of tokens, from where the item replaces it, or all of them.

        Raises:
            UnusableItemError: the item replaces the last answer, and nobody knows where its tokens begin; or they are
                another base model's.
        """
        attempt, kept = self._attempts[attempt.pk], item.kept_tokens
        if attempt.exchange is not None and (fault := find_other_base(attempt.exchange, item.worker)):
            raise UnusableItemError(fault)
        if item.text and not kept and attempt.further_calls:
            calls = 1 + len(attempt.further_calls)
            raise UnusableItemError(f"{attempt} is {calls} calls: wanted its last answer as a step with its tokens")
        found = []
        for part in read_parts(attempt, self._conversations):
            joined = part.joined
            if (first := max(0, kept - part.start)) < len(joined.tokens):
                prompt = [*joined.prompt, *joined.tokens[:first]]
                found.append(Call(prompt, joined.tokens[first:], joined.logprobs[first:], joined.sampled[first:]))
        if not found:
            raise UnusableItemError(f"{attempt} has no tokens behind the first {kept}")
        return found


def _ask(item: PreferencePair | Demonstration) -> list[dict[str, str]]:
    """What an item that is told in words answers, as the worker asks its model now; [] where tokens tell it."""
    system = item.worker.system_prompt
    is_told = any(message["role"] == "system" for message in item.messages)
    if not item.messages or not system or is_told:
        return list(item.messages)
    return [{"role": "system", "content": system}, *item.messages]


def _tell(sequences: Sequence[Call]) -> list[AnswerRecord]:
    """A side of a pair, whose first prompt is the pair's."""
    return [
        AnswerRecord(
            token_ids=one.tokens,
            counts=one.sampled,
            prompt_token_ids=one.prompt if place else [],
        )
        for place, one in enumerate(sequences)
    ]


def _attempts_of(item: PreferencePair | Demonstration) -> Iterable[Attempt]:
    found = (item.chosen, item.rejected) if isinstance(item, PreferencePair) else (item.attempt,)
    return (one for one in found if one is not None)
