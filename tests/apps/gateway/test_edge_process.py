"""The gateway as a process: what it stores, how it stops, what it says when it cannot start."""

import json
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import psutil
import pytest

from apps.inference.models import Exchange, Session
from apps.workers.models import Worker
from tests.apps.gateway.running import HELLO, GatewayProcess
from tests.apps.gateway.test_edge import wait_for
from tests.apps.gateway.upstream import StubUpstream, prompt_tokens_of
from tests.factories import make_task
from tests.local_server import find_free_port

pytestmark = pytest.mark.broker


def test_a_session_is_read_back_token_for_token_at_the_address_of_the_settings(helper: Worker, token: str) -> None:
    task, port = make_task(helper.project, helper), find_free_port()
    with GatewayProcess(GATEWAY_PORT=str(port), arguments=()) as gateway:
        assert gateway.port == port
        assert json.loads(gateway.client.get("/health").text)["status"] == "ok"
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


def test_it_lets_answers_end_before_it_stops(helper: Worker, token: str, upstream: StubUpstream) -> None:
    upstream.plan(token_s=0.1, tokens=10)
    with GatewayProcess() as gateway:
        texts: list[str] = []
        asking = threading.Thread(target=lambda: texts.append(gateway.chat("helper", token=token, stream=True).text))
        asking.start()
        wait_for(lambda: upstream.open_requests)
        gateway.process.send_signal(signal.SIGTERM)
        asking.join(20)
        assert gateway.process.wait(120) == 0
    assert texts[0].endswith("data: [DONE]\n\n")
    assert list(Exchange.objects.values_list("is_truncated", flat=True)) == [False]


def test_several_processes_are_one_gateway(helper: Worker, token: str, upstream: StubUpstream) -> None:
    with GatewayProcess(arguments=("--port", "0", "--workers", "2")) as gateway:
        parent = psutil.Process(gateway.process.pid)

        def talk(turns: int) -> None:
            """A session of which each request comes on a connection of its own, so to any of the processes."""
            for _ in range(turns):
                headers = {"Authorization": f"Bearer {token}", "X-Session-Id": "s", "Connection": "close"}
                body = HELLO | {"model": "helper", "messages": messages}
                answer = httpx.post(f"{gateway.url}/v1/chat/completions", json=body, headers=headers, timeout=30)
                messages.append(answer.raise_for_status().json()["choices"][0]["message"])
                messages.append({"role": "user", "content": f"and {len(messages)}?"})

        def read_counts() -> dict[str, float]:
            text = gateway.client.get("/metrics").text
            found = re.findall(r'^tentalis_gateway_answers_total\{.*process="(\w+)".*\} (\S+)$', text, re.MULTILINE)
            return {process: float(count) for process, count in found}

        messages = [{"role": "user", "content": "hello"}]
        talk(12)
        wait_for(lambda: sum(read_counts().values()) == 12 and len(read_counts()) == 2)
        before = parent.children()
        assert len(before) == 2
        before[0].kill()
        wait_for(lambda: len(parent.children()) == 2 and before[0] not in parent.children())
        talk(4)
        assert gateway.post("/sessions/s/done", {}, token=token).status_code == 204
        assert Session.objects.get().closed_at is not None
        gateway.process.send_signal(signal.SIGTERM)
        assert gateway.process.wait(120) == 0
        assert list((gateway.home / "spool").iterdir()) == []
    pks = list(Exchange.objects.order_by("pk").values_list("pk", flat=True))
    assert list(Exchange.objects.order_by("pk").values_list("parent_id", flat=True)) == [None, *pks[:-1]]
    assert len(pks) == 16


def test_who_loses_its_writer_stops(helper: Worker) -> None:
    with GatewayProcess(arguments=("--port", "0", "--workers", "2")) as gateway:
        workers = psutil.Process(gateway.process.pid).children()
        gateway.kill()
        assert not psutil.wait_procs(workers, timeout=30)[1]


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_taken_port_is_said_in_one_line(helper: Worker, workers: str, tmp_path: Path) -> None:
    environ = GatewayProcess(home=tmp_path).environment
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = str(holder.getsockname()[1])
        argv = [sys.executable, "-m", "apps.gateway", "--port", port, "--workers", workers]
        done = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1
    assert f"gateway: cannot listen on 127.0.0.1:{port}" in done.stderr
    assert "Traceback" not in done.stderr
