"""What a transport has to refuse before any tool is called."""

import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

HELLO = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
ACCEPT = {"Accept": "application/json, text/event-stream", "Authorization": "Bearer tnt_x"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": ""}, 401),
        ({"Authorization": "Basic YTpi"}, 401),
        ({"Host": "evil.example"}, 421),
        ({"Origin": "http://evil.example"}, 403),
    ],
)
def test_a_request_from_elsewhere_is_refused(http_url: str, headers: dict[str, str], status: int) -> None:
    answer = httpx.post(http_url, json=HELLO, headers=ACCEPT | headers, trust_env=False)
    assert answer.status_code == status, answer.text


def test_without_a_token_it_does_not_start(tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "TENTALIS_HOME": str(tmp_path)}
    argv = [sys.executable, "-m", "tentalis", "mcp"]
    done = subprocess.run(argv, env=env, input="", capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "tentalis login" in done.stderr
