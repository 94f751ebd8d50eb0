"""`POST /sessions/{key}/done`: a session is over though no request comes any more."""

from apps.accounts.models import Project
from apps.inference.models import Session
from tests.apps.gateway.running import GatewayProcess, make_agent_token, make_chat_worker, make_provider
from tests.apps.gateway.upstream import StubUpstream


def test_a_session_is_closed_behind_what_was_said_in_it(transactional_db: None, project: Project) -> None:
    with StubUpstream() as upstream:
        make_chat_worker(project, make_provider(project, upstream.url))
        token, other = make_agent_token(project), make_agent_token(project, "another")
        with GatewayProcess() as gateway:
            for key in ("s-1", "tentalis:7:a/b"):
                assert gateway.chat("helper", token=token, headers={"X-Session-Id": key}).status_code == 200
                assert gateway.post(f"/sessions/{key}/done", {}, token=other).status_code == 404
                assert Session.objects.get(key=key).closed_at is None
                assert gateway.post(f"/sessions/{key}/done", {}, token=token).status_code == 204
                session = Session.objects.get(key=key)
                assert session.closed_at == session.last_seen_at
                assert gateway.post(f"/sessions/{key}/done", {}, token=token).status_code == 204
            assert gateway.post("/sessions/nobody/done", {}, token=token).status_code == 404
            assert gateway.post("/sessions/s-1/done", {}, token="tnt_wrong").status_code == 401
            assert gateway.client.get("/sessions/s-1/done").status_code == 405
            assert gateway.chat("helper", token=token, headers={"X-Session-Id": "s-1"}).status_code == 200
