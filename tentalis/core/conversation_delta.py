"""Store conversations as deltas (links, each what is new since its parent) and put them together again.

A link's parent's conversation is the parent's messages and its answer; its tokens are the parent's prompt and answer.
The link's own messages go on behind the first `shared_messages` of them, its own prompt tokens behind the first
`shared_tokens`. Links without a parent hold everything.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

SAME = "$same"
"""In a link's request: names of the fields whose values are the parent's; True: the whole request is."""
TOKEN_BYTES = 4


class Link(NamedTuple):
    """What is stored of an exchange for its conversation. Token ids are packed int32."""

    id: int
    parent_id: int | None
    shared_messages: int
    shared_tokens: int
    messages: Sequence[Any]
    text: str
    tool_calls: Sequence[Any]
    request: Mapping[str, Any]
    prompt_token_ids: bytes
    token_ids: bytes


class Conversation(NamedTuple):
    """A whole exchange again.

    Attributes:
        messages: of its prompt. answer: as the message that the next turn repeats; None where nothing was answered.
        prompt_token_ids, token_ids: packed int32.
        is_whole: False where a link it needs was deleted: the rest is what is left.
    """

    messages: list[Any]
    answer: dict[str, Any] | None
    request: dict[str, Any]
    prompt_token_ids: bytes
    token_ids: bytes
    is_whole: bool = True


def make_answer(text: str, tool_calls: Sequence[Any]) -> dict[str, Any] | None:
    """An answer as clients repeat it; None where there is none."""
    if tool_calls:
        return {"role": "assistant", "content": text or None, "tool_calls": list(tool_calls)}
    return {"role": "assistant", "content": text} if text else None


def join_links(links: Iterable[Link]) -> dict[int, Conversation]:
    """Each link's whole conversation, by id; the links they stand on must be among them."""
    by_id = {link.id: link for link in links}
    whole: dict[int, Conversation] = {}
    for link in by_id.values():
        waiting = [link]
        while (parent := by_id.get(waiting[-1].parent_id or 0)) is not None and parent.id not in whole:
            waiting.append(parent)
        for each in reversed(waiting):
            whole[each.id] = _join(each, whole.get(each.parent_id or 0))
    return whole


def count_shared_tokens(prompt: bytes, known: bytes) -> int:
    """How many tokens two packed rows begin with in common, by halving: comparing bytes is the fast part."""
    low, high = 0, min(len(prompt), len(known)) // TOKEN_BYTES
    if prompt[: high * TOKEN_BYTES] == known[: high * TOKEN_BYTES]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if prompt[low * TOKEN_BYTES : middle * TOKEN_BYTES] == known[low * TOKEN_BYTES : middle * TOKEN_BYTES]:
            low = middle
        else:
            high = middle
    return low


def _join(link: Link, parent: Conversation | None) -> Conversation:
    request = {name: value for name, value in link.request.items() if name != SAME}
    messages: list[Any] = []
    tokens = b""
    is_whole = not (link.shared_messages or link.shared_tokens or SAME in link.request)
    if parent is not None:
        known = [*parent.messages, parent.answer] if parent.answer else parent.messages
        messages = known[: link.shared_messages]
        tokens = (parent.prompt_token_ids + parent.token_ids)[: link.shared_tokens * TOKEN_BYTES]
        names = link.request.get(SAME, ())
        names = parent.request if names is True else names
        same = {name: parent.request[name] for name in names if name in parent.request}
        is_whole = (
            parent.is_whole
            and len(messages) == link.shared_messages
            and len(tokens) == link.shared_tokens * TOKEN_BYTES
            and len(same) == len(names)
        )
        request |= same
    return Conversation(
        messages=[*messages, *link.messages],
        answer=make_answer(link.text, link.tool_calls),
        request=request,
        prompt_token_ids=tokens + link.prompt_token_ids,
        token_ids=link.token_ids,
        is_whole=is_whole,
    )
