"""Calls to models with made-up tokens, and the turn that they are."""

import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.utils import timezone

from apps.accounts.models import Project
from apps.console.selectors.exchange import keep_spelling
from apps.conversations.models import Turn, TurnExchange, TurnSignal
from apps.inference.models import Exchange, Session
from apps.webhooks.models import Delivery, Webhook
from tentalis.core.packing import pack_bools, pack_float32, pack_int32


def read_pieces(text: str) -> list[str]:
    """A text as a tokenizer might cut it."""
    return re.findall(r" ?[A-Za-z]+| ?[0-9]+|\s|[^\sA-Za-z0-9]", text)


def make_exchange(said: Mapping[str, Any], *, prompt: Sequence[str], answer: Sequence[str], **values: Any) -> Exchange:
    """An exchange of these words, each a token, without chance; `prompt` is what stands behind the parent's talk."""
    ids = [[zlib.crc32(piece.encode()) % 50_000 for piece in pieces] for pieces in (prompt, answer)]
    row: Exchange = Exchange.objects.create(
        text="".join(answer),
        prompt_token_ids=pack_int32(ids[0]),
        token_ids=pack_int32(ids[1]),
        logprobs=pack_float32([-(((token % 97) / 40) ** 3) / 3 for token in ids[1]]),
        sampled=pack_bools([True] * len(answer)),
        prompt_tokens=len(prompt) + values.get("shared_tokens", 0),
        completion_tokens=len(answer),
        **said,
        **values,
    )
    keep_spelling(row, ids[1], list(answer))
    if row.parent_id is None:
        keep_spelling(row, ids[0], list(prompt))
    return row


def tell(project: Project) -> Webhook:
    """An address that took some messages, gave one up and waits for another."""
    now = timezone.now()
    webhook = Webhook.objects.create(
        project=project,
        name="Shop's own desk",
        url="https://shop.example.org/hooks/tentalis",
        secret_sealed=b"",
        kinds=["task.done", "run.succeeded"],
        failures=2,
        failing_since=now - timedelta(minutes=4),
        paused_until=now + timedelta(minutes=3),
    )
    sent = (
        ("task.done", "delivered", 1, 200, ""),
        ("task.done", "dead", 12, 500, "internal server error"),
        ("run.succeeded", "pending", 2, 0, "nobody answered within 10 s"),
    )
    for place, (kind, state, attempts, status, words) in enumerate(sent):
        Delivery.objects.create(
            webhook=webhook,
            entry_id=place + 1,
            kind=kind,
            body={},
            state=state,
            attempts=attempts,
            status=status,
            next_at=now + timedelta(minutes=3),
            tries=[{"at": now.isoformat(), "status": status, "words": words, "ms": 84}],
            ended_at=None if state == "pending" else now,
        )
    return webhook


def hear(session: Session, exchanges: Iterable[Exchange]) -> Turn:
    """The turn that these exchanges are, closed by thanks."""
    turn = Turn.objects.create(
        project=session.project, session=session, number=0, state="settled", closed_by="next", closed_at=timezone.now()
    )
    for exchange in exchanges:
        TurnExchange.objects.create(exchange=exchange, turn=turn, is_part=exchange.turn == "main")
    TurnSignal.objects.create(
        turn=turn, kind="thanked", source="rule", score=1.0, trust=0.6, reason="the next words thank for the answer"
    )
    return turn
