"""Store what is new in an exchange since an earlier one of its session: the opposite of `join_links` in the core.

Of each session is remembered which conversations were seen, as hashes of their beginnings, and the tokens that came
with them. A new one hangs on the exchange that shares its longest beginning: a next turn on the turn before, a retry or
a fork on what it goes back to. Chains have at most `MOST_LINKS` links; the next exchange is stored whole.
"""

import json
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import orjson

from apps.gateway.capture import Captured
from tentalis.core.conversation_delta import SAME, TOKEN_BYTES, Link, count_shared_tokens, join_links, make_answer

MOST_LINKS = 32
MEMORY_BYTES = 16 * 2**20
SESSION_BYTES = 4 * 2**20
_SMALL_BYTES = 48
_SESSION_BYTES = 600
_NODE_BYTES = 400
_PREFIX_BYTES = 200
_LATEST = 4
_FIELDS_KEPT, _FIELDS_BYTES = 256, 2048
_FIELDS: dict[bytes, dict[str, bytes]] = {}
"""Hashes of the fields of short requests, by how they are written: a program asks with the same ones each time."""


class Placed(NamedTuple):
    """Where an exchange hangs, and what of it is stored."""

    parent_id: int | None
    shared_messages: int
    shared_tokens: int
    messages: Sequence[Any]
    request: Mapping[str, Any]
    prompt_token_ids: bytes


class Node:
    """An exchange that others may hang on."""

    __slots__ = ("depth", "fields", "id", "parent", "shared_tokens", "tokens")

    def __init__(self, pk: int, parent: "Node | None", shared_tokens: int, tokens: bytes, fields: dict[str, bytes]):
        """`tokens`: of prompt and answer, behind the shared ones. `fields`: hashes of the request's large fields."""
        self.id = pk
        self.parent = parent
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.shared_tokens = shared_tokens
        self.tokens = tokens
        self.fields = fields

    def join_tokens(self) -> bytes:
        """Prompt and answer, packed."""
        pieces = []
        node: Node | None = self
        end = self.shared_tokens * TOKEN_BYTES + len(self.tokens)
        while node is not None and end > 0:
            start = node.shared_tokens * TOKEN_BYTES
            if end > start:
                pieces.append(node.tokens[: end - start])
                end = start
            node = node.parent
        return b"".join(reversed(pieces))


class SessionDelta:
    """The conversations of one session."""

    def __init__(self) -> None:
        self.size_bytes = _SESSION_BYTES
        self._prefixes: dict[bytes, Node] = {}
        self._latest: list[Node] = []

    def place(self, captured: Captured, pk: int, hashed: "Hashed") -> Placed:
        """Find an exchange's parent, and remember it under its primary key; `hashed` are its messages."""
        fields = _hash_fields(captured.request)
        parent, shared = self._find_parent(captured, hashed.beginnings)
        if parent is not None and parent.depth >= MOST_LINKS:
            parent, shared = None, 0
        shared_tokens = 0
        request: Mapping[str, Any] = captured.request
        if parent is not None:
            shared_tokens = count_shared_tokens(captured.prompt_token_ids, parent.join_tokens())
            request = _leave_out(request, fields, parent.fields)
        prompt = captured.prompt_token_ids[shared_tokens * TOKEN_BYTES :]
        node = Node(pk, parent, shared_tokens, prompt + captured.token_ids, fields)
        self._remember(node, hashed, make_answer(captured.text, captured.tool_calls))
        return Placed(
            parent_id=None if parent is None else parent.id,
            shared_messages=shared,
            shared_tokens=shared_tokens,
            messages=captured.messages[shared:],
            request=request,
            prompt_token_ids=prompt,
        )

    def load(self, links: Iterable[Link]) -> None:
        """Remember what is stored; each link's parent must be among them."""
        links = sorted(links, key=lambda link: link.id)
        whole = join_links(links)
        nodes: dict[int, Node] = {}
        for link in links:
            conversation = whole[link.id]
            parent = nodes.get(link.parent_id or 0)
            if not conversation.is_whole or (parent is None) != (link.parent_id is None):
                continue
            tokens = link.prompt_token_ids + link.token_ids
            node = Node(link.id, parent, link.shared_tokens, tokens, _hash_fields(conversation.request))
            nodes[link.id] = node
            self._remember(node, Hashed(conversation.messages), conversation.answer)

    def _find_parent(self, captured: Captured, hashes: Sequence[bytes]) -> tuple[Node | None, int]:
        for place in range(len(hashes), 0, -1):
            if (node := self._prefixes.get(hashes[place - 1])) is not None:
                return node, place
        if captured.messages or not captured.prompt_token_ids:
            return None, 0
        # a prompt of token ids has no messages to know it by
        counts = [
            (count_shared_tokens(captured.prompt_token_ids, one.join_tokens()), one.id, one) for one in self._latest
        ]
        count, _, node = max(counts, default=(0, 0, None))
        return (node, 0) if count else (None, 0)

    def _remember(self, node: Node, hashed: "Hashed", answer: Mapping[str, Any] | None) -> None:
        ends = hashed.beginnings
        if answer is not None and ends:
            ends = [*ends, hashed.hash_with(answer)]
        before = len(self._prefixes)
        if node.parent is None:  # forks are to find the shorter chain
            self._prefixes.update(dict.fromkeys(ends, node))
        else:
            for end in reversed(ends):
                if self._prefixes.setdefault(end, node) is not node:
                    break
        if not ends:
            self._latest = [*self._latest[1 - _LATEST :], node]
        self.size_bytes += _NODE_BYTES + len(node.tokens) + _PREFIX_BYTES * (len(self._prefixes) - before)


class Hashed:
    """A conversation's beginnings, a hash each: of its first message, of its first two, and so on."""

    def __init__(self, messages: Sequence[Any]) -> None:
        self.messages = messages
        self.beginnings: list[bytes] = []
        self._state = blake2b(digest_size=16)
        for message in messages:
            self._state.update(_dump(message))
            self.beginnings.append(self._state.digest())

    def hash_with(self, answer: Mapping[str, Any]) -> bytes:
        """Of the whole conversation with the answer behind it."""
        state = self._state.copy()
        state.update(_dump(answer))
        return state.digest()


class SessionDeltas:
    """The sessions that were seen lately, in bounded memory."""

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self._memory_bytes = memory_bytes
        self._size_bytes = 0
        self._sessions: OrderedDict[int, SessionDelta] = OrderedDict()
        self._large: set[int] = set()
        self._hashed = Hashed([])

    def __contains__(self, session_id: int) -> bool:
        return session_id in self._sessions

    def load(self, session_id: int, links: Iterable[Link]) -> None:
        """A session that was not known, with what is stored of it."""
        delta = SessionDelta()
        delta.load(links)
        self._sessions[session_id] = delta
        self._size_bytes += delta.size_bytes

    def place(self, session_id: int, captured: Captured, pk: int) -> Placed:
        """See `SessionDelta.place`; the session is known."""
        if self._hashed.messages is not captured.messages:  # the choices of a request share them
            self._hashed = Hashed(captured.messages)
        delta = self._sessions[session_id]
        self._sessions.move_to_end(session_id)
        before = delta.size_bytes
        placed = delta.place(captured, pk, self._hashed)
        self._size_bytes += delta.size_bytes - before
        if delta.size_bytes > SESSION_BYTES:
            self._large.add(session_id)
        return placed

    def shrink(self) -> None:
        """Forget the sessions that were not seen for longest, and any that has grown too large.

        To be called between batches: a session loaded for a batch stays for it.
        """
        self._hashed = Hashed([])
        while self._large:
            self._size_bytes -= self._sessions.pop(self._large.pop()).size_bytes
        while self._size_bytes > self._memory_bytes:
            self._size_bytes -= self._sessions.popitem(last=False)[1].size_bytes

    def clear(self) -> None:
        self._sessions.clear()
        self._large.clear()
        self._size_bytes = 0


def _leave_out(
    request: Mapping[str, Any], fields: Mapping[str, bytes], known: Mapping[str, bytes]
) -> Mapping[str, Any]:
    """The request without the large fields that are the parent's, or without anything where all of it is."""
    if request and fields == known:
        return {SAME: True}
    same = [name for name, value in fields.items() if name and known.get(name) == value]
    if not same:
        return request
    return {name: value for name, value in request.items() if name not in same} | {SAME: same}


def _hash_fields(request: Mapping[str, Any]) -> dict[str, bytes]:
    """Of each large field; and under "" of all that is small together."""
    whole = _dump(request)
    if (known := _FIELDS.get(whole)) is None:
        known = _hash_each(request)
        if len(whole) <= _FIELDS_BYTES:
            if len(_FIELDS) >= _FIELDS_KEPT:
                _FIELDS.clear()
            _FIELDS[whole] = known
    return known


def _hash_each(request: Mapping[str, Any]) -> dict[str, bytes]:
    spelled = {name: _dump(value) for name, value in request.items()}
    small = {name: value.decode() for name, value in spelled.items() if len(value) <= _SMALL_BYTES}
    large = {name: _hash(value) for name, value in spelled.items() if name not in small}
    return large | {"": _hash(_dump(small))}


def _hash(value: bytes) -> bytes:
    return blake2b(value, digest_size=16).digest()


def _dump(value: Any) -> bytes:
    """One spelling for each value; its end is told by a line's end, which JSON escapes."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # whole numbers of more than 64 bits
        return json.dumps(value, sort_keys=True).encode() + b"\n"
