"""A user who only talks, through the real gateway and engine: what was said becomes rollouts, token for token."""

import json
import random
import time
from typing import Any

import pytest

from apps.accounts.models import Project
from apps.conversations.models import Turn
from apps.conversations.segmentation import cut_session
from apps.conversations.signal_extraction import hear_turn
from apps.conversations.task_building import ONLY_MACHINES, settle_turn
from apps.feedback.hints import extract_hints
from apps.feedback.models import Feedback
from apps.inference.models import Exchange
from apps.outbox.models import Segment
from apps.pipeline import conversing
from apps.rollouts.models import Rollout
from apps.rollouts.selectors import make_records
from apps.rollouts.services import build_rollouts
from tentalis.core.desk import Ticket, make_tickets, read_attempt, verify
from tests.apps.gateway.running import GatewayProcess, make_agent_token, make_provider
from tests.bench.talker_user import THANKS, User
from tests.factories import make_worker

pytestmark = pytest.mark.torch
TALKS = 10
PATIENCE_S = 60.0


def send(gateway: GatewayProcess, token: str, key: str, messages: list[dict[str, Any]], **headers: str) -> str:
    """A request of OpenClaw's shape: streamed, its session in the cache key; the whole answer."""
    body = {
        "messages": messages, "stream": True, "stream_options": {"include_usage": True}, "max_tokens": 44,
        "prompt_cache_key": f"{key}:0", "temperature": 1.0,
    }  # fmt: skip
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    response = gateway.chat("desk", token=token, headers=named, **body)
    assert response.status_code == 200, response.text
    lines = [line[6:] for line in response.text.split("\n") if line.startswith("data: {")]
    chunks = [json.loads(line) for line in lines]
    return "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])


def test_talk_alone_becomes_rollouts(transactional_db: None, project: Project, desk_engine: str) -> None:
    project.session_policy = {"learn": True, "judge": False, "fastest_s": 0}
    project.save()
    provider = make_provider(project, f"{desk_engine}/v1", kind="engine", default_model="desk")
    make_worker(project, "desk", "desk", provider=provider, base_model="desk")
    token = make_agent_token(project)
    person = User(random.Random(3))
    tickets = make_tickets(5, TALKS, held_out=False, families=["order", "return", "delay", "broken"])
    said: dict[str, tuple[Ticket, str, float]] = {}
    with GatewayProcess() as gateway:
        for place, ticket in enumerate(tickets):
            key, asked = f"talk-{place}", {"role": "user", "content": ticket.text}
            answer = send(gateway, token, key, [asked])
            verdict = verify(ticket, read_attempt(answer).parts, ended=True)
            reaction = person.react(ticket, verdict)
            said[key] = (ticket, reaction, verdict.outcome)
            follow = [asked, {"role": "assistant", "content": answer}, {"role": "user", "content": reaction}]
            send(gateway, token, key, follow, X_Session_Done="1")
        deadline = time.monotonic() + PATIENCE_S
        while Exchange.objects.filter(project=project).count() < 2 * TALKS:
            assert time.monotonic() < deadline, "wanted every exchange written"
            time.sleep(0.05)
    assert conversing.converse() == TALKS
    for segment in Segment.objects.filter(kind="cut"):
        cut_session(segment.subject_id, by="test")
    turns = list(Turn.objects.filter(project=project, number=0).select_related("session"))
    assert len(turns) == TALKS
    taught = 0
    for turn in turns:
        hear_turn(turn.pk)
        settle_turn(turn.pk)
        turn.refresh_from_db()
        ticket, reaction, outcome = said[turn.session.key]
        if turn.task is None:
            # the second where the model happened to answer what makes its user only ask anew
            assert turn.reason in {
                "no rule knows these words",
                ONLY_MACHINES,
            }, reaction
            continue
        taught += 1
        feedback = Feedback.objects.get(task=turn.task)
        assert (feedback.score, turn.task.prompt, turn.task.environment) == (outcome, ticket.text, "desk"), reaction
        assert (feedback.score == 1.0) == (reaction in THANKS)
        extract_hints([turn.task.pk])
        build_rollouts([turn.task.pk], by="test")
        rollout = Rollout.objects.get(task=turn.task)
        assert rollout.is_usable, rollout.unusable_reason
        (record,) = make_records([rollout])
        exchange = Exchange.objects.get(place_in_turn__turn=turn)
        assert list(record.token_ids) == exchange.unpack_token_ids()
        assert len(record.token_ids) == sum(record.sampled) > 0
        assert record.prompt_token_ids
        if (told := f"use {ticket.house_option}") in reaction:
            assert record.hinted_messages is not None
            assert told in str(record.hinted_messages[-1]["content"])
    assert taught >= TALKS / 2
