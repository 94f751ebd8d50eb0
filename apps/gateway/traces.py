"""What the edge reads back of what was recorded: a session's exchanges, the conversation an answer goes on from."""

import re
import time
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.gateway.dialects import DIALECTS
from apps.gateway.dialects.responses.listed import list_items
from apps.gateway.edge import Earlier
from apps.gateway.tables import Caller
from apps.inference.models import Exchange, Session
from apps.inference.selectors import find_session_exchanges, read_conversations, read_public_id
from tentalis.core.conversation_delta import Conversation
from tentalis.core.packing import unpack_int32

WAIT_S = 2.0
STORED_S = 0.5
"""For an answer to be stored that is looked for alone; one that a request goes on from is worth `WAIT_S`."""
LOOK_EVERY_S = 0.02
_ITEM_ID = re.compile(r"(?:msg|rs|fc|ctc)_([0-9a-f]{32})(?:_[0-9]{1,6})?")


def read_traces(caller: Caller, key: str, after: int, limit: int) -> dict[str, Any] | None:
    """A page of a session's exchanges, whole conversations with their token ids; None where there is no such session.

    An agent sees its own, as over REST; a person those of every agent that used the key, each with its agent's name.

    Args:
        after: id of the last exchange that is known already.
    """
    sessions = Session.objects.filter(project_id=caller.project, key=key)
    if caller.is_agent:
        sessions = sessions.filter(agent=caller.agent)
    known = list(sessions)
    if not known:
        return None
    found = find_session_exchanges(*known, after=after, most=limit + 1)
    page = found[:limit]
    conversations = read_conversations(page)
    data = []
    for exchange in page:
        conversation = conversations.get(exchange.pk)
        is_whole = conversation is not None and conversation.is_whole
        data.append(
            {
                "id": exchange.pk,
                "exchange": exchange.public_id.hex,
                "choice": exchange.choice,
                "agent": exchange.agent,
                "at": exchange.created_at.isoformat(),
                "api": exchange.api,
                "turn": exchange.turn,
                "task": exchange.task_id,
                "step": exchange.step_index,
                "worker": exchange.worker_name,
                "model": exchange.model,
                "adapter": exchange.adapter_name,
                "policy_version": exchange.policy_version,
                "messages": conversation.messages if conversation is not None and is_whole else None,
                "text": exchange.text,
                "reasoning": exchange.reasoning,
                "tool_calls": exchange.tool_calls,
                "finish_reason": exchange.finish_reason,
                "prompt_token_ids": unpack_int32(conversation.prompt_token_ids) if conversation and is_whole else [],
                "token_ids": exchange.unpack_token_ids(),
                "logprobs": exchange.unpack_logprobs(),
                "prompt_tokens": exchange.prompt_tokens,
                "completion_tokens": exchange.completion_tokens,
                "status": exchange.status,
                "is_truncated": exchange.is_truncated,
                "is_mixed": exchange.is_mixed,
                "fallback_reason": exchange.fallback_reason,
                "deleted_at": exchange.deleted_at.isoformat() if exchange.deleted_at is not None else None,
                "error": exchange.error,
            }
        )
    return {
        "object": "list",
        "session": key,
        "is_closed": all(session.closed_at is not None for session in known),
        "data": data,
        "has_more": len(found) > limit,
        "last_id": page[-1].pk if page else after,
    }


def read_response(caller: Caller, answer_id: str) -> dict[str, Any] | None:
    """An answer of /v1/responses once more, as far as it is kept; None where its caller's agent was given none such."""
    exchange = _find_response(caller, answer_id)
    if exchange is None:
        return None
    return _tell_response(exchange, read_conversations([exchange], tokens=False).get(exchange.pk))


def list_input(caller: Caller, answer_id: str) -> list[dict[str, Any]] | None:
    """What a Response was asked, as items, oldest first; None where its caller's agent was given none such."""
    exchange = _find_response(caller, answer_id)
    if exchange is None:
        return None
    conversation = read_conversations([exchange], tokens=False).get(exchange.pk)
    if conversation is None or not conversation.is_whole:
        return []
    return list_items(conversation.messages, id=exchange.public_id.hex)


def delete_response(caller: Caller, answer_id: str) -> bool:
    """Give an answer out no more and train nothing on it from now on; whether its caller's agent had been given it.

    The project's record of it stays, for its people's eyes, until the project deletes it.
    """
    exchange = _find_response(caller, answer_id)
    if exchange is None:
        return False
    with transaction.atomic():
        mine = Exchange.objects.filter(pk=exchange.pk, deleted_at=None).update(deleted_at=timezone.now())
        if mine:
            record(Kind.ANSWER_DELETED, subject=exchange, by=caller.agent, payload={"session": exchange.session_id})
    return bool(mine)


def find_items(caller: Caller, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Items of answers that the caller's agent was given, by the ids they had there; unknown ones are absent."""
    answers = {id: UUID(match[1]) for id in ids if (match := _ITEM_ID.fullmatch(id)) is not None}
    wanted = _answers_of(caller).filter(public_id__in=set(answers.values()), api="responses", status=200)
    until = time.monotonic() + STORED_S
    while len(found := list(wanted)) < len(set(answers.values())) and time.monotonic() < until:
        time.sleep(LOOK_EVERY_S)
    conversations = read_conversations(found, tokens=False)
    items: dict[str, dict[str, Any]] = {}
    for exchange in found:
        for item in _tell_response(exchange, conversations.get(exchange.pk))["output"]:
            items[item["id"]] = items[item["id"].replace("fc_", "ctc_", 1)] = item
    return {id: items[id] for id in answers if id in items}


def _find_response(caller: Caller, answer_id: str) -> Exchange | None:
    """What was just answered is given a moment to be stored."""
    if (public_id := read_public_id(answer_id)) is None:
        return None
    wanted = _answers_of(caller).filter(public_id=public_id, api="responses", status=200)
    until = time.monotonic() + STORED_S
    while (exchange := wanted.first()) is None and time.monotonic() < until:
        time.sleep(LOOK_EVERY_S)
    return exchange


def _answers_of(caller: Caller) -> QuerySet[Exchange]:
    """Those that its agent may name: it deleted none of them, and asked for none with `store: false`."""
    given = Exchange.objects.filter(project_id=caller.project, agent=caller.agent, choice=0, deleted_at=None)
    return given.exclude(request__contains={"store": False})


def _tell_response(exchange: Exchange, conversation: Conversation | None) -> dict[str, Any]:
    asked = dict(conversation.request) if conversation is not None else {}
    asked["tools"] = [{"type": "function", **tool["function"]} for tool in asked.get("tools") or ()]
    asked["max_output_tokens"] = asked.get("max_tokens")
    message = {"content": exchange.text, "reasoning_content": exchange.reasoning, "tool_calls": exchange.tool_calls}
    answer = {
        "created": int(exchange.created_at.timestamp()),
        "model": exchange.adapter_name or exchange.model,
        "choices": [{"message": message, "finish_reason": exchange.finish_reason}],
        "usage": {
            "prompt_tokens": exchange.prompt_tokens,
            "completion_tokens": exchange.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": exchange.cached_tokens},
        },
    }
    return DIALECTS["responses"].from_chat(answer, asked, id=exchange.public_id.hex)


def read_earlier(caller: Caller, answer_id: str) -> Earlier | None:
    """What a request goes on from; None where its caller's agent was given no answer of this id.

    What was just answered is given a moment to be stored.
    """
    public_id = read_public_id(answer_id)
    if public_id is None:
        return None
    until = time.monotonic() + WAIT_S
    wanted = _answers_of(caller).select_related("session").filter(public_id=public_id)
    while (exchange := wanted.first()) is None:
        if time.monotonic() > until:
            return None
        time.sleep(LOOK_EVERY_S)
    conversation = read_conversations([exchange], tokens=False).get(exchange.pk)
    if conversation is None or not conversation.is_whole:
        return None
    answer: dict[str, Any] = {"role": "assistant", "content": exchange.text or None}
    if exchange.reasoning:
        answer["reasoning_content"] = exchange.reasoning
    if exchange.tool_calls:
        answer["tool_calls"] = exchange.tool_calls
    if exchange.thinking_blocks:
        answer["thinking_blocks"] = exchange.thinking_blocks
    return Earlier([*conversation.messages, answer], exchange.session.key if exchange.session is not None else "")
