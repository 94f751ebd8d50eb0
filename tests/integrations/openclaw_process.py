"""A real OpenClaw from npm, in a home of its own, on a Node of its own."""

import json
import os
import platform
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tentalis.cli.openclaw import make_patch
from tests.local_server import find_free_port

VERSION = "2026.9.6"
NODE_MAJOR = 24
FILES = Path(__file__).parents[2] / "integrations" / "openclaw"
GATEWAY_TOKEN = "gw-secret-of-this-test"
START_S = 240.0
RUN_S = 240.0


def install() -> Path:
    """The directory with Node and OpenClaw, filled from npm the first time (1 GB, some minutes)."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tentalis-tests"
    place = cache / f"openclaw-{VERSION}-node{NODE_MAJOR}"
    if (place / "whole").exists():
        return place
    shutil.rmtree(place, ignore_errors=True)
    system, machine = platform.system().lower(), {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), "arm64")
    _npm(place / "node", f"node-{system}-{machine}@{NODE_MAJOR}", path=os.environ["PATH"])
    binary = next((place / "node").glob("node_modules/node-*/bin"))
    _npm(place / "openclaw", f"openclaw@{VERSION}", path=f"{binary}{os.pathsep}{os.environ['PATH']}")
    (place / "whole").touch()
    return place


def _npm(place: Path, package: str, *, path: str) -> None:
    place.mkdir(parents=True)
    (place / "package.json").write_text('{"private": true}')
    argv = ["npm", "install", "--no-fund", "--no-audit", "--loglevel=error", package]
    subprocess.run(argv, cwd=place, env=os.environ | {"PATH": path}, check=True, timeout=1200)


def find_path(place: Path) -> str:
    """PATH with our Node and `openclaw` before the machine's."""
    binary = next((place / "node").glob("node_modules/node-*/bin"))
    return os.pathsep.join([str(binary), str(place / "openclaw" / "node_modules" / ".bin"), os.environ["PATH"]])


class OpenClaw:
    """One OpenClaw, configured by `tentalis openclaw configure`.

    Args:
        home: where it keeps everything.
        gateway, url: of ours. key: the agent's token.
        workers: its models; the first is its default.
        max_tokens: of an answer.
        is_plain: the agent has neither tools nor skills, and reads no files of its workspace: for small models.
    """

    def __init__(
        self,
        home: Path,
        *,
        gateway: str,
        url: str,
        key: str,
        workers: list[str],
        plugin: bool = True,
        max_tokens: int = 2048,
        is_plain: bool = False,
    ) -> None:
        self.home = home
        self.port = find_free_port()
        self.url = f"http://127.0.0.1:{self.port}/v1"
        self.log = home / "gateway.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._environment = {
            "PATH": find_path(install()),
            "HOME": str(home),
            "TENTALIS_AGENT_KEY": key,
            "OPENCLAW_DISABLE_UPDATE_CHECK": "1",
        }
        patch = make_patch(
            workers,
            gateway=gateway,
            url=url,
            context_tokens=65_536,
            max_tokens=max_tokens,
            plugin=FILES / "plugin" if plugin else None,
            skills=None if is_plain else FILES / "skills",
            inbound=True,
            plain=is_plain,
        )
        patch["gateway"] |= {
            "mode": "local",
            "port": self.port,
            "bind": "loopback",
            "auth": {"mode": "token", "token": GATEWAY_TOKEN},
        }
        state = home / ".openclaw"
        state.mkdir(parents=True)
        (state / "openclaw.json").write_text(json.dumps(patch, indent=1))

    def __enter__(self) -> Self:
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                ["openclaw", "gateway", "run"],
                executable=shutil.which("openclaw", path=self._environment["PATH"]),
                env=self._environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        until = time.monotonic() + START_S
        while not self._answers():
            assert self._process.poll() is None, self.log.read_text()
            assert time.monotonic() < until, f"OpenClaw did not start in {START_S:g} s:\n{self.log.read_text()}"
            time.sleep(0.2)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(120)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/healthz", timeout=5):
                return True
        except OSError:
            return False

    def say(self, words: str, *, session_key: str) -> str:
        """One turn in a session, as a person at a terminal would have it; what the agent answered."""
        body = {"model": "openclaw/default", "messages": [{"role": "user", "content": words}]}
        headers = {
            "Authorization": f"Bearer {GATEWAY_TOKEN}",
            "Content-Type": "application/json",
            "x-openclaw-session-key": session_key,
        }
        request = urllib.request.Request(f"{self.url}/chat/completions", json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=RUN_S) as answer:
                return str(json.load(answer)["choices"][0]["message"]["content"])
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{error.code}: {error.read()!r}\n{self.log.read_text()[-4000:]}") from error

    def run(self, *words: str) -> str:
        """What a command of its command line printed."""
        done = subprocess.run(
            [shutil.which("openclaw", path=self._environment["PATH"]) or "openclaw", *words],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=RUN_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def json(self, *words: str) -> Any:
        """The same, as JSON."""
        return json.loads(self.run(*words, "--json"))
