"""What a model server may answer, and what is left of it where it goes beyond."""

import json
import re
from threading import Event

import pytest

from apps.accounts.models import Project
from tentalis.limits import LIMITS
from tests.apps.gateway.running import GatewayThread, make_chat_worker, make_provider
from tests.apps.gateway.upstream import StubUpstream
from tests.local_server import LocalHandler, LocalServer, find_free_port


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_models_name_with_a_line_end_in_it_is_no_header(
    gateway: GatewayThread, token: str, upstream: StubUpstream, is_stream: bool
) -> None:
    upstream.plan(served_as="base\r\nX-Evil: 1")
    answer = gateway.chat("helper", token=token, stream=is_stream)
    assert answer.status_code == 502
    assert "no header can hold" in answer.json()["error"]["message"]
    assert "x-evil" not in answer.headers


def test_an_answer_that_nobody_asked_to_be_compressed_is_not_unpacked(
    gateway: GatewayThread, token: str, upstream: StubUpstream
) -> None:
    upstream.plan(squeezes=True)
    answer = gateway.chat("helper", token=token)
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_too_long")


def test_an_answer_that_lies_too_deep_is_refused_and_not_kept(
    gateway: GatewayThread, token: str, upstream: StubUpstream
) -> None:
    for levels in (LIMITS.gateway_json_depth, 260, 1_000, 5_000):
        upstream.plan(levels=levels)
        assert gateway.chat("helper", token=token).status_code == 502, levels
    assert not [record for record in gateway.records if b"[[[" in record.answer and len(record.answer) > 70_000]
    upstream.plan(levels=20)
    assert gateway.chat("helper", token=token).status_code == 200


@pytest.mark.parametrize("asked", ["1e12", "999999999999", "inf"])
def test_a_server_is_left_alone_for_a_day_at_most(
    gateway: GatewayThread, token: str, upstream: StubUpstream, asked: str
) -> None:
    upstream.plan(status=429, retry_after=asked)
    answer = gateway.chat("helper", token=token)
    assert (answer.status_code, float(answer.headers["Retry-After"])) == (429, LIMITS.retry_after_s)


def test_of_an_error_only_its_beginning_is_read(transactional_db: None, token: str, project: Project) -> None:
    class Talkative(LocalHandler):
        def do_POST(self) -> None:
            self.read()
            self.answer(400, b"no" * LIMITS.error_answer_bytes, Content_Type="text/plain")

    with LocalServer(Talkative) as server:
        provider = make_provider(project, f"{server.url}/v1", name="talkative", kind="custom")
        make_chat_worker(project, provider, "talker")
        with GatewayThread() as gateway:
            answer = gateway.chat("talker", token=token)
    assert answer.status_code == 400
    assert len(answer.content) < 2 * LIMITS.error_answer_bytes


def test_an_error_that_comes_in_two_pieces_keeps_its_words(
    transactional_db: None, project: Project, token: str
) -> None:
    class Halting(LocalHandler):
        def do_POST(self) -> None:
            self.read()
            body = json.dumps({"error": {"message": "wanted fewer words", "type": "bad", "code": "too_wordy"}}).encode()
            self.send_response(400)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[:20])
            Event().wait(0.1)
            self.wfile.write(body[20:])

    with LocalServer(Halting) as server:
        provider = make_provider(project, f"{server.url}/v1", name="halting", kind="custom")
        make_chat_worker(project, provider, "halter")
        with GatewayThread() as gateway:
            answer = gateway.chat("halter", token=token)
    assert "wanted fewer words" in answer.text


def test_the_figures_name_no_server(transactional_db: None, project: Project, token: str) -> None:
    provider = make_provider(project, f"http://127.0.0.1:{find_free_port()}/team/secret-path/v1", name="away")
    make_chat_worker(project, provider)
    with GatewayThread() as gateway:
        assert gateway.chat("helper", token=token).status_code == 503
        text = gateway.client.get("/metrics").text
    assert re.search(rf'tentalis_gateway_failovers_total\{{provider="{provider.pk}"\}} [1-9]', text)
    assert "secret-path" not in text
    assert "http" not in text.replace("http_", "")


def test_a_page_of_traces_is_asked_for_by_plain_digits(gateway: GatewayThread, token: str) -> None:
    for after in ("9" * 5_000, "٣", "-1", "1e3", "9" * 19):
        answer = gateway.client.get(f"/sessions/x/traces?after={after}", headers={"Authorization": f"Bearer {token}"})
        assert (answer.status_code, json.loads(answer.content)["error"]["param"]) == (400, "after")
