"""A turn as it was said and done, put together from its exchanges."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any

from django.db.models import Q

from apps.conversations.models import Turn
from apps.inference.models import Exchange
from apps.inference.selectors import read_conversations
from tentalis.core.conversation_delta import Conversation
from tentalis.core.conversations.turns import Began, find_words

MOST_ANSWERS = 200
FEWEST_CHARS = 20
"""From so many on one text within another is no chance."""


@dataclass(frozen=True)
class AgentCall:
    """One of the agent's calls in a turn.

    Attributes:
        results: what the tools it called answered, in order; () where the next request does not tell.
    """

    exchange: Exchange
    conversation: Conversation
    results: Sequence[str] = ()


@dataclass(frozen=True)
class ReadTurn:
    """What a turn came to.

    Attributes:
        asked: the person's words that it answers; answer: the agent's last words to them.
        reaction: the person's next words; "" where nothing came.
        began_next: how the next turn began; None where none did.
        calls: the agent's calls that carried the turn on, those that failed left out.
        is_whole: False where a part of the conversation was deleted.
        is_told_by_model: the reaction is what a model answered meanwhile to the same agent: its critic, or one that
            plays the user.
    """

    turn: Turn
    asked: str
    answer: str
    reaction: str
    began_next: Began | None
    calls: Sequence[AgentCall]
    is_whole: bool
    is_told_by_model: bool = False


def read_turn(turn: Turn) -> ReadTurn:
    """Seven queries, however many exchanges."""
    parts = _load_parts(turn)
    following = find_following(turn)
    next_parts = _load_parts(following)[:1] if following is not None else []
    conversations = read_conversations([*parts, *next_parts])
    good = [part for part in parts if part.status < 400 and (part.text or part.tool_calls)]
    calls = [
        AgentCall(part, conversations[part.pk], _find_results(part, conversations[after.pk].messages) if after else ())
        for part, after in zip_longest(good, good[1:])
    ]
    first = conversations[parts[0].pk].messages if parts else []
    reaction = ""
    if following is not None and next_parts:
        reaction = "\n\n".join(find_words(conversations[next_parts[0].pk].messages)[following.heard_from :])
    last = calls[-1].exchange if calls else None
    return ReadTurn(
        turn=turn,
        asked="\n\n".join(find_words(first)[turn.words_from :]),
        answer=last.text if last is not None and not last.tool_calls else "",
        reaction=reaction,
        began_next=Began(following.began) if following is not None else None,
        calls=calls,
        is_whole=all(conversations[part.pk].is_whole for part in parts),
        is_told_by_model=bool(parts and next_parts) and _is_answer_of(reaction, parts[-1], next_parts[0]),
    )


def find_following(turn: Turn) -> Turn | None:
    """The turn whose words stand behind this one's answer, the last of them; else the one that asked it again."""
    found = sorted(turn.next_turns.all(), key=lambda one: (one.began != Began.AGAIN.value, one.number))
    return found[-1] if found else None


def _is_answer_of(words: str, after: Exchange, before: Exchange) -> bool:
    """Whether words are, or hold, one of the latest answers that the agent was given between two exchanges."""
    said = " ".join(words.split())
    between = Exchange.objects.filter(
        project=after.project_id, agent=after.agent, pk__gt=after.pk, pk__lt=before.pk, status__lt=400
    ).exclude(Q(text="") | Q(public_id=after.public_id))
    near = between.filter(Q(session=after.session_id) | Q(text=words.strip()))  # whatever others were told meanwhile
    latest = [one.order_by("-pk").values_list("text", flat=True)[:MOST_ANSWERS] for one in (near, between)]
    for text in chain.from_iterable(latest):
        told = " ".join(text.split())
        if told == said or (min(len(told), len(said)) >= FEWEST_CHARS and (told in said or said in told)):
            return True
    return False


def _load_parts(turn: Turn) -> list[Exchange]:
    return list(Exchange.objects.filter(place_in_turn__turn=turn, place_in_turn__is_part=True).order_by("id"))


def _find_results(exchange: Exchange, messages: Sequence[Any]) -> list[str]:
    """What the tools answered to an exchange's calls, as the next request repeats it; by call id, else by place."""
    wanted = [call.get("id") for call in exchange.tool_calls if isinstance(call, Mapping)]
    told = [message for message in messages if isinstance(message, Mapping) and message.get("role") == "tool"]
    by_id = {message.get("tool_call_id"): _read_content(message) for message in told}
    if all(one in by_id for one in wanted):
        return [by_id[one] for one in wanted]
    return [_read_content(message) for message in told[-len(wanted) :]] if wanted else []


def _read_content(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return "" if content is None else str(content)
