"""The second tenant: a process of its own that asks the web and the gateway twice a second until its input ends.

Reads one line of JSON, `{"web": url, "gateway": url, "person": token, "agent": token, "words": text}`; in the end it
writes one list of `[began, took_s, status, door]`, times by the clock that all processes of a machine share.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

import httpx

EVERY_S = 0.5
TIMEOUT_S = 60.0


class Answer(NamedTuple):
    """Of one request; status 0: none came.

    Args:
        began: `time.monotonic()`.
    """

    began: float
    took_s: float
    status: int
    door: str


class Neighbour:
    """The process, seen from outside. `with Neighbour(asked) as neighbour: …; neighbour.answers`"""

    def __init__(self, asked: dict[str, str]) -> None:
        self._asked = asked
        self.answers: list[Answer] = []

    def __enter__(self) -> "Neighbour":
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(self._asked) + "\n")
        self._process.stdin.flush()
        return self

    def __exit__(self, *_: object) -> None:
        told = self._process.communicate(timeout=2 * TIMEOUT_S)[0]
        self.answers = sorted(Answer(*row) for row in json.loads(told))


def main() -> None:
    asked, over = json.loads(sys.stdin.readline()), threading.Event()
    answers: list[Answer] = []
    web = httpx.Client(base_url=asked["web"], timeout=TIMEOUT_S, headers={"Authorization": f"Bearer {asked['person']}"})
    headers = {"Authorization": f"Bearer {asked['agent']}", "X-Session-Id": "at work"}
    gateway = httpx.Client(base_url=asked["gateway"], timeout=TIMEOUT_S, headers=headers)
    body = {"model": "helper", "messages": [{"role": "user", "content": asked["words"]}]}
    doors: dict[str, Callable[[], httpx.Response]] = {
        "web": lambda: web.get("/api/v1/tasks?limit=5"),
        "gateway": lambda: gateway.post("/v1/chat/completions", json=body),
    }

    def ask(door: str) -> None:
        while not over.is_set():
            began = time.monotonic()
            try:
                status = doors[door]().status_code
            except httpx.HTTPError:
                status = 0
            took_s = time.monotonic() - began
            answers.append(Answer(began, took_s, status, door))
            over.wait(max(0.0, EVERY_S - took_s))

    threads = [threading.Thread(target=ask, args=(door,)) for door in doors]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    over.set()
    for thread in threads:
        thread.join()
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
