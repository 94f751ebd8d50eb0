"""Clients that never give up: each request has one key over all its tries, and every try's fate is in the history."""

import itertools
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.chaos.history import History

TIMEOUT_S = 10.0
PAUSE_S = 0.25
PATIENCE_S = 120.0


class GaveUpError(Exception):
    """The server did not answer as it promised, for as long as a patient client waits."""


@dataclass(frozen=True)
class Order:
    """A task to submit: the client's name of it, and the request's body."""

    key: str
    body: Mapping[str, Any]


@dataclass
class Tally:
    """What the clients met on the way."""

    retries: int = 0
    server_errors: list[str] = field(default_factory=list)


class PatientClient:
    """Sends a request again until it is answered: a dead server, 409, 429 and 503 mean later."""

    def __init__(self, base_url: str, token: str, tally: Tally) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        self._http = httpx.Client(base_url=f"{base_url}/api/v1/", headers=headers, timeout=TIMEOUT_S)
        self.tally = tally

    def __enter__(self) -> "PatientClient":
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def send(self, method: str, path: str, body: Mapping[str, Any] | None = None, *, key: str = "") -> httpx.Response:
        """The answer, whatever its status but those that mean later.

        Raises:
            GaveUpError: none came in time.
        """
        headers = {"Idempotency-Key": key} if key else {}
        deadline = time.monotonic() + PATIENCE_S
        found = "no answer"
        while time.monotonic() < deadline:
            try:
                answer = self._http.request(method, path, json=body, headers=headers)
            except httpx.TransportError as error:
                found = repr(error)
            else:
                if not _means_later(answer):
                    return answer
                found = f"{answer.status_code}: {answer.text[:300]}"
                if answer.status_code >= 500 and answer.status_code != 503:
                    self.tally.server_errors.append(found)
            self.tally.retries += 1
            time.sleep(PAUSE_S)
        raise GaveUpError(f"{method} {path}: {found}")

    def create(self, path: str, body: Mapping[str, Any], *, key: str) -> dict[str, Any]:
        """Create a thing once, however often that takes to say.

        Raises:
            GaveUpError: it was refused.
        """
        answer = self.send("POST", path, body, key=key)
        if answer.status_code != 201:
            raise GaveUpError(f"POST {path}: wanted 201, found {answer.status_code}: {answer.text[:300]}")
        return dict(answer.json())


def _means_later(answer: httpx.Response) -> bool:
    """Whether the same request should be sent again: the server is away or busy, or at work on the first try."""
    if answer.status_code == 409:
        return '"still_running"' in answer.text
    return answer.status_code == 429 or answer.status_code >= 500


def submit_all(client: PatientClient, orders: Sequence[Order], history: History, *, over_s: float) -> None:
    """Submit the orders, evenly over a while; what the server is too slow for comes as fast as it can."""
    began = time.monotonic()
    for number, order in enumerate(orders):
        if (early_s := began + over_s * number / len(orders) - time.monotonic()) > 0:
            time.sleep(early_s)
        history.note("invoke", "submit", order.key)
        body = {**order.body, "metadata": {"key": order.key}}
        try:
            task = client.create("tasks", body, key=order.key)
        except GaveUpError as error:
            history.note("fail", "submit", order.key, words=str(error))
        else:
            history.note("ok", "submit", order.key, id=task["id"])


def review_until(
    client: PatientClient,
    project: str,
    history: History,
    stop: threading.Event,
    *,
    scores: Iterator[float],
    name: str,
) -> None:
    """Take the project's reviews one after another and judge each once, until told to stop.

    Args:
        name: the reviewer's; part of the keys of its requests.
    """
    for number in itertools.count():
        if stop.is_set():
            return
        # under a key, for a claim whose answer was lost keeps the review from everybody else
        answer = client.send("POST", "reviews/claim", {"project": project}, key=f"claim-{name}-{number}")
        if answer.status_code != 200:
            stop.wait(PAUSE_S)
            continue
        review = answer.json()
        key = f"feedback-{review['id']}"
        history.note("invoke", "feedback", key)
        words = {"score": next(scores), "text": f"seen: task {review['task']}"}
        answer = client.send("POST", f"reviews/{review['id']}/feedback", words, key=key)
        if answer.status_code == 201:
            history.note("ok", "feedback", key, id=answer.json()["id"])
        else:
            history.note("fail", "feedback", key, words=f"{answer.status_code}: {answer.text[:200]}")
