"""What the edge reads back of what was recorded: a session's exchanges, the conversation an answer goes on from."""

import time
from typing import Any

from apps.gateway.dialects import DIALECTS
from apps.gateway.edge import Earlier
from apps.gateway.tables import Caller
from apps.inference.models import Exchange, Session
from apps.inference.selectors import find_session_exchanges, read_conversations, read_public_id
from tentalis.core.packing import unpack_int32

WAIT_S = 2.0


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
    if (public_id := read_public_id(answer_id)) is None:
        return None
    exchange = Exchange.objects.filter(
        project_id=caller.project, agent=caller.agent, public_id=public_id, choice=0, api="responses", status=200
    ).first()
    if exchange is None:
        return None
    conversation = read_conversations([exchange], tokens=False).get(exchange.pk)
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
    return DIALECTS["responses"].from_chat(answer, asked, id=public_id.hex)


def read_earlier(caller: Caller, answer_id: str) -> Earlier | None:
    """What a request goes on from; None where its caller's agent was given no answer of this id.

    What was just answered is given a moment to be stored.
    """
    public_id = read_public_id(answer_id)
    if public_id is None:
        return None
    until = time.monotonic() + WAIT_S
    wanted = Exchange.objects.select_related("session").filter(
        project_id=caller.project, agent=caller.agent, public_id=public_id, choice=0
    )
    while (exchange := wanted.first()) is None:
        if time.monotonic() > until:
            return None
        time.sleep(0.02)
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
