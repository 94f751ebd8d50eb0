"""Segment sessions into turns: each exchange gets its one place, each turn is closed once.

A turn goes on from the turn whose answer its request repeats, and from no other: whatever else is asked in the session
meanwhile (by a sub-agent, for a title, by another conversation under the same name) is a chain of its own beside it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import Exists, F, OuterRef, Q
from django.db.models.functions import Now

from apps.audit.services import move
from apps.conversations.models import Conversation, Turn, TurnExchange
from apps.conversations.policy import read_policy
from apps.inference.models import Exchange, Session
from apps.inference.selectors import read_conversations
from apps.outbox.kinds import SegmentKind
from apps.outbox.selectors import died_last
from apps.outbox.services import final_write
from tentalis.core.canon import content_hash
from tentalis.core.conversation_delta import Conversation as Whole
from tentalis.core.conversation_delta import make_answer
from tentalis.core.conversations.machine import is_errand
from tentalis.core.conversations.threads import Head, find_answers, is_same_agent, read_head, spell_answer
from tentalis.core.conversations.turns import (
    Began,
    Change,
    digest_words,
    find_change,
    find_own_words,
    find_words,
    goes_on,
)
from tentalis.core.session_policy import SessionPolicy

MOST_EXCHANGES = 500
"""Cut in one transaction; what is left is cut next time."""
MOST_TURNS = 200
"""The latest of a session, which a request may go on from."""
MOST_HEARD = 64
"""The latest of a person's words that a turn is known by."""
_HEAVY = ("prompt_token_ids", "token_ids", "logprobs", "sampled")
_CLOSE_IDLE = """
UPDATE inference_session SET closed_at = now()
WHERE id IN (SELECT id FROM inference_session
             WHERE project_id = %s AND closed_at IS NULL AND last_seen_at < now() - make_interval(secs => %s)
             ORDER BY last_seen_at LIMIT 1000 FOR UPDATE SKIP LOCKED)
"""


def find_due_sessions(project_ids: Sequence[int], *, remembered_s: float, limit: int = 500) -> list[tuple[int, int]]:
    """(session id, project id) of sessions with something to cut, longest waiting first; those are left alone that
    could not be cut.

    Args:
        remembered_s: sessions silent for longer are left alone: a project that begins to learn begins with its present.
    """
    is_new = Q(conversation__seen_at=None) | Q(last_seen_at__gt=F("conversation__seen_at"))
    has_open = Exists(Turn.objects.filter(session=OuterRef("pk"), state=Turn.State.OPEN))
    sessions = Session.objects.filter(
        is_new | Q(has_open, closed_at__isnull=False),
        ~died_last(SegmentKind.CUT),
        project__in=list(project_ids),
        last_seen_at__gt=Now() - timedelta(seconds=remembered_s),
    )
    return list(sessions.order_by("last_seen_at").values_list("pk", "project_id")[:limit])


def close_idle_sessions(project_id: int, *, idle_s: float) -> int:
    """Say that sessions nobody used for so long are done. Returns how many."""
    with connection.cursor() as cursor:
        cursor.execute(_CLOSE_IDLE, [project_id, idle_s])
        return int(cursor.rowcount)


def cut_session(session_id: int, *, by: str) -> None:
    """Give the session's new exchanges their places; close the turns that are over. One transaction."""
    with final_write():
        Conversation.objects.get_or_create(session_id=session_id)
        conversation = Conversation.objects.select_for_update().get(session_id=session_id)
        session = Session.objects.select_related("project").get(pk=session_id)  # read before its exchanges: a later
        cutter = _Cutter(session, read_policy(session.project), by)  # one moves last_seen_at
        new = list(
            Exchange.objects.filter(session_id=session_id, place_in_turn__isnull=True)
            .defer(*_HEAVY)
            .order_by("id")[: MOST_EXCHANGES + 1]
        )
        has_more = len(new) > MOST_EXCHANGES
        conversations = read_conversations(new[:MOST_EXCHANGES], tokens=False)
        for exchange in new[:MOST_EXCHANGES]:
            cutter.place(exchange, conversations[exchange.pk])
        TurnExchange.objects.bulk_create(cutter.places)
        is_quiet = Session.objects.filter(pk=session_id, last_seen_at=session.last_seen_at).exists()
        if session.closed_at is not None and is_quiet and not has_more:
            cutter.end(session.closed_at)
        elif not has_more:
            cutter.close_idle()
        conversation.seen_at = conversation.seen_at if has_more else session.last_seen_at
        conversation.save(update_fields=["seen_at"])


@dataclass
class _Asked:
    """A request that looks for its place.

    Attributes:
        digests: of the person's words in it. answers: those it repeats, spelled alike.
        is_within: the agent has said or done something since the person's last words.
    """

    exchange: Exchange
    messages: Sequence[Any]
    head: Head
    digests: Sequence[str]
    answers: Sequence[str]
    is_within: bool

    def digest(self) -> str:
        return digest_request(self.messages)


@dataclass
class _Known:
    """A turn that a request may go on from.

    Attributes:
        calls: the exchanges that carried it on, in order; None: not looked for yet.
        first_heard_count: of the person's words in its first call; None: not looked at yet.
        has_next: some turn goes on from it already.
    """

    turn: Turn
    calls: list[Exchange] | None = None
    head: Head | None = None
    first_heard_count: int | None = None
    has_next: bool = False

    def load(self) -> list[Exchange]:
        if self.calls is None:
            parts = Exchange.objects.filter(place_in_turn__turn=self.turn, place_in_turn__is_part=True)
            self.calls = list(parts.defer(*_HEAVY).order_by("id"))
        return self.calls

    def find_head(self) -> Head:
        if self.head is None:
            calls = self.load()[:1]
            whole = read_conversations(calls, tokens=False).get(calls[0].pk) if calls else None
            self.head = _read_head(whole) if whole is not None else Head("", frozenset())
        return self.head

    def is_agents(self, head: Head) -> bool:
        return self.turn.head in {"", head.name()} or is_same_agent(self.find_head(), head)

    def compare(self, heard: Sequence[str]) -> Change | None:
        """What words add to this turn's; None where they do not go on from them, its own being the beginning."""
        tail, count = self.turn.heard, self.turn.heard_count
        if not count or count > len(heard) or list(heard[count - len(tail) : count]) != tail:
            return None
        return Change(Began.NEXT if count < len(heard) else None, count)

    def find_fork(self, asked: _Asked) -> int:
        """How many of this turn's calls a request goes on from, where a program's words carried the turn on from there
        and are not the request's; else 0."""
        calls = self.load()
        if len(calls) < 2 or not asked.answers or self.compare(asked.digests) is not None or not self.was_carried():
            return 0
        heard = self.read_heard(calls)
        count = next((place for place, words in enumerate(heard) if asked.digests[: len(words)] != words), len(heard))
        is_fork = count < len(heard) and len(heard[count]) > len(heard[0])
        return count if is_fork and not {_spell(call) for call in calls[:count]}.isdisjoint(asked.answers) else 0

    def was_carried(self) -> bool:
        """Whether a program's words carried the turn on."""
        if self.first_heard_count is None:
            self.first_heard_count = len(self.read_heard(self.load()[:1])[0])
        return self.turn.heard_count > self.first_heard_count

    @staticmethod
    def read_heard(calls: Sequence[Exchange]) -> list[list[str]]:
        """What a person was taken to have said in each of some calls, digested."""
        found = read_conversations(calls, tokens=False)
        return [[digest_words(words) for words in find_words(found[call.pk].messages)] for call in calls]

    def rank(self, answers: Sequence[str]) -> int:
        """2: the last answer that a request repeats is this turn's last; 1: it repeats some of its answers; 0: none."""
        if not answers:
            return 0
        own = [_spell(call) for call in self.load()]
        if own and own[-1] and own[-1] == answers[-1]:
            return 2
        return int(not set(filter(None, own)).isdisjoint(answers))


class _From(NamedTuple):
    """What a request goes on from. `start`: place of the first of the words that are new."""

    known: _Known
    start: int


@dataclass
class _Cutter:
    """One pass over a session's new exchanges."""

    session: Session
    policy: SessionPolicy
    by: str
    places: list[TurnExchange] = field(default_factory=list)

    def __post_init__(self) -> None:
        latest = Turn.objects.filter(session=self.session).order_by("-number")[:MOST_TURNS]
        self.known = [_Known(turn) for turn in reversed(latest)]
        parents = {known.turn.parent_id for known in self.known if known.turn.began == Began.NEXT.value}
        for known in self.known:
            known.has_next = known.turn.pk in parents
        self.next_number = self.known[-1].turn.number + 1 if self.known else 0

    def place(self, exchange: Exchange, conversation: Whole) -> None:
        """Find an exchange's place: side work, errands and second choices have none in a turn's own work."""
        messages = conversation.messages
        if exchange.turn != "main" or exchange.choice or (self.known and is_errand(messages)):
            self._put_beside(exchange)
            return
        asked = _Asked(
            exchange,
            messages,
            _read_head(conversation),
            [digest_words(words) for words in find_words(messages)],
            find_answers(messages),
            goes_on(messages),
        )
        own = [known for known in self.known if known.is_agents(asked.head)]
        own += [self._part(known, asked) for known in own if self._is_open(known) and known.find_fork(asked)]
        if not asked.digests:
            self._go_on(asked, self._choose([one for one in own if self._is_open(one)], asked))
        elif same := [one for one in own if (change := one.compare(asked.digests)) and not change.began]:
            if asked.is_within:
                self._go_on(asked, self._choose(same, asked))
            else:
                self._repeat(asked, same[-1])
        elif found := self._find_begun(asked, own) or self._find_shortened(asked, own):
            if found.start == len(asked.digests):
                self._go_on(asked, found.known)
            else:
                self._speak_on(asked, found)
        else:
            self._begin(asked, Began.NEXT)

    def end(self, closed_at: datetime) -> None:
        """Close what is open: nobody speaks on."""
        is_idle = closed_at > self.session.last_seen_at
        for known in self.known:
            if self._is_open(known):
                self._close(known, Turn.ClosedBy.IDLE if is_idle else Turn.ClosedBy.DONE)

    def close_idle(self) -> None:
        """Close what nobody went on with for so long, though others speak in the session."""
        before = self.session.last_seen_at - timedelta(seconds=self.policy.idle_s)
        for known in self.known:
            if self._is_open(known) and all(_ended_at(call) < before for call in known.load()[-1:]):
                self._close(known, Turn.ClosedBy.IDLE)

    def _find_begun(self, asked: _Asked, own: Sequence[_Known]) -> _From | None:
        """The turn whose words a request begins with: the longest, of those whose answer it repeats."""
        found = [(change.start, known) for known in own if (change := known.compare(asked.digests)) and change.began]
        ranked = [
            (start, known.rank(asked.answers), not known.has_next, known.turn.number, known) for start, known in found
        ]
        # a name says that it is one conversation; without one the answer does, or that there was none
        likely = [one for one in ranked if one[1] or self.session.is_named or not any(map(_spell, one[-1].load()))]
        if not likely:
            return None
        start, *_, known = max(likely, key=lambda one: one[:4])
        return _From(known, start)

    def _find_shortened(self, asked: _Asked, own: Sequence[_Known]) -> _From | None:
        """The turn that a conversation goes on from which has lost its beginning."""
        for known in reversed(own):
            change = find_change(known.turn.heard, asked.digests)
            if change.began != Began.REWRITTEN and known.rank(asked.answers):
                return _From(known, change.start)
        return None

    def _choose(self, same: Sequence[_Known], asked: _Asked) -> _Known | None:
        """Of turns with the same words the one whose answer a request repeats, or the last."""
        return max(same, key=lambda known: (known.rank(asked.answers), known.turn.number), default=None)

    def _go_on(self, asked: _Asked, known: _Known | None) -> None:
        """The agent's next call of a turn."""
        if known is None or not self._is_open(known):
            self._put_beside(asked.exchange)
        else:
            self._put(asked.exchange, known, asked.digest() if asked.digests else "")

    def _repeat(self, asked: _Asked, known: _Known) -> None:
        """The same words again: after a failure that is the same turn; else the request was sent again."""
        calls = known.load()
        was_answered = any(_is_answer(call) for call in calls[-1:])
        if self._is_open(known) and not was_answered:
            self._put(asked.exchange, known, asked.digest())
            return
        is_again = (
            self.session.is_named
            and self._is_open(known)
            and is_final(calls[-1])
            and not asked.exchange.retry
            and not self._is_fast(asked.exchange, known)
            and known.turn.request_digest == asked.digest()
        )
        if is_again:
            self._close(known, Turn.ClosedBy.NEXT)
            self._begin(asked, Began.AGAIN, known, known.turn.words_from)
        else:  # a twin: what goes on repeats the answer of one of them
            self._begin(asked, Began.NEXT, self._find_parent(known), known.turn.heard_from)

    def _speak_on(self, asked: _Asked, found: _From) -> None:
        """New words behind a turn's answer: a person's, unless a program was as fast as that."""
        known = found.known
        if self._is_fast(asked.exchange, known):
            if self._is_open(known):
                self._put(asked.exchange, known, asked.digest(), heard=asked.digests)
            else:
                self._begin(asked, Began.NEXT)
            return
        if self._is_open(known):
            self._close(known, Turn.ClosedBy.NEXT)
        else:
            self._hear_again(known)
        known.has_next = True
        self._begin(asked, Began.NEXT, known, found.start)

    def _part(self, known: _Known, asked: _Asked) -> _Known:
        """Somebody goes on from before a program's words: what was answered to those becomes a turn beside."""
        count, calls, heard = known.find_fork(asked), known.load(), known.read_heard(known.load())
        turn = known.turn
        beside = Turn.objects.create(
            project_id=turn.project_id,
            session=self.session,
            number=self.next_number,
            began=Began.NEXT.value,
            beside=turn,
            head=turn.head,
            heard=turn.heard,
            heard_count=turn.heard_count,
            words_from=len(heard[count - 1]),
            request_digest=turn.request_digest,
        )
        self.next_number += 1
        moved = {call.pk for call in calls[count:]}
        TurnExchange.objects.filter(exchange_id__in=moved).update(turn=beside)
        for place in self.places:
            if place.exchange_id in moved:
                place.turn = beside
        self._carry(turn, request_digest="", heard=heard[count - 1][-MOST_HEARD:], heard_count=len(heard[count - 1]))
        known.calls = calls[:count]
        self.known.append(_Known(beside, calls[count:], known.head))
        return self.known[-1]

    def _is_fast(self, exchange: Exchange, known: _Known) -> bool:
        answered = [call for call in known.load() if _is_answer(call)]
        if not answered or not self.policy.fastest_s:
            return False
        return exchange.created_at - _ended_at(answered[-1]) < timedelta(seconds=self.policy.fastest_s)

    def _hear_again(self, known: _Known) -> None:
        """A turn that was followed by words that showed nothing is followed by others: those are heard."""
        turn = known.turn
        if turn.state != Turn.State.SETTLED or turn.task_id or turn.signals.filter(score__isnull=False).exists():
            return
        turn.signals.all().delete()
        payload = {"session": self.session.pk, "by": str(Turn.ClosedBy.NEXT.value)}
        move(turn, Turn.State.CLOSED, by=self.by, payload=payload, reason="", closed_by=Turn.ClosedBy.NEXT)

    def _find_parent(self, known: _Known) -> _Known | None:
        return next((one for one in self.known if one.turn.pk == known.turn.parent_id), None)

    def _begin(self, asked: _Asked, began: Began, parent: _Known | None = None, heard_from: int = 0) -> None:
        beside = None
        if parent is None:
            beside = next((one.turn for one in reversed(self.known) if self._is_open(one)), None)
        turn = Turn.objects.create(
            project_id=self.session.project_id,
            session=self.session,
            number=self.next_number,
            began=began.value,
            parent=parent.turn if parent is not None else None,
            beside=beside,
            head=asked.head.name(),
            heard=list(asked.digests[-MOST_HEARD:]),
            heard_count=len(asked.digests),
            heard_from=heard_from,
            words_from=max(heard_from, find_own_words(asked.messages)),
            request_digest=asked.digest(),
        )
        self.next_number += 1
        known = _Known(turn, [], asked.head)
        self.known.append(known)
        self._put(asked.exchange, known)

    def _close(self, known: _Known, closed_by: Turn.ClosedBy) -> None:
        payload = {"session": self.session.pk, "by": str(closed_by.value)}
        move(known.turn, Turn.State.CLOSED, by=self.by, payload=payload, closed_by=closed_by, closed_at=Now())

    def _put(self, exchange: Exchange, known: _Known, request: str = "", heard: Sequence[str] | None = None) -> None:
        self.places.append(TurnExchange(exchange=exchange, turn=known.turn))
        known.load().append(exchange)
        changed: dict[str, Any] = {"request_digest": request} if request else {}
        if heard is not None:
            changed |= {"heard": list(heard[-MOST_HEARD:]), "heard_count": len(heard)}
        if changed:
            self._carry(known.turn, **changed)

    @staticmethod
    def _carry(turn: Turn, **changed: Any) -> None:
        for name, value in changed.items():
            setattr(turn, name, value)
        Turn.objects.filter(pk=turn.pk).update(**changed)

    def _put_beside(self, exchange: Exchange) -> None:
        turn = self.known[-1].turn if self.known else None
        self.places.append(TurnExchange(exchange=exchange, turn=turn, is_part=False))

    @staticmethod
    def _is_open(known: _Known) -> bool:
        return known.turn.state == Turn.State.OPEN


def is_final(exchange: Exchange) -> bool:
    """Whether an exchange gave the person an answer."""
    return _is_answer(exchange) and not exchange.tool_calls and bool(exchange.text)


def digest_request(messages: Sequence[Any]) -> str:
    """A short name of a whole conversation."""
    return content_hash(list(messages))[:16]


def _is_answer(exchange: Exchange) -> bool:
    """Whether something was answered, and delivered whole."""
    return exchange.status < 400 and not exchange.is_truncated and bool(exchange.text or exchange.tool_calls)


def _spell(exchange: Exchange) -> str:
    answer = make_answer(exchange.text, exchange.tool_calls if isinstance(exchange.tool_calls, list) else [])
    return spell_answer(answer) if answer is not None and exchange.status < 400 else ""


def _ended_at(exchange: Exchange) -> datetime:
    return exchange.created_at + timedelta(milliseconds=exchange.latency_ms or 0.0)


def _read_head(conversation: Whole) -> Head:
    return read_head(conversation.messages, conversation.request.get("tools"))
