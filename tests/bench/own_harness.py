"""A harness that a team has already: it plans and then answers, by two calls a try, and knows the platform's addresses.

It takes whatever waits at the door for its worker, asks through the gateway, and hands in. It does not look at whether
a task is work or a try of an evaluation.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread
from typing import Any, Self

import httpx

AT_ONCE, POLL_S = 24, 0.1
LONGEST = 44
"""Tokens of an answer."""
_OPTIONS = ["ship", "gift", "plain", "full", "fee", "none", "two", "three", "flat", "send", "ask", "cash"]
_OPTION = re.compile(rf"<step> ({'|'.join(_OPTIONS)})\b")


def make_request(model: str, prompt: str, **sampling: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": prompt}]
    return {"model": model, "messages": messages, "max_tokens": LONGEST, "temperature": 1.0} | sampling


def look_up(prompt: str, plan: str) -> str:
    """The harness's tool: what it puts before the model after its plan."""
    option = next(iter(reversed(_OPTION.findall(plan))), "")
    hints = [*([f"use {option}"] if option else []), "write the unit", "check the sum"]
    return f"{prompt} Hint: {', '.join(hints)}."


def try_at_server(model_url: str, model: str, prompt: str, *, tries: int, seed: int) -> list[str]:
    """What it comes to when it asks the team's server itself, which the platform has nothing to do with."""
    with httpx.Client(base_url=f"{model_url}/v1/", timeout=60) as http:

        def say(asked: str, count: int) -> list[str]:
            body = make_request(model, asked, n=count, seed=seed)
            answer = http.post("chat/completions", json=body).raise_for_status().json()
            return [choice["message"]["content"] for choice in answer["choices"]]

        shown = Counter(look_up(prompt, plan) for plan in say(prompt, tries))
        return [text for asked, count in shown.items() for text in say(asked, count)]


class Harness:
    """Works until the block ends; what it was refused is in `refusals`."""

    def __init__(
        self, addresses: Mapping[str, str], *, token: str, project: str, worker: str, read: Callable[[str], str]
    ) -> None:
        headers = {"Authorization": f"Bearer {token}", "X-Tentalis-Project": project}
        limits = httpx.Limits(max_connections=AT_ONCE)
        self._door = httpx.Client(
            base_url=f"{addresses['console_url']}/api/v1/", headers=headers, limits=limits, timeout=60
        )
        self._gateway = httpx.Client(
            base_url=f"{addresses['gateway_url']}/v1/", headers=headers, limits=limits, timeout=60
        )
        self._worker, self._read = worker, read
        self._stop, self._thread = Event(), Thread(target=self._work, name="harness")
        self.refusals: Counter[str] = Counter()
        self.done = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._door.close()
        self._gateway.close()

    def _work(self) -> None:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            while not self._stop.wait(POLL_S):
                while (tasks := self._find_open()) and not self._stop.is_set():
                    list(pool.map(self._do, tasks))

    def _find_open(self) -> Sequence[Mapping[str, Any]]:
        params = {"worker": self._worker, "state": "queued", "limit": 200}
        answer = self._send(self._door, "GET", "tasks", params=params)
        return [] if answer is None else list(answer["results"])

    def _do(self, task: Mapping[str, Any]) -> None:
        """All tries of a task."""
        size = task["group_size"]
        for index in range(size):
            if self._stop.is_set():
                return
            if (said := self._try(task, index)) is None:
                return
            body = {"task": task["id"], "index": index, "answer": said, "last": index == size - 1}
            if self._send(self._door, "POST", "attempts", json=body) is None:
                return
            self.done += 1

    def _try(self, task: Mapping[str, Any], index: int) -> str | None:
        headers = {"X-Tentalis-Task": str(task["id"]), "X-Tentalis-Attempt": str(index)}
        asked = task["prompt"]
        for call in range(2):
            body = make_request(self._worker, asked)
            answer = self._send(self._gateway, "POST", "chat/completions", json=body, headers=headers)
            if answer is None:
                return None
            said: str = answer["choices"][0]["message"]["content"]
            asked = look_up(task["prompt"], said) if not call else asked
        return self._read(said) or said.strip() or "nothing"

    def _send(self, http: httpx.Client, method: str, path: str, **asked: Any) -> Mapping[str, Any] | None:
        try:
            answer = http.request(method, path, **asked)
        except httpx.TransportError as error:
            self.refusals[f"{path}: {error!r}"] += 1
            return None
        if not answer.is_success:
            self.refusals[f"{path}: {answer.status_code} {answer.text[:300]}"] += 1
            return None
        found: Mapping[str, Any] = answer.json()
        return found
