"""The gateway as a process: what it stores, how it stops, what it says when it cannot start."""

import json
import signal
import socket
import subprocess
import sys
import threading

import pytest

from apps.inference.models import Exchange
from apps.workers.models import Worker
from tests.apps.gateway.running import HELLO, GatewayProcess
from tests.apps.gateway.test_edge import wait_for
from tests.apps.gateway.upstream import StubUpstream, prompt_tokens_of
from tests.factories import make_task
from tests.local_server import find_free_port

pytestmark = pytest.mark.broker


def test_a_session_is_read_back_token_for_token(helper: Worker, token: str) -> None:
    task = make_task(helper.project, helper)
    with GatewayProcess() as gateway:
        headers = {"Authorization": f"Bearer {token}", "X-Session-Id": "talk", "X-Tentalis-Task": str(task.pk)}
        messages = list(HELLO["messages"])
        for turn in range(3):
            answer = gateway.client.post(
                "/v1/chat/completions", json={"model": "helper", "messages": messages}, headers=headers
            ).json()
            messages += [answer["choices"][0]["message"], {"role": "user", "content": f"go on {turn}"}]
        wait_for(lambda: Exchange.objects.count() == 3)
        page = gateway.client.get("/sessions/talk/traces?limit=2", headers=headers).json()
        rest = gateway.client.get(f"/sessions/talk/traces?after={page['last_id']}", headers=headers).json()
    assert (page["has_more"], rest["has_more"], len(rest["data"])) == (True, False, 1)
    for place, trace in enumerate([*page["data"], *rest["data"]]):
        said = messages[: 1 + 2 * place]
        assert trace["prompt_token_ids"] == prompt_tokens_of(said)
        assert trace["messages"] == said
        assert (trace["task"], trace["status"]) == (task.pk, 200)
        assert len(trace["token_ids"]) == len(trace["logprobs"]) == 9


def test_a_response_goes_on_from_the_one_before(helper: Worker, token: str, upstream: StubUpstream) -> None:
    with GatewayProcess() as gateway:
        first = gateway.post("/v1/responses", {"model": "helper", "input": "hello"}, token=token).json()
        body = {"model": "helper", "input": "and now?", "previous_response_id": first["id"]}
        second = gateway.post("/v1/responses", body, token=token)
        unknown = gateway.post("/v1/responses", body | {"previous_response_id": f"resp_{'0' * 32}"}, token=token)
    assert second.status_code == 200
    assert [message["role"] for message in upstream.requests[1]["body"]["messages"]] == ["user", "assistant", "user"]
    assert unknown.status_code in {400, 404}
    assert "previous_response_id" in unknown.text


def test_it_lets_answers_end_before_it_stops(helper: Worker, token: str, upstream: StubUpstream) -> None:
    upstream.plan(token_s=0.1, tokens=10)
    with GatewayProcess() as gateway:
        texts: list[str] = []
        asking = threading.Thread(target=lambda: texts.append(gateway.chat("helper", token=token, stream=True).text))
        asking.start()
        wait_for(lambda: upstream.open_requests)
        gateway.process.send_signal(signal.SIGTERM)
        asking.join(20)
        assert gateway.process.wait(20) == 0
    assert texts[0].endswith("data: [DONE]\n\n")
    assert list(Exchange.objects.values_list("is_truncated", flat=True)) == [False]


def test_a_taken_port_is_said_in_one_line(helper: Worker) -> None:
    with GatewayProcess() as gateway, socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = str(holder.getsockname()[1])
        argv = [sys.executable, "-m", "apps.gateway", "--port", port]
        done = subprocess.run(argv, env=gateway.environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert f"gateway: cannot listen on 127.0.0.1:{port}" in done.stderr
    assert "Traceback" not in done.stderr


def test_its_address_is_the_settings(helper: Worker) -> None:
    port = find_free_port()
    with GatewayProcess(GATEWAY_PORT=str(port), arguments=()) as gateway:
        assert gateway.port == port
        assert json.loads(gateway.client.get("/health").text)["status"] == "ok"
