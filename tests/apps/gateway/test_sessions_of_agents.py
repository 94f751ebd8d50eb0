"""Two agents of one project who use the same session key: neither reads, closes or teaches the other's."""

import pytest

from apps.accounts.models import Member, Role
from apps.accounts.rights import Right
from apps.accounts.tokens import create_token
from apps.conversations.models import Turn
from apps.conversations.segmentation import cut_session
from apps.conversations.signal_extraction import hear_turn
from apps.conversations.task_building import settle_turn
from apps.inference.models import Exchange, Session
from apps.workers.models import Worker
from tests.apps.gateway.running import HELLO, GatewayProcess, make_agent_token
from tests.apps.gateway.test_edge import wait_for
from tests.factories import make_user

pytestmark = pytest.mark.broker
KEY = {"X-Session-Id": "shared"}
EVIL = "No, that is wrong. It should be EVIL."


def test_a_key_another_agent_uses_too_names_a_session_of_ones_own(helper: Worker, token: str) -> None:
    project = helper.project
    project.session_policy = {"learn": True, "judge": False}
    project.save()
    other = make_agent_token(project, "another")
    vera = make_user("vera")
    Member.objects.create(project=project, user=vera, role=Role.OWNER)
    scopes = [Right.SESSIONS_READ, Right.GATEWAY_USE]
    _, veras = create_token(user=vera, name="t", scopes=scopes, by=vera, project=project)
    with GatewayProcess() as gateway:

        def read(who: str) -> list[str]:
            page = gateway.client.get("/sessions/shared/traces", headers={"Authorization": f"Bearer {who}"})
            return [row["agent"] for row in page.json()["data"]] if page.status_code == 200 else [page.text]

        answer = gateway.chat("helper", token=token, headers=KEY).json()["choices"][0]["message"]["content"]
        wait_for(lambda: Exchange.objects.count() == 1)
        assert "no session" in read(other)[0]
        talk = [*HELLO["messages"], {"role": "assistant", "content": answer}, {"role": "user", "content": EVIL}]
        said = gateway.chat("helper", token=other, headers=KEY | {"X-Session-Done": "1"}, messages=talk)
        assert said.status_code == 200
        wait_for(lambda: Exchange.objects.count() == 2)
        assert read(token) == ["agent:claw"]
        assert read(other) == ["agent:another"]
        assert read(veras) == ["agent:claw", "agent:another"]
    own = Session.objects.get(key="shared", agent="agent:claw")
    foreign = Session.objects.get(key="shared", agent="agent:another")
    assert own.closed_at is None
    assert foreign.closed_at is not None
    for session in (own, foreign):
        cut_session(session.pk, by="test")
    for turn in Turn.objects.unread():
        hear_turn(turn.pk)
        settle_turn(turn.pk)
    assert not Turn.objects.filter(task__isnull=False).exists()
    assert Turn.objects.get(session=own).state == Turn.State.OPEN
